//! Rules about dependencies between crates, folders and modules.

mod module_graph;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use module_graph::{ModulePath, circles, dependencies as module_dependencies};

use super::{root, tracked};

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
        6,
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
