//! Rules of the repository as tests: dependencies between crates, and what every function and file must have.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

mod module_graph;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use module_graph::{ModulePath, circles, dependencies as module_dependencies};

/// Allowed normal dependencies of every crate of the workspace on its other crates. A new dependency is a decision: add it here and
/// give the reason in the commit.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    // Data types and pure rules.
    ("model", &[]),
    ("api", &["model"]),
    ("scheduling", &["model"]),
    ("plancheck", &["model"]),
    ("planner", &["api", "model", "scheduling"]),
    ("aws-rules", &["api", "model"]),
    // The view, for its publisher and its readers.
    ("view", &["model"]),
    // Turns, and the ports below them.
    ("ports", &["api", "model"]),
    ("executor", &["api", "model", "ports"]),
    (
        "turns",
        &[
            "api",
            "executor",
            "model",
            "plancheck",
            "planner",
            "ports",
            "view",
        ],
    ),
    // Adapters behind the ports.
    ("signed", &["ports"]),
    ("ec2", &["api", "aws-rules", "model", "ports", "signed"]),
    // Keeps pods in the compact form in which they are published.
    ("k8s", &["api", "model", "ports", "view"]),
    ("ledger", &["model", "ports"]),
    ("dynamo", &["ledger", "model", "ports", "signed"]),
    // The ledger is the real implementation over a table in memory.
    ("fakes", &["api", "ledger", "model", "ports"]),
    ("sandbox", &["api", "aws-rules", "model", "ports"]),
    // Executables.
    (
        "shell",
        &["dynamo", "ec2", "k8s", "ledger", "model", "ports", "turns"],
    ),
    ("provisioner", &["model", "shell"]),
    ("lifecycle", &["model", "shell"]),
    ("disruption", &["model", "shell"]),
    ("terminator", &["model", "shell"]),
    ("interruption", &["aws-rules", "shell"]),
    ("housekeeper", &["shell"]),
    // Parses pods as the functions do, and publishes them in the stack's bucket.
    ("relay", &["api", "model", "ports", "signed", "view"]),
    (
        "whittle",
        &[
            "api",
            "aws-rules",
            // Only with the feature `aws`, as are `ec2` and `ledger`.
            "dynamo",
            "ec2",
            "fakes",
            "k8s",
            "ledger",
            "model",
            "plancheck",
            "planner",
            "ports",
            "sandbox",
            "scheduling",
            "turns",
        ],
    ),
    // Tests, which depend on further crates as development dependencies.
    ("deployed", &["harness", "sandbox"]),
    ("harness", &[]),
    ("protocol", &[]),
    ("scenarios", &[]),
    (
        "simulation",
        &["api", "fakes", "model", "ports", "turns", "view"],
    ),
    ("stories", &["fakes", "model", "ports", "turns", "view"]),
    ("whittle-tests", &[]),
];

/// Allowed dependencies of the folders of `turns` on one another, the lowest first: each depends on those above it in this list.
const FOLDERS_OF_TURNS: &[(&str, &[&str])] = &[
    ("settings", &[]),
    ("context", &["settings"]),
    ("report", &["settings", "context"]),
    ("observe", &["settings", "context", "report"]),
    ("act", &["context", "report", "observe"]),
    (
        "interruption",
        &["settings", "context", "report", "observe"],
    ),
    (
        "lanes",
        &["context", "report", "observe", "act", "interruption"],
    ),
    (
        "sweep",
        &["settings", "context", "report", "act", "interruption"],
    ),
    ("run", &["settings", "context", "report", "lanes"]),
];

/// Upper bound on the modules of a circle: a few that depend on one another can be read as one.
const CIRCLE_MAX: usize = 3;

/// Larger circles that exist: the crate, one of the modules, the number of modules, and the reason.
const CIRCLES: &[(&str, &str, usize, &str)] = &[
    (
        "cli",
        "aws::registry",
        14,
        "commands of registry and settings run the doctor and plans, whose checks read registry and settings",
    ),
    (
        "cli",
        "import::group",
        10,
        "readers of a group's parts fill the group, which calls them",
    ),
    (
        "cli",
        "import::shell::reader",
        4,
        "commands contain words, and words contain commands",
    ),
    (
        "ec2",
        "account",
        5,
        "the account owns the caches of the modules that extend it",
    ),
    (
        "fakes",
        "sim",
        11,
        "the simulated world owns the fakes, which act on the world",
    ),
    (
        "planner",
        "disrupt::context",
        6,
        "the context of a disruption owns the costs by which its moves are judged",
    ),
    (
        "planner",
        "disrupt::methods",
        5,
        "each method uses the budgets and candidates of the evaluation that calls it",
    ),
    (
        "scheduling",
        "placement_context",
        18,
        "the context of a placement owns the indexes that are read through it",
    ),
    (
        "scheduling",
        "rearrange::cluster_model",
        7,
        "the model of the cluster owns the parts that the search changes",
    ),
    (
        "simulation",
        "play",
        6,
        "events act on the play that applies them",
    ),
];

/// Crates without IO, and the dependencies that would introduce IO.
const PURE: &[&str] = &[
    "model",
    "api",
    "scheduling",
    "planner",
    "plancheck",
    "aws-rules",
    "view",
];
const IMPURE: &[&str] = &[
    "tokio",
    "tracing",
    "kube",
    "kube-client",
    "hyper",
    "reqwest",
    "rand",
    "aws-config",
    "lambda_runtime",
];

/// The only workspace crates that may depend on each SDK crate.
const OWNERS: &[(&str, &[&str])] = &[
    ("aws-sdk-autoscaling", &["ec2"]),
    ("aws-sdk-ec2", &["ec2"]),
    ("aws-sdk-ssm", &["ec2"]),
    ("aws-sdk-eks", &["ec2"]),
    ("aws-sdk-iam", &["ec2"]),
    ("aws-sdk-pricing", &["ec2"]),
    ("aws-sdk-dynamodb", &["dynamo", "relay"]),
    ("aws-sdk-sqs", &["dynamo", "relay"]),
    // The suites that deploy the stack access the cluster as its administrator.
    ("kube", &["deployed", "k8s", "relay"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Normal dependencies of each package, as cargo resolves them.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let normal = |package: &serde_json::Value| {
        package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .collect()
    };
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            (
                package["name"].as_str().unwrap().to_owned(),
                normal(package),
            )
        })
        .collect()
}

#[test]
fn dependencies_between_crates_are_allowed() {
    let graph = dependencies();
    let allowed_by_package: BTreeMap<&str, &[&str]> = DEPENDENCIES.iter().copied().collect();
    for (package, dependencies) in &graph {
        let allowed = allowed_by_package
            .get(package.as_str())
            .unwrap_or_else(|| panic!("DEPENDENCIES has no entry for {package}"));
        for dependency in dependencies.iter().filter(|name| graph.contains_key(*name)) {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{package} must not depend on {dependency}"
            );
        }
    }
    for package in allowed_by_package.keys() {
        assert!(
            graph.contains_key(*package),
            "{package} does not exist: remove it from DEPENDENCIES"
        );
    }
}

#[test]
fn folders_of_turns_depend_only_on_lower_ones() {
    let allowed: BTreeMap<&str, &[&str]> = FOLDERS_OF_TURNS.iter().copied().collect();
    for (index, (folder, dependencies)) in FOLDERS_OF_TURNS.iter().enumerate() {
        let lower: Vec<&str> = FOLDERS_OF_TURNS[..index]
            .iter()
            .map(|(name, _)| *name)
            .collect();
        for dependency in *dependencies {
            assert!(
                lower.contains(dependency),
                "{dependency} is not below {folder}"
            );
        }
    }
    let folder_of = |module: &ModulePath| module.0.first().cloned();
    let mut found = BTreeSet::new();
    for (module, dependencies) in module_dependencies(&root().join("shared/turns/src/lib.rs")) {
        let Some(folder) = folder_of(&module) else {
            continue;
        };
        found.insert(folder.clone());
        let allowed = allowed
            .get(folder.as_str())
            .unwrap_or_else(|| panic!("FOLDERS_OF_TURNS has no entry for {folder}"));
        for dependency in dependencies {
            let other = folder_of(&dependency).unwrap_or_default();
            assert!(
                other == folder || allowed.contains(&other.as_str()),
                "{module} is in {folder}, which must not depend on {dependency}"
            );
        }
    }
    assert_eq!(found.len(), allowed.len(), "folders: {found:?}");
}

/// The crates of the workspace by name, each with the root files of its library and its executable.
fn crate_roots() -> Vec<(String, PathBuf)> {
    let sources = tracked(&["src/lib.rs", "src/main.rs"]);
    let named = |file: PathBuf| {
        let folder = file.parent().unwrap().parent().unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        (name.to_owned(), file.clone())
    };
    sources.into_iter().map(named).collect()
}

#[test]
fn modules_depend_on_one_another_in_small_circles_at_most() {
    let mut unexpected = Vec::new();
    let mut expected: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, root) in crate_roots() {
        let circles = circles(&module_dependencies(&root));
        for circle in circles.iter().filter(|circle| circle.len() > CIRCLE_MAX) {
            let exception = CIRCLES.iter().find(|(crate_name, module, _, _)| {
                *crate_name == name && circle.iter().any(|path| path.to_string() == *module)
            });
            match exception {
                Some((crate_name, module, modules, _)) if circle.len() == *modules => {
                    expected.insert((crate_name, module));
                }
                Some(_) | None => {
                    let modules: Vec<String> = circle.iter().map(ToString::to_string).collect();
                    let count = modules.len();
                    unexpected.push(format!("{name}: {count} modules: {}", modules.join(", ")));
                }
            }
        }
    }
    assert!(
        unexpected.is_empty(),
        "circles of modules: move what they share to the lowest of them, or list them in CIRCLES with their number of modules:\n{}",
        unexpected.join("\n")
    );
    for (crate_name, module, _, _) in CIRCLES {
        assert!(
            expected.contains(&(crate_name, module)),
            "{crate_name} has no such circle through {module} any more: remove it from CIRCLES"
        );
    }
}

#[test]
fn pure_crates_depend_on_no_io() {
    let graph = dependencies();
    for package in PURE {
        for dependency in &graph[*package] {
            assert!(
                !IMPURE.contains(&dependency.as_str()) && !dependency.starts_with("aws-sdk"),
                "{package} is pure and must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn each_sdk_has_one_owner() {
    for (package, dependencies) in dependencies() {
        for (sdk, owners) in OWNERS {
            assert!(
                !dependencies.contains(*sdk) || owners.contains(&package.as_str()),
                "{package} must not name {sdk}: only {owners:?} may"
            );
        }
    }
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
