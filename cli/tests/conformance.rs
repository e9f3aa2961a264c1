//! The recorded decisions in `tests/conformance`, decided by the binary and judged by the corpus' own script.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Command,
};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

struct Corpus {
    cases: PathBuf,
    decisions: BTreeMap<String, Value>,
    report: Value,
}

fn corpus(name: &str) -> Corpus {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance");
    let cases = sample.join(format!("provisioning-{name}.jsonl.gz"));
    let decided = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["conformance", "--bound"])
        .arg(&cases)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&decided.stderr);
    assert!(decided.status.success(), "{complaints}");
    let scratch = tempfile::tempdir().unwrap();
    let decisions = scratch.path().join("decisions.jsonl");
    std::fs::write(&decisions, &decided.stdout).unwrap();
    let judged = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(sample.join("compare.py"))
        .args([&cases, &decisions])
        .arg("--json")
        .output()
        .expect("python3 judges the decisions: install it");
    let report = serde_json::from_slice(&judged.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&judged.stderr)));
    let decisions = decided.stdout.lines().map(|line| {
        let decision: Value = serde_json::from_str(&line.unwrap()).unwrap();
        (decision["id"].as_str().unwrap().to_owned(), decision)
    });
    Corpus {
        cases,
        decisions: decisions.collect(),
        report,
    }
}

impl Corpus {
    fn cases(&self) -> impl Iterator<Item = Value> {
        let lines = BufReader::new(MultiGzDecoder::new(File::open(&self.cases).unwrap())).lines();
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// What the judge holds against the answers, but for what chance decides upstream.
    fn failures(&self) -> Vec<String> {
        let failures = self.report["failures"].as_array().unwrap();
        let reasons: BTreeMap<&str, &str> = failures
            .iter()
            .map(|failure| {
                (
                    failure["id"].as_str().unwrap(),
                    failure["reason"].as_str().unwrap(),
                )
            })
            .collect();
        let failed = self.cases().filter(|case| {
            let id = case["id"].as_str().unwrap();
            reasons.contains_key(id) && !differs_by_chance(case, &self.decisions[id])
        });
        let told = failed.map(|case| {
            let id = case["id"].as_str().unwrap();
            format!("{id}: {}", reasons[id])
        });
        told.collect()
    }
}

/// Where upstream's own runs differ, only which of several equal pods is left over may be another one.
fn differs_by_chance(case: &Value, decision: &Value) -> bool {
    let left = |answer: &Value| -> BTreeSet<String> {
        let errors = answer["errors"].as_array().into_iter().flatten();
        errors
            .map(|error| error["pod"].as_str().unwrap().to_owned())
            .collect()
    };
    let (wanted, got) = (left(&case["expect"]), left(&decision["got"]));
    let kinds = |pods: Vec<&String>| -> Vec<String> {
        let objects = case["objects"].as_array().unwrap().iter();
        let found = objects.filter(|object| {
            let part = |name: &str| object["metadata"][name].as_str().unwrap_or("default");
            object["kind"] == "Pod"
                && pods.contains(&&format!("{}/{}", part("namespace"), part("name")))
        });
        let mut kinds: Vec<String> = found
            .map(|pod| format!("{}{}", pod["metadata"]["labels"], pod["spec"]))
            .collect();
        kinds.sort_unstable();
        kinds
    };
    case["expect"]["stable"] == false
        && wanted != got
        && kinds(wanted.difference(&got).collect()) == kinds(got.difference(&wanted).collect())
}

#[test]
fn every_provisioning_topic_is_decided_as_upstream_does() {
    assert_eq!(corpus("topics").failures(), [""; 0]);
}

#[test]
fn mixed_clusters_are_decided_as_upstream_does_or_more_cheaply() {
    assert_eq!(corpus("mixed").failures(), [""; 0]);
}

#[test]
fn packing_is_never_dearer_and_much_cheaper_in_sum() {
    let corpus = corpus("packing");
    assert_eq!(corpus.failures(), [""; 0]);
    let (mut cost, mut nodes, mut bound) = ([0.0; 2], [0; 2], 0.0);
    for case in corpus.cases() {
        let got = &corpus.decisions[case["id"].as_str().unwrap()]["got"];
        for (at, answer) in [&case["expect"], got].into_iter().enumerate() {
            cost[at] += answer["cost"].as_f64().unwrap();
            nodes[at] += answer["nodes"].as_u64().unwrap();
        }
        bound += got["bound"].as_f64().unwrap();
    }
    println!(
        "$/h: ours {:.2}, upstream {:.2}, lower bound {bound:.2}",
        cost[1], cost[0]
    );
    println!("nodes: ours {}, upstream {}", nodes[1], nodes[0]);
    assert!(bound <= cost[1], "the bound proves too much");
    assert!(
        cost[1] <= 0.85 * cost[0],
        "{:.3} of upstream's cost",
        cost[1] / cost[0]
    );
    assert!(
        nodes[1] <= 2 * nodes[0],
        "{} nodes, upstream {}",
        nodes[1],
        nodes[0]
    );
}
