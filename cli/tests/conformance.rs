//! The recorded decisions in `tests/conformance`, decided by the binary and judged by the corpus' own script.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed step fails the test"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance")
}

fn judge(cases: &str) {
    let cases = folder().join(cases);
    let decided = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .arg("conformance")
        .arg(&cases)
        .output()
        .unwrap();
    assert!(
        decided.status.success(),
        "{}",
        String::from_utf8_lossy(&decided.stderr)
    );
    let scratch = tempfile::tempdir().unwrap();
    let decisions = scratch.path().join("decisions.jsonl");
    std::fs::write(&decisions, decided.stdout).unwrap();
    let judged = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(folder().join("compare.py"))
        .args([&cases, &decisions])
        .output()
        .expect("python3 judges the decisions: install it");
    assert!(
        judged.status.success(),
        "{}{}",
        String::from_utf8_lossy(&judged.stdout),
        String::from_utf8_lossy(&judged.stderr)
    );
}

#[test]
fn every_provisioning_topic_is_decided_as_upstream_does() {
    judge("provisioning-topics.jsonl.gz");
}

#[test]
fn mixed_clusters_that_upstream_always_decides_alike_are_decided_so() {
    judge("provisioning-mixed.jsonl.gz");
}
