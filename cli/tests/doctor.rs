//! `whittle doctor`, run on the objects of each `doctor/<name>.yaml` and compared with the golden file `doctor/<name>.out`.
//! `UPDATE_EXPECT=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use expect_test::expect_file;
use harness::{stderr_of, stdout_of};
use sandbox::{Sandbox, SandboxOptions, server::WriteOptions};
use serde_json::json;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor")
}

fn doctor(arguments: &[&str]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle
        .args(["doctor", "--now", "2026-01-01T12:00:00Z"])
        .args(arguments)
        .env("KUBECONFIG", "/nonexistent")
        .current_dir(folder());
    whittle.output().unwrap()
}

#[test]
fn findings_of_every_example_match_its_golden_file() {
    for (name, code) in [("troubled", 1), ("windows", 1), ("old", 1), ("well", 0)] {
        let output = doctor(&["--manifests", &format!("{name}.yaml")]);
        assert_eq!(stderr_of(&output), "", "{name}");
        expect_file![folder().join(format!("{name}.out"))].assert_eq(&stdout_of(&output));
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
}

#[test]
fn crds_of_the_chart_are_valid() {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart/charts/crds/templates");
    let mut files: Vec<String> = std::fs::read_dir(crds)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|file| file.ends_with(".yaml"))
        .collect();
    files.sort();
    let mut arguments = vec!["--manifests"];
    arguments.extend(files.iter().map(String::as_str));
    let report = stdout_of(&doctor(&arguments));
    // Helm adds its ownership labels only when it installs the CRDs.
    assert!(report.starts_with("1 found"), "{report}");
    assert!(report.contains("7. CRDs that no chart owns"), "{report}");
}

/// Rows of TROUBLESHOOTING.md that `doctor` can detect from the objects of a cluster.
const DETECTED: [&str; 26] = [
    "2", "4", "5", "11", "12", "14", "16", "18", "19", "20", "21", "24", "25", "28", "29", "30",
    "31", "32", "35", "39", "40", "42", "44", "45", "46", "47",
];

#[test]
fn numbers_of_findings_are_rows_of_troubleshooting() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/TROUBLESHOOTING.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(". "))
        .map(|(number, _)| number)
        .collect();
    let mut named = BTreeSet::new();
    for name in ["troubled", "windows", "old"] {
        let report = std::fs::read_to_string(folder().join(format!("{name}.out"))).unwrap();
        let findings = report.lines().filter_map(|line| line.strip_prefix("- "));
        for numbers in findings.filter_map(|line| line.split_once(". ")) {
            let numbers = numbers.0.split(", ");
            for number in numbers.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
            {
                assert!(rows.contains(number), "{number}");
                named.insert(number.to_owned());
            }
        }
    }
    for number in DETECTED {
        assert!(named.contains(number), "no example has row {number}");
    }
}

#[test]
fn missing_source_names_the_context_option() {
    let refused = doctor(&[]);
    assert!(!refused.status.success());
    assert!(stderr_of(&refused).contains("--context"), "{refused:?}");
}

/// A server without Karpenter's CRDs, with one pod and a StorageClass of a deprecated provisioner.
#[tokio::test(flavor = "multi_thread")]
async fn running_cluster_is_checked_and_missing_resources_are_reported() {
    let server = Sandbox::start(SandboxOptions::default()).await.unwrap();
    for (namespace, object) in [
        (
            "default",
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
                "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
            }),
        ),
        (
            "",
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp2"},
                "provisioner": "kubernetes.io/aws-ebs",
            }),
        ),
    ] {
        server.with(|world, now| {
            let version = object["apiVersion"].as_str().unwrap();
            let kind = object["kind"].as_str().unwrap();
            let kind = world.server.kinds.by_kind(version, kind).unwrap().clone();
            let options = WriteOptions::default();
            let created = world
                .server
                .create(&kind, namespace, object.clone(), &options, now);
            created.unwrap();
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    std::fs::write(&kubeconfig, server.kubeconfig_yaml()).unwrap();
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle
        .args(["doctor", "--context", "sandbox"])
        .env("KUBECONFIG", &kubeconfig);
    let run = tokio::task::spawn_blocking(move || whittle.output().unwrap());
    let output = run.await.unwrap();
    let report = stdout_of(&output);
    assert!(
        report.contains("namespace default: 1 pod"),
        "{report}{output:?}"
    );
    assert!(report.contains("StorageClass gp2"), "{report}");
}
