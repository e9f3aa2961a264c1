//! Commands that the documentation names.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn page(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap()
}

/// The Markdown pages of a folder, with those of the folders in it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// Subcommands of `whittle` in a text: the words between the program's name and the first argument.
fn commands(text: &str) -> BTreeSet<Vec<String>> {
    let after = text
        .split(['`', '\n'])
        .filter_map(|part| part.strip_prefix("whittle "));
    let words = |part: &str| -> Vec<String> {
        let is_command = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
        part.split_whitespace()
            .take_while(is_command)
            .map(str::to_owned)
            .collect()
    };
    after.map(words).filter(|words| !words.is_empty()).collect()
}

#[test]
fn every_command_in_the_documentation_exists() {
    let mut named = BTreeSet::new();
    for page in pages(&docs()) {
        named.extend(commands(&fs::read_to_string(page).unwrap()));
    }
    assert!(named.len() >= 20, "{named:?}");
    for command in named {
        let help = Command::new(env!("CARGO_BIN_EXE_whittle"))
            .args(&command)
            .arg("--help")
            .output()
            .unwrap();
        assert!(help.status.success(), "whittle {}", command.join(" "));
    }
}

#[test]
fn every_known_problem_has_a_numbered_row_with_three_cells() {
    let text = page("TROUBLESHOOTING.md");
    let mut numbers = Vec::new();
    for line in text.lines() {
        let row = line.strip_prefix("| ").and_then(|row| row.split_once(". "));
        let Some(number) = row.and_then(|(number, _)| number.parse::<u32>().ok()) else {
            continue;
        };
        numbers.push(number);
        let cells = line.replace("\\|", "").matches('|').count() - 1;
        assert_eq!(
            cells, 3,
            "row {number}: expected symptom, diagnosis and remedy"
        );
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=48).collect::<Vec<_>>());
}
