//! Recorded decisions of Karpenter's AWS provider, repeated by the binary and compared by the corpus' own script. The sample in
//! `tests/conformance/aws` always runs; the whole corpus runs if its directory exists beside the repository.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a failed step fails the test"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::Value;

/// Files with recorded EC2 responses, which contain no cases.
const RESPONSES: [&str; 3] = [
    "describe-instance-types.json.gz",
    "instance-type-offerings.json.gz",
    "spot-prices.json.gz",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether the binary decides all cases as recorded. The script's report goes to the test's output.
fn is_as_recorded(cases: &Path) -> bool {
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
    let compared = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(repository().join("tests/conformance/compare_aws.py"))
        .args([cases, &decisions])
        .output()
        .expect("the comparison script needs python3: install it");
    eprintln!(
        "{}:\n{}{}",
        cases.display(),
        String::from_utf8_lossy(&compared.stdout),
        String::from_utf8_lossy(&compared.stderr)
    );
    compared.status.success()
}

/// Changes to a file of the whole corpus before the comparison. Its cases must be decided as recorded, except where the recording has
/// an artifact.
enum Corpus {
    Unchanged,
    /// Marks this case as one without spot prices. Its recorded state equals that of another case, but it was recorded before the first
    /// spot price refresh.
    WithoutSpotPrices(&'static str),
    /// Omits these cases, whose recorded rejections Karpenter 1.15 accepts.
    Accepted(&'static [&'static str]),
}

fn assert_as_recorded(file: &str, corpus: &Corpus) {
    let sample = repository().join("tests/conformance/aws").join(file);
    assert!(is_as_recorded(&sample), "{}", sample.display());
    let whole = repository().join("../shared/conformance/aws").join(file);
    if !whole.exists() {
        return;
    }
    match corpus {
        Corpus::Unchanged => assert!(is_as_recorded(&whole), "{}", whole.display()),
        Corpus::WithoutSpotPrices(id) => {
            assert_changed_as_recorded(&whole, |cases| {
                let case = cases.iter_mut().find(|other| other["id"] == *id);
                case.unwrap()["state"]["noSpotPrices"] = true.into();
            });
        }
        Corpus::Accepted(ids) => assert_changed_as_recorded(&whole, |cases| {
            let before = cases.len();
            cases.retain(|case| !ids.contains(&case["id"].as_str().unwrap()));
            assert_eq!(cases.len() + ids.len(), before);
        }),
    }
}

/// Compares a copy of a recorded file with some cases changed.
fn assert_changed_as_recorded(whole: &Path, change: impl FnOnce(&mut Vec<Value>)) {
    let packed = std::fs::File::open(whole).unwrap();
    let mut corpus: Value = serde_json::from_reader(GzDecoder::new(packed)).unwrap();
    change(corpus["cases"].as_array_mut().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join(whole.file_name().unwrap());
    write(&copy, &corpus);
    for name in RESPONSES {
        std::fs::copy(whole.with_file_name(name), copy.with_file_name(name)).unwrap();
    }
    assert!(is_as_recorded(&copy), "{}", whole.display());
}

fn write(path: &Path, corpus: &Value) {
    let mut packed = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::fast());
    serde_json::to_writer(&mut packed, corpus).unwrap();
    packed.finish().unwrap();
}

/// Defines one test per file of cases, and one that every file of the sample has a test.
macro_rules! recorded {
    ($($name:ident: $file:literal, $corpus:expr;)+) => {
        #[test]
        fn every_file_of_the_sample_has_a_test() {
            let known = [&RESPONSES[..], &[$($file),+]].concat();
            for file in std::fs::read_dir(repository().join("tests/conformance/aws")).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                assert!(known.contains(&name.as_str()), "{name} has no test");
            }
        }

        $(#[test]
        fn $name() {
            assert_as_recorded($file, &$corpus);
        })+
    };
}

recorded! {
    ami_resolution: "ami-resolution.json.gz", Corpus::Unchanged;
    cel_ec2nodeclass: "cel-ec2nodeclass.json.gz", Corpus::Unchanged;
    cel_nodeclaim_nodeoverlay: "cel-nodeclaim-nodeoverlay.json.gz", Corpus::Unchanged;
    cel_nodepool: "cel-nodepool.json.gz",
        Corpus::Accepted(&["nodepool/disruption-09", "nodepool/disruption-10"]);
    errors: "errors.json", Corpus::Unchanged;
    instance_types_resolved_capacity: "instance-types-resolved-capacity.json.gz", Corpus::Unchanged;
    instance_types_resolved_offerings: "instance-types-resolved-offerings.json.gz",
        Corpus::WithoutSpotPrices("offerings/spot-not-refreshed");
    interruption_messages: "interruption-messages.json.gz", Corpus::Unchanged;
    launch_errors_subnets: "launch-errors-subnets.json.gz", Corpus::Unchanged;
    launch_nodeclass: "launch-nodeclass.json.gz", Corpus::Unchanged;
    launch_reserved_placement: "launch-reserved-placement.json.gz", Corpus::Unchanged;
    launch_selection: "launch-selection.json.gz", Corpus::Unchanged;
    nodeclass_drift: "nodeclass-drift.json.gz", Corpus::Unchanged;
    nodeclass_hash: "nodeclass-hash.json.gz", Corpus::Unchanged;
    nodeclass_legacy_profile_names: "nodeclass-legacy-profile-names.json.gz", Corpus::Unchanged;
    nodeclass_profile: "nodeclass-profile.json.gz", Corpus::Unchanged;
    nodeclass_selectors: "nodeclass-selectors.json.gz", Corpus::Unchanged;
    nodeclass_validation: "nodeclass-validation.json.gz", Corpus::Unchanged;
    userdata_al2: "userdata-al2.json.gz", Corpus::Unchanged;
    userdata_al2023: "userdata-al2023.json.gz", Corpus::Unchanged;
    userdata_bottlerocket: "userdata-bottlerocket.json.gz", Corpus::Unchanged;
    userdata_custom: "userdata-custom.json.gz", Corpus::Unchanged;
    userdata_windows: "userdata-windows.json.gz", Corpus::Unchanged;
}
