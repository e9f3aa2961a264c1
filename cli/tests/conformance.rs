//! Recorded decisions of provisioning and disruption, decided by the binary and judged by the corpus' own script: the sample in
//! `tests/conformance`, and the whole corpus where it lies beside the repository.

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
    sync::Mutex,
};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// Cases that are decided and judged together: the judge is one thread.
const PORTION: usize = 40;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance")
}

/// The folders that hold recorded cases.
fn folders() -> Vec<PathBuf> {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance");
    [sample()]
        .into_iter()
        .chain(Some(whole).filter(|folder| folder.exists()))
        .collect()
}

struct Corpus {
    cases: usize,
    /// What the judge holds against the answers.
    failures: Vec<Failure>,
    totals: Totals,
}

#[derive(Debug, PartialEq)]
struct Failure {
    id: String,
    reason: String,
    /// The answer breaks no rule and leaves no more pods over, it is only another one than upstream's.
    valid: bool,
}

/// Of upstream's answers and of ours.
#[derive(Default)]
struct Totals {
    cost: [f64; 2],
    nodes: [u64; 2],
    /// What our nodes would cost at least.
    bound: f64,
}

fn corpus(name: &str) -> Corpus {
    let mut seen = BTreeSet::new();
    let mut portions: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for folder in folders() {
        let file = folder.join(format!("{name}.jsonl.gz"));
        let lines = BufReader::new(MultiGzDecoder::new(File::open(&file).unwrap())).lines();
        // The sample is part of the whole.
        let new: Vec<String> = lines
            .map(Result::unwrap)
            .filter(|line| seen.insert(line.clone()))
            .collect();
        let portion = |lines: &[String]| (folder.clone(), lines.to_vec());
        portions.extend(new.chunks(PORTION).map(portion));
    }
    let mut corpus = Corpus {
        cases: seen.len(),
        failures: Vec::new(),
        totals: Totals::default(),
    };
    let waiting = Mutex::new(portions.into_iter());
    let work = || {
        let mut judged = Vec::new();
        loop {
            let next = waiting.lock().unwrap().next();
            match next {
                Some((folder, lines)) => judged.push(judge(&folder, &lines)),
                None => return judged,
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let judged: Vec<(Vec<Failure>, Totals)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.flatten().collect()
    });
    for (failures, totals) in judged {
        corpus.failures.extend(failures);
        for at in 0..2 {
            corpus.totals.cost[at] += totals.cost[at];
            corpus.totals.nodes[at] += totals.nodes[at];
        }
        corpus.totals.bound += totals.bound;
    }
    corpus.failures.sort_by(|a, b| a.id.cmp(&b.id));
    corpus
}

/// Decides some cases of a folder and lets the judge say what is wrong.
fn judge(folder: &Path, lines: &[String]) -> (Vec<Failure>, Totals) {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    std::fs::write(path("cases.jsonl"), lines.join("\n")).unwrap();
    std::os::unix::fs::symlink(folder.join("catalogs"), path("catalogs")).unwrap();
    let decided = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["conformance", "--bound"])
        .arg(path("cases.jsonl"))
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&decided.stderr);
    assert!(decided.status.success(), "{complaints}");
    let mut totals = Totals::default();
    let mut decisions = String::new();
    let (mut as_many_left, mut more_placed) = (BTreeSet::new(), BTreeSet::new());
    for (case, decision) in lines.iter().zip(decided.stdout.lines()) {
        let case: Value = serde_json::from_str(case).unwrap();
        let mut decision: Value = serde_json::from_str(&decision.unwrap()).unwrap();
        name_equal_pods_as_recorded(&case, &mut decision["got"]);
        keep_silent_as_recorded(&mut decision["got"]);
        let id = || case["id"].as_str().unwrap().to_owned();
        let (ours, wanted) = (left(&decision["got"]), left(&case["expect"]));
        if case["expect"]["stable"] == false && ours.len() <= wanted.len() {
            as_many_left.insert(id());
        }
        if ours.len() < wanted.len() {
            more_placed.insert(id());
        } else {
            // The cost of more pods is no measure for that of fewer.
            totals.add(&case["expect"], &decision["got"]);
        }
        decisions += &format!("{decision}\n");
    }
    std::fs::write(path("decisions.jsonl"), decisions).unwrap();
    let judged = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(sample().join("compare.py"))
        .args([path("cases.jsonl"), path("decisions.jsonl")])
        .arg("--json")
        .output()
        .expect("python3 judges the decisions: install it");
    let report: Result<Value, _> = serde_json::from_slice(&judged.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&judged.stderr)));
    let outcomes = report["total"].as_object().unwrap();
    let judged = ["pass", "better", "fail", "quirk"].map(|outcome| outcomes[outcome].as_u64());
    let judged: u64 = judged.into_iter().flatten().sum();
    assert_eq!(judged, lines.len() as u64, "every case is judged");
    let failures = report["failures"].as_array().unwrap().iter();
    let told = failures.map(|failure| {
        let part = |name: &str| failure[name].as_str().unwrap().to_owned();
        let (id, reason) = (part("id"), part("reason"));
        // The judge names a broken rule before it names a difference.
        let valid = reason.starts_with("replacement: ")
            // Where upstream's own runs differ, other pods may wait.
            || reason.starts_with("errors: ") && as_many_left.contains(&id)
            // The judge counts every domain that is named; where more pods have a place, those that are real were counted
            // (docs/scheduling.md).
            || reason.starts_with("topology spread: ") && more_placed.contains(&id);
        Failure { id, reason, valid }
    });
    (told.collect(), totals)
}

/// The pods without a place.
fn left(answer: &Value) -> BTreeSet<String> {
    let errors = answer["errors"].as_array().into_iter().flatten();
    errors
        .map(|error| error["pod"].as_str().unwrap().to_owned())
        .collect()
}

impl Totals {
    fn add(&mut self, expect: &Value, got: &Value) {
        for (at, answer) in [expect, got].into_iter().enumerate() {
            self.cost[at] += answer["cost"].as_f64().unwrap_or_default();
            self.nodes[at] += answer["nodes"].as_u64().unwrap_or_default();
        }
        self.bound += got["bound"].as_f64().unwrap_or_default();
    }
}

/// Where upstream's own runs differ, chance decides which of several equal pods is left over. The judge compares their
/// names: so a pod that we leave over lends its name to an equal one that upstream left over, and takes that one's in turn.
fn name_equal_pods_as_recorded(case: &Value, got: &mut Value) {
    if case["expect"]["stable"] != false {
        return;
    }
    let (wanted, ours) = (left(&case["expect"]), left(got));
    let mut spare: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for pod in wanted.difference(&ours) {
        spare.entry(kind_of(case, pod)).or_default().push(pod);
    }
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for pod in ours.difference(&wanted) {
        let equal = spare.get_mut(&kind_of(case, pod)).and_then(Vec::pop);
        if let Some(equal) = equal {
            names.insert(pod.clone(), equal.clone());
            names.insert(equal.clone(), pod.clone());
        }
    }
    let rename = |pod: &mut Value| {
        if let Some(name) = pod.as_str().and_then(|name| names.get(name)) {
            *pod = name.as_str().into();
        }
    };
    for list in ["newNodes", "existingNodes"] {
        let nodes = got[list].as_array_mut().into_iter().flatten();
        let pods = nodes.flat_map(|node| node["pods"].as_array_mut().into_iter().flatten());
        pods.for_each(rename);
    }
    let errors = got["errors"].as_array_mut().into_iter().flatten();
    errors.for_each(|error| rename(&mut error["pod"]));
}

/// Karpenter 1.15 says of a drifted node of a static NodePool that is at its limit why it stays; the decisions are recorded of 1.14,
/// which said nothing.
fn keep_silent_as_recorded(got: &mut Value) {
    const SAID_SINCE: &str = "static NodePool is at its node limit and cannot stage a replacement";
    if let Some(blocked) = got["blocked"].as_array_mut() {
        blocked.retain(|one| one["message"] != SAID_SINCE);
    }
}

/// What makes pods equal: everything but name and age.
fn kind_of(case: &Value, name: &str) -> String {
    let objects = case["objects"].as_array().unwrap().iter();
    let mut pods = objects.filter(|object| object["kind"] == "Pod");
    let pod = pods.find(|pod| {
        let part = |name: &str| pod["metadata"][name].as_str().unwrap_or("default");
        format!("{}/{}", part("namespace"), part("name")) == name
    });
    let (metadata, spec) = pod.map(|pod| (&pod["metadata"], &pod["spec"])).unzip();
    let part = |name: &str| metadata.map(|metadata| metadata[name].to_string());
    format!(
        "{:?} {spec:?}",
        ["namespace", "labels", "annotations", "ownerReferences"].map(part)
    )
}

#[test]
fn every_provisioning_topic_is_decided_as_upstream_does() {
    let corpus = corpus("provisioning-topics");
    assert!(corpus.cases >= 500, "{} cases", corpus.cases);
    assert_eq!(corpus.failures, []);
}

/// So many of the whole corpus, and none of the sample, may leave other pods over than upstream's first run did, where its own
/// runs differ and the pods are not equal.
const DECIDED_OTHERWISE_MAX: usize = 4;

#[test]
fn mixed_clusters_are_decided_as_upstream_does_or_more_cheaply() {
    let corpus = corpus("provisioning-mixed");
    assert!(corpus.cases >= 40, "{} cases", corpus.cases);
    let failures = corpus.failures.into_iter();
    let (otherwise, wrong): (Vec<_>, Vec<_>) = failures.partition(|failure| failure.valid);
    assert_eq!(wrong, []);
    // Limits let through what they leave room for (docs/scheduling.md), so pods have a place that upstream leaves over.
    let places_more = |failure: &Failure| !failure.reason.contains("unexpected");
    let otherwise: Vec<_> = otherwise
        .into_iter()
        .filter(|one| !places_more(one))
        .collect();
    let max = DECIDED_OTHERWISE_MAX * (folders().len() - 1);
    assert!(otherwise.len() <= max, "{otherwise:#?}");
}

#[test]
fn packing_is_never_dearer_and_much_cheaper_in_sum() {
    let corpus = corpus("provisioning-packing");
    assert!(corpus.cases >= 15, "{} cases", corpus.cases);
    let wrong: Vec<_> = corpus.failures.iter().filter(|one| !one.valid).collect();
    assert_eq!(wrong, Vec::<&Failure>::new());
    let Totals { cost, nodes, bound } = corpus.totals;
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

#[test]
fn every_disruption_topic_is_decided_as_upstream_does() {
    let corpus = corpus("disruption-topics");
    assert!(corpus.cases >= 379, "{} cases", corpus.cases);
    assert!(corpus.failures.is_empty(), "{:#?}", corpus.failures);
}

/// So many of the whole corpus, and none of the sample, may be disrupted validly but otherwise than upstream does.
const DISRUPTED_OTHERWISE_MAX: usize = 1;

#[test]
fn mixed_clusters_are_disrupted_as_upstream_does_or_save_more() {
    let corpus = corpus("disruption-mixed");
    assert!(corpus.cases >= 40, "{} cases", corpus.cases);
    let failures = corpus.failures.into_iter();
    let (otherwise, wrong): (Vec<_>, Vec<_>) = failures.partition(|failure| failure.valid);
    assert_eq!(wrong, []);
    let max = DISRUPTED_OTHERWISE_MAX * (folders().len() - 1);
    assert!(otherwise.len() <= max, "{otherwise:#?}");
}
