//! Rules of the repository as tests: dependencies between crates, and properties of every function and file.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

mod structure;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn folders(path: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn every_function_has_a_template_resource_a_sample_and_documentation() {
    let template = fs::read_to_string(root().join("sam-template.yaml")).unwrap();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let functions = folders("functions");
    assert_eq!(functions.len(), 6, "six functions, found {functions:?}");
    for function in functions {
        assert!(
            template.contains(&format!("functions/{function}")),
            "sam-template.yaml has no function {function}"
        );
        assert!(
            readme.contains(&function),
            "README.md does not name {function}"
        );
        let samples = folders(&format!("events/{function}"));
        assert!(
            samples.iter().any(|name| name.ends_with(".json")),
            "events/{function} has no sample"
        );
    }
}

/// All files tracked by git with these endings.
fn tracked(endings: &[&str]) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let files = String::from_utf8(output.stdout).unwrap();
    let files: Vec<_> = files
        .lines()
        .filter(|file| endings.iter().any(|ending| file.ends_with(ending)))
        .map(|file| root().join(file))
        .collect();
    assert!(!files.is_empty());
    files
}

#[test]
fn source_files_have_at_most_a_thousand_lines() {
    for file in tracked(&[".rs"]) {
        let lines = fs::read_to_string(&file)
            .unwrap_or_default()
            .lines()
            .count();
        assert!(
            lines <= 1_000,
            "{} has {lines} lines: split it by concept",
            file.display()
        );
    }
}

/// Openings by which a comment hides its subject. A comment starts with a noun phrase or a verb in the third person.
const BANNED_OPENINGS: &[&str] = &["So long ", "So often ", "They "];

/// First lines of the comments of a Rust source, with their line numbers.
fn comment_openings(source: &str) -> Vec<(usize, &str)> {
    let mut openings = Vec::new();
    let mut is_continued = false;
    for (index, line) in source.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let text = comment.map_or("", |comment| {
            comment.trim_start_matches(['/', '!']).trim_start()
        });
        if !text.is_empty() && !is_continued {
            openings.push((index + 1, text));
        }
        is_continued = !text.is_empty();
    }
    openings
}

#[test]
fn comments_start_with_their_subject() {
    let mut violations = Vec::new();
    for file in tracked(&[".rs"]) {
        let source = fs::read_to_string(&file).unwrap_or_default();
        for (line, opening) in comment_openings(&source) {
            if BANNED_OPENINGS
                .iter()
                .any(|banned| opening.starts_with(*banned))
            {
                violations.push(format!("{}:{line}: {opening}", file.display()));
            }
        }
    }
    assert!(
        violations.is_empty(),
        "comments without a subject:\n{}",
        violations.join("\n")
    );
}

#[test]
fn every_crate_documents_its_purpose_and_dependencies() {
    for file in tracked(&["src/lib.rs"]) {
        let text = fs::read_to_string(&file).unwrap();
        let opening: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        let opening = opening.join(" ");
        assert!(
            opening.contains("depend"),
            "{} must begin with the crate's purpose and the dependencies it must never have",
            file.display()
        );
    }
}

#[test]
fn every_suite_is_a_test_target() {
    let manifest = fs::read_to_string(root().join("tests/Cargo.toml")).unwrap();
    for suite in folders("tests/suites")
        .iter()
        .filter(|name| name.ends_with(".rs"))
    {
        assert!(
            manifest.contains(&format!("suites/{suite}")),
            "tests/Cargo.toml has no [[test]] for suites/{suite}"
        );
    }
}

#[test]
fn alarms_use_published_metrics() {
    let template = fs::read_to_string(root().join("sam-template.yaml")).unwrap();
    let files = ["metrics.rs", "metrics/troubles.rs"];
    let counted = files
        .map(|file| fs::read_to_string(root().join("shared/turns/src/report").join(file)).unwrap());
    let counted = counted.concat();
    let of_ours = template.split("Namespace: Whittle\n").skip(1);
    let names: Vec<&str> = of_ours
        .map(|rest| rest.lines().next().unwrap().trim())
        .map(|line| line.strip_prefix("MetricName: ").unwrap())
        .collect();
    assert!(
        !names.is_empty(),
        "the template has no alarms on published metrics"
    );
    for name in names {
        assert!(counted.contains(&format!("\"{name}\"")), "{name}");
    }
}

/// Splits a text after its leading ASCII letters and digits and the characters in `others`.
fn split_after<'t>(text: &'t str, others: &str) -> (&'t str, &'t str) {
    let belongs = |character: char| character.is_ascii_alphanumeric() || others.contains(character);
    let end = text.find(|character| !belongs(character));
    text.split_at(end.unwrap_or(text.len()))
}

/// Citations by path, such as `docs/protocol.md#a5`, as pairs of page, relative to the root of the repository, and anchor.
fn citations(text: &str) -> Vec<(&str, &str)> {
    text.match_indices("docs/")
        .filter_map(|(start, _)| {
            let (page, rest) = split_after(text.get(start..)?, "/.-_");
            let (anchor, _) = split_after(rest.strip_prefix('#')?, "-_");
            page.ends_with(".md").then_some((page, anchor))
        })
        .collect()
}

/// Links of a Markdown page to anchors, as pairs of page, relative to the linking one and empty for itself, and anchor.
fn links(text: &str) -> Vec<(&str, &str)> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')')?.0.split_once('#'))
        .filter(|(page, _)| page.is_empty() || page.ends_with(".md") && !page.contains("://"))
        .collect()
}

/// Anchors of a Markdown page: explicit ones, and those that GitHub derives from headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let explicit = page
        .split("<a id=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .map(|(anchor, _)| anchor.to_owned());
    let headings = page
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor_of_heading(line.trim_start_matches('#').trim()));
    explicit.chain(headings).collect()
}

fn anchor_of_heading(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

#[test]
fn every_cited_anchor_exists() {
    let mut pages: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut dangling = Vec::new();
    for file in tracked(&[".rs", ".md", ".yaml", ".toml"]) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let mut targets: Vec<(PathBuf, &str)> = citations(&text)
            .into_iter()
            .map(|(page, anchor)| (root().join(page), anchor))
            .collect();
        if file.extension().is_some_and(|extension| extension == "md") {
            let folder = file.parent().unwrap();
            targets.extend(links(&text).into_iter().map(|(page, anchor)| {
                let page = match page {
                    "" => file.clone(),
                    page => folder.join(page),
                };
                (page, anchor)
            }));
        }
        for (page, anchor) in targets {
            let known = pages
                .entry(page.clone())
                .or_insert_with(|| anchors(&fs::read_to_string(&page).unwrap_or_default()));
            if !known.contains(anchor) {
                dangling.push(format!(
                    "{} cites {}#{anchor}",
                    file.display(),
                    page.display()
                ));
            }
        }
    }
    assert!(!pages.is_empty(), "no citation was found");
    assert!(
        dangling.is_empty(),
        "anchors that do not exist:\n{}",
        dangling.join("\n")
    );
}
