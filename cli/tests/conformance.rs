//! Recorded provisioning and disruption decisions of Karpenter, repeated by the binary and compared by the corpus' own script. The
//! sample in `tests/conformance` always runs; the whole corpus runs if its directory exists beside the repository.

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

/// Number of cases per batch. The comparison script is single-threaded, so batches run in parallel.
const BATCH: usize = 40;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance")
}

/// Directories with recorded cases.
fn folders() -> Vec<PathBuf> {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/conformance");
    [sample()]
        .into_iter()
        .chain(Some(whole).filter(|folder| folder.exists()))
        .collect()
}

struct Corpus {
    cases: usize,
    /// Differences that the comparison script reports.
    failures: Vec<Failure>,
    totals: Totals,
}

#[derive(Debug, PartialEq)]
struct Failure {
    id: String,
    reason: String,
    /// The decision differs from upstream's, but breaks no rule and leaves no more pods unscheduled.
    valid: bool,
}

/// Sums over the compared decisions: upstream's first, then Whittle's.
#[derive(Default)]
struct Totals {
    cost: [f64; 2],
    nodes: [u64; 2],
    /// Lower bound on the cost of Whittle's nodes, in dollars per hour.
    bound: f64,
}

fn corpus(name: &str) -> Corpus {
    let mut cases = BTreeSet::new();
    let mut batches: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for folder in folders() {
        let file = folder.join(format!("{name}.jsonl.gz"));
        let lines = BufReader::new(MultiGzDecoder::new(File::open(&file).unwrap())).lines();
        // The whole corpus contains the sample, so lines are deduplicated.
        let new: Vec<String> = lines
            .map(Result::unwrap)
            .filter(|line| cases.insert(line.clone()))
            .collect();
        let batch = |lines: &[String]| (folder.clone(), lines.to_vec());
        batches.extend(new.chunks(BATCH).map(batch));
    }
    let mut corpus = Corpus {
        cases: cases.len(),
        failures: Vec::new(),
        totals: Totals::default(),
    };
    let waiting = Mutex::new(batches.into_iter());
    let work = || {
        let mut compared = Vec::new();
        loop {
            let next = waiting.lock().unwrap().next();
            match next {
                Some((folder, lines)) => compared.push(compare(&folder, &lines)),
                None => return compared,
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let compared: Vec<(Vec<Failure>, Totals)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.flatten().collect()
    });
    for (failures, totals) in compared {
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

/// Runs `whittle conformance` on cases of a directory and returns the differences from the recorded decisions.
fn compare(folder: &Path, lines: &[String]) -> (Vec<Failure>, Totals) {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    std::fs::write(path("cases.jsonl"), lines.join("\n")).unwrap();
    std::os::unix::fs::symlink(folder.join("catalogs"), path("catalogs")).unwrap();
    let decided = Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["conformance", "--bound"])
        .arg(path("cases.jsonl"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&decided.stderr);
    assert!(decided.status.success(), "{stderr}");
    let mut totals = Totals::default();
    let mut decisions = String::new();
    let (mut no_more_unscheduled, mut more_scheduled) = (BTreeSet::new(), BTreeSet::new());
    for (case, decision) in lines.iter().zip(decided.stdout.lines()) {
        let case: Value = serde_json::from_str(case).unwrap();
        let mut decision: Value = serde_json::from_str(&decision.unwrap()).unwrap();
        name_equal_pods_as_recorded(&case, &mut decision["got"]);
        remove_messages_newer_than_the_recording(&mut decision["got"]);
        let id = || case["id"].as_str().unwrap().to_owned();
        let (ours, wanted) = (unscheduled(&decision["got"]), unscheduled(&case["expect"]));
        if case["expect"]["stable"] == false && ours.len() <= wanted.len() {
            no_more_unscheduled.insert(id());
        }
        if ours.len() < wanted.len() {
            more_scheduled.insert(id());
        } else {
            // Costs are comparable only if equally many pods are scheduled.
            totals.add(&case["expect"], &decision["got"]);
        }
        decisions += &format!("{decision}\n");
    }
    std::fs::write(path("decisions.jsonl"), decisions).unwrap();
    let compared = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(sample().join("compare.py"))
        .args([path("cases.jsonl"), path("decisions.jsonl")])
        .arg("--json")
        .output()
        .expect("the comparison script needs python3: install it");
    let report: Result<Value, _> = serde_json::from_slice(&compared.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&compared.stderr)));
    let outcomes = report["total"].as_object().unwrap();
    let compared = ["pass", "better", "fail", "quirk"].map(|outcome| outcomes[outcome].as_u64());
    let compared: u64 = compared.into_iter().flatten().sum();
    assert_eq!(compared, lines.len() as u64, "every case is compared");
    let failures = report["failures"].as_array().unwrap().iter();
    let failures = failures.map(|failure| {
        let part = |name: &str| failure[name].as_str().unwrap().to_owned();
        let (id, reason) = (part("id"), part("reason"));
        // The script reports a broken rule before a difference.
        let valid = reason.starts_with("replacement: ")
            // If upstream's own runs differ, different pods may be unscheduled.
            || reason.starts_with("errors: ") && no_more_unscheduled.contains(&id)
            // The script counts every domain that is named; if Whittle schedules more pods, it counted only domains that exist
            // (docs/scheduling.md).
            || reason.starts_with("topology spread: ") && more_scheduled.contains(&id);
        Failure { id, reason, valid }
    });
    (failures.collect(), totals)
}

/// Names of the pods that a decision leaves unscheduled.
fn unscheduled(answer: &Value) -> BTreeSet<String> {
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

/// Swaps the names of equal pods so that the unscheduled ones have the recorded names. If upstream's own runs differ, chance decides
/// which of several equal pods stays unscheduled, and the script compares pods by name.
fn name_equal_pods_as_recorded(case: &Value, got: &mut Value) {
    if case["expect"]["stable"] != false {
        return;
    }
    let (wanted, ours) = (unscheduled(&case["expect"]), unscheduled(got));
    let mut spare: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for pod in wanted.difference(&ours) {
        spare
            .entry(equivalence_of(case, pod))
            .or_default()
            .push(pod);
    }
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for pod in ours.difference(&wanted) {
        let equal = spare.get_mut(&equivalence_of(case, pod)).and_then(Vec::pop);
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

/// Removes the message that Karpenter emits since 1.15 for a drifted node of a static NodePool at its limit. The decisions were
/// recorded with 1.14, which emits none.
fn remove_messages_newer_than_the_recording(got: &mut Value) {
    const SINCE_1_15: &str = "static NodePool is at its node limit and cannot stage a replacement";
    if let Some(blocked) = got["blocked"].as_array_mut() {
        blocked.retain(|message| message["message"] != SINCE_1_15);
    }
}

/// Identity of equal pods: everything except their name and age.
fn equivalence_of(case: &Value, name: &str) -> String {
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
fn provisioning_decisions_by_topic_equal_upstream() {
    let corpus = corpus("provisioning-topics");
    assert!(corpus.cases >= 500, "{} cases", corpus.cases);
    assert_eq!(corpus.failures, []);
}

/// Upper bound on the cases of the whole corpus (none of the sample) that leave other pods unscheduled than upstream's first run,
/// because upstream's own runs differ and the pods are not equal.
const PROVISIONING_DIFFERENCES_MAX: usize = 4;

#[test]
fn provisioning_decisions_for_mixed_clusters_equal_upstream_or_are_cheaper() {
    let corpus = corpus("provisioning-mixed");
    assert!(corpus.cases >= 40, "{} cases", corpus.cases);
    let failures = corpus.failures.into_iter();
    let (different, wrong): (Vec<_>, Vec<_>) = failures.partition(|failure| failure.valid);
    assert_eq!(wrong, []);
    // Whittle uses limits up to what they allow (docs/scheduling.md), so it schedules pods that upstream leaves unscheduled.
    let schedules_more = |failure: &Failure| !failure.reason.contains("unexpected");
    let different: Vec<_> = different
        .into_iter()
        .filter(|failure| !schedules_more(failure))
        .collect();
    let max = PROVISIONING_DIFFERENCES_MAX * (folders().len() - 1);
    assert!(different.len() <= max, "{different:#?}");
}

#[test]
fn packing_costs_at_most_85_percent_of_upstream() {
    let corpus = corpus("provisioning-packing");
    assert!(corpus.cases >= 15, "{} cases", corpus.cases);
    let wrong: Vec<_> = corpus
        .failures
        .iter()
        .filter(|failure| !failure.valid)
        .collect();
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
fn disruption_decisions_by_topic_equal_upstream() {
    let corpus = corpus("disruption-topics");
    assert!(corpus.cases >= 379, "{} cases", corpus.cases);
    assert!(corpus.failures.is_empty(), "{:#?}", corpus.failures);
}

/// Upper bound on the cases of the whole corpus (none of the sample) with a valid disruption that differs from upstream's.
const DISRUPTION_DIFFERENCES_MAX: usize = 1;

#[test]
fn disruption_decisions_for_mixed_clusters_equal_upstream_or_save_more() {
    let corpus = corpus("disruption-mixed");
    assert!(corpus.cases >= 40, "{} cases", corpus.cases);
    let failures = corpus.failures.into_iter();
    let (different, wrong): (Vec<_>, Vec<_>) = failures.partition(|failure| failure.valid);
    assert_eq!(wrong, []);
    let max = DISRUPTION_DIFFERENCES_MAX * (folders().len() - 1);
    assert!(different.len() <= max, "{different:#?}");
}
