//! `whittle doctor`, by pages: objects of a cluster go in, `doctor/<name>.out` is what is found. `UPDATE_EXPECT=1` writes it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use expect_test::expect_file;
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
        .current_dir(folder());
    whittle.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_page_comes_out_as_it_says() {
    for (name, code) in [("troubled", 1), ("windows", 1), ("old", 1), ("well", 0)] {
        let output = doctor(&["--manifests", &format!("{name}.yaml")]);
        assert_eq!(text(&output.stderr), "", "{name}");
        expect_file![folder().join(format!("{name}.out"))].assert_eq(&text(&output.stdout));
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
}

#[test]
fn the_crds_of_the_chart_are_as_they_should_be() {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/chart/charts/crds/templates");
    let mut files: Vec<String> = std::fs::read_dir(crds)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|file| file.ends_with(".yaml"))
        .collect();
    files.sort();
    let mut arguments = vec!["--manifests"];
    arguments.extend(files.iter().map(String::as_str));
    let told = text(&doctor(&arguments).stdout);
    // Helm writes who owns them when it installs them.
    assert!(told.starts_with("1 found"), "{told}");
    assert!(told.contains("7. CRDs that no chart owns"), "{told}");
}

/// The rows of which something in a cluster shows that they are so.
const DETECTED: [&str; 26] = [
    "2", "4", "5", "11", "12", "14", "16", "18", "19", "20", "21", "24", "25", "28", "29", "30",
    "31", "32", "35", "39", "40", "42", "44", "45", "46", "47",
];

#[test]
fn the_numbers_of_findings_are_rows_of_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/TROUBLESHOOTING.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(". "))
        .map(|(number, _)| number)
        .collect();
    let mut named = BTreeSet::new();
    for name in ["troubled", "windows", "old"] {
        let told = std::fs::read_to_string(folder().join(format!("{name}.out"))).unwrap();
        let findings = told.lines().filter_map(|line| line.strip_prefix("- "));
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
        assert!(named.contains(number), "no page has row {number}");
    }
}

#[test]
fn without_anything_to_look_at_it_says_what_to_name() {
    let refused = doctor(&[]);
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("--context"), "{refused:?}");
}

/// A server without Karpenter's CRDs, one pod, and a StorageClass of old.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_cluster_is_looked_at_and_what_it_does_not_serve_is_told() {
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
    let told = text(&output.stdout);
    assert!(
        told.contains("namespace default: 1 pod"),
        "{told}{output:?}"
    );
    assert!(told.contains("StorageClass gp2"), "{told}");
}
