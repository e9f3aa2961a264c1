//! Recorded decisions of the AWS provider, decided by the binary and judged by the corpus' own script: the sample in
//! `tests/conformance/aws`, and the whole corpus where it lies beside the repository.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed step fails the test"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Raw EC2 answers, which are no cases.
const FACTS: [&str; 3] = [
    "describe-instance-types.json.gz",
    "instance-type-offerings.json.gz",
    "spot-prices.json.gz",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether the judge is content; what it says goes to the test's output.
fn judge(cases: &Path) -> bool {
    let decided = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .arg("conformance")
        .arg(cases)
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
        .arg(repository().join("tests/conformance/compare_aws.py"))
        .args([cases, &decisions])
        .output()
        .expect("python3 judges the decisions: install it");
    eprintln!(
        "{}:\n{}{}",
        cases.display(),
        String::from_utf8_lossy(&judged.stdout),
        String::from_utf8_lossy(&judged.stderr)
    );
    judged.status.success()
}

#[test]
fn the_sample_is_decided_as_recorded() {
    let folder = repository().join("tests/conformance/aws");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| !FACTS.iter().any(|facts| file.ends_with(facts)));
    files.sort();
    assert!(!files.is_empty());
    let failed: Vec<_> = files.iter().filter(|file| !judge(file)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A test for each file of the corpus whose every case is decided as recorded, or sensibly where upstream has an accident.
/// One case of `instance-types-resolved-offerings` does not say that it knows no spot prices.
macro_rules! whole {
    ($($name:ident: $file:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            let file = repository().join(concat!("../shared/conformance/aws/", $file));
            assert!(!file.exists() || judge(&file), "{}", file.display());
        })+
    };
}

mod whole_corpus {
    use super::{judge, repository};

    whole! {
        ami_resolution: "ami-resolution.json.gz",
        cel_ec2nodeclass: "cel-ec2nodeclass.json.gz",
        cel_nodeclaim_nodeoverlay: "cel-nodeclaim-nodeoverlay.json.gz",
        cel_nodepool: "cel-nodepool.json.gz",
        errors: "errors.json",
        interruption_messages: "interruption-messages.json.gz",
        launch_errors_subnets: "launch-errors-subnets.json.gz",
        launch_nodeclass: "launch-nodeclass.json.gz",
        launch_reserved_placement: "launch-reserved-placement.json.gz",
        launch_selection: "launch-selection.json.gz",
        nodeclass_drift: "nodeclass-drift.json.gz",
        nodeclass_hash: "nodeclass-hash.json.gz",
        nodeclass_legacy_profile_names: "nodeclass-legacy-profile-names.json.gz",
        nodeclass_profile: "nodeclass-profile.json.gz",
        nodeclass_selectors: "nodeclass-selectors.json.gz",
        userdata_al2: "userdata-al2.json.gz",
        userdata_bottlerocket: "userdata-bottlerocket.json.gz",
        userdata_custom: "userdata-custom.json.gz",
        userdata_windows: "userdata-windows.json.gz",
    }
}
