//! Recorded decisions of the AWS provider, decided by the binary and judged by the corpus' own script: the sample in
//! `tests/conformance/aws`, and the whole corpus where it lies beside the repository.

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

/// How a recorded file is judged where it lies beside the repository: each of its cases is decided as recorded, or sensibly
/// where upstream has an accident.
enum Corpus {
    AsItIs,
    /// Has the same facts in two cases, one of which is about spot prices that nobody has asked for yet: it is told so.
    WithoutSpotPrices(&'static str),
    /// Karpenter 1.15 accepts what these cases record as refused.
    Accepted(&'static [&'static str]),
}

fn is_decided_as_recorded(file: &str, corpus: &Corpus) {
    let sample = repository().join("tests/conformance/aws").join(file);
    assert!(judge(&sample), "{}", sample.display());
    let whole = repository().join("../shared/conformance/aws").join(file);
    if !whole.exists() {
        return;
    }
    match corpus {
        Corpus::AsItIs => assert!(judge(&whole), "{}", whole.display()),
        Corpus::WithoutSpotPrices(case) => {
            is_decided_changed(&whole, |cases| {
                let told = cases.iter_mut().find(|other| other["id"] == *case);
                told.unwrap()["state"]["noSpotPrices"] = true.into();
            });
        }
        Corpus::Accepted(ids) => is_decided_changed(&whole, |cases| {
            let before = cases.len();
            cases.retain(|case| !ids.contains(&case["id"].as_str().unwrap()));
            assert_eq!(cases.len() + ids.len(), before);
        }),
    }
}

/// Judges a copy of a recorded file with some cases changed.
fn is_decided_changed(whole: &Path, change: impl FnOnce(&mut Vec<Value>)) {
    let packed = std::fs::File::open(whole).unwrap();
    let mut corpus: Value = serde_json::from_reader(GzDecoder::new(packed)).unwrap();
    change(corpus["cases"].as_array_mut().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join(whole.file_name().unwrap());
    write(&told, &corpus);
    for facts in FACTS {
        std::fs::copy(whole.with_file_name(facts), told.with_file_name(facts)).unwrap();
    }
    assert!(judge(&told), "{}", whole.display());
}

fn write(path: &Path, corpus: &Value) {
    let mut packed = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::fast());
    serde_json::to_writer(&mut packed, corpus).unwrap();
    packed.finish().unwrap();
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
    ami_resolution: "ami-resolution.json.gz", Corpus::AsItIs;
    cel_ec2nodeclass: "cel-ec2nodeclass.json.gz", Corpus::AsItIs;
    cel_nodeclaim_nodeoverlay: "cel-nodeclaim-nodeoverlay.json.gz", Corpus::AsItIs;
    cel_nodepool: "cel-nodepool.json.gz",
        Corpus::Accepted(&["nodepool/disruption-09", "nodepool/disruption-10"]);
    errors: "errors.json", Corpus::AsItIs;
    instance_types_resolved_capacity: "instance-types-resolved-capacity.json.gz", Corpus::AsItIs;
    instance_types_resolved_offerings: "instance-types-resolved-offerings.json.gz",
        Corpus::WithoutSpotPrices("offerings/spot-not-refreshed");
    interruption_messages: "interruption-messages.json.gz", Corpus::AsItIs;
    launch_errors_subnets: "launch-errors-subnets.json.gz", Corpus::AsItIs;
    launch_nodeclass: "launch-nodeclass.json.gz", Corpus::AsItIs;
    launch_reserved_placement: "launch-reserved-placement.json.gz", Corpus::AsItIs;
    launch_selection: "launch-selection.json.gz", Corpus::AsItIs;
    nodeclass_drift: "nodeclass-drift.json.gz", Corpus::AsItIs;
    nodeclass_hash: "nodeclass-hash.json.gz", Corpus::AsItIs;
    nodeclass_legacy_profile_names: "nodeclass-legacy-profile-names.json.gz", Corpus::AsItIs;
    nodeclass_profile: "nodeclass-profile.json.gz", Corpus::AsItIs;
    nodeclass_selectors: "nodeclass-selectors.json.gz", Corpus::AsItIs;
    nodeclass_validation: "nodeclass-validation.json.gz", Corpus::AsItIs;
    userdata_al2: "userdata-al2.json.gz", Corpus::AsItIs;
    userdata_al2023: "userdata-al2023.json.gz", Corpus::AsItIs;
    userdata_bottlerocket: "userdata-bottlerocket.json.gz", Corpus::AsItIs;
    userdata_custom: "userdata-custom.json.gz", Corpus::AsItIs;
    userdata_windows: "userdata-windows.json.gz", Corpus::AsItIs;
}
