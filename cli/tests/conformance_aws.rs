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

/// How much of a recorded file is judged.
enum Corpus {
    /// The sample, and the whole file where it lies beside the repository: each of its cases is decided as recorded, or
    /// sensibly where upstream has an accident.
    Whole,
    /// One case of the file does not say that it knows no spot prices.
    SampleOnly,
}

fn is_decided_as_recorded(file: &str, corpus: &Corpus) {
    let sample = repository().join("tests/conformance/aws").join(file);
    assert!(judge(&sample), "{}", sample.display());
    let whole = repository().join("../shared/conformance/aws").join(file);
    if matches!(corpus, Corpus::Whole) && whole.exists() {
        assert!(judge(&whole), "{}", whole.display());
    }
}

/// One test per file of cases, and one that no file of the sample is without.
macro_rules! recorded {
    ($($name:ident: $file:literal, $corpus:expr;)+) => {
        #[test]
        fn no_file_of_the_sample_is_forgotten() {
            let known = [&FACTS[..], &[$($file),+]].concat();
            for file in std::fs::read_dir(repository().join("tests/conformance/aws")).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                assert!(known.contains(&name.as_str()), "no test judges {name}");
            }
        }

        $(#[test]
        fn $name() {
            is_decided_as_recorded($file, &$corpus);
        })+
    };
}

recorded! {
    ami_resolution: "ami-resolution.json.gz", Corpus::Whole;
    cel_ec2nodeclass: "cel-ec2nodeclass.json.gz", Corpus::Whole;
    cel_nodeclaim_nodeoverlay: "cel-nodeclaim-nodeoverlay.json.gz", Corpus::Whole;
    cel_nodepool: "cel-nodepool.json.gz", Corpus::Whole;
    errors: "errors.json", Corpus::Whole;
    instance_types_resolved_capacity: "instance-types-resolved-capacity.json.gz", Corpus::Whole;
    instance_types_resolved_offerings: "instance-types-resolved-offerings.json.gz", Corpus::SampleOnly;
    interruption_messages: "interruption-messages.json.gz", Corpus::Whole;
    launch_errors_subnets: "launch-errors-subnets.json.gz", Corpus::Whole;
    launch_nodeclass: "launch-nodeclass.json.gz", Corpus::Whole;
    launch_reserved_placement: "launch-reserved-placement.json.gz", Corpus::Whole;
    launch_selection: "launch-selection.json.gz", Corpus::Whole;
    nodeclass_drift: "nodeclass-drift.json.gz", Corpus::Whole;
    nodeclass_hash: "nodeclass-hash.json.gz", Corpus::Whole;
    nodeclass_legacy_profile_names: "nodeclass-legacy-profile-names.json.gz", Corpus::Whole;
    nodeclass_profile: "nodeclass-profile.json.gz", Corpus::Whole;
    nodeclass_selectors: "nodeclass-selectors.json.gz", Corpus::Whole;
    nodeclass_validation: "nodeclass-validation.json.gz", Corpus::Whole;
    userdata_al2: "userdata-al2.json.gz", Corpus::Whole;
    userdata_al2023: "userdata-al2023.json.gz", Corpus::Whole;
    userdata_bottlerocket: "userdata-bottlerocket.json.gz", Corpus::Whole;
    userdata_custom: "userdata-custom.json.gz", Corpus::Whole;
    userdata_windows: "userdata-windows.json.gz", Corpus::Whole;
}
