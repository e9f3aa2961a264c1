//! Dashboards and alerts, checked by a real Prometheus that scrapes a relay: every query parses and returns data, with Whittle's
//! series and with series like Karpenter's.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use http::Request;
use jiff::Timestamp;
use model::status::Status;
use relay::cluster_metrics::ClusterMetrics;
use relay::function_metrics::FunctionMetrics;
use relay::kind::Kind;
use relay::metrics::Metrics;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api_server::ApiServer;
use crate::busy_cluster;
use crate::running::Running;
use crate::support::{tool, until};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A Prometheus that scrapes one relay each second, until it is dropped.
pub(crate) struct Prometheus {
    process: Child,
    client: kube::Client,
    _directory: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Prometheus {
    pub(crate) fn start(relay: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        let scrapes = json!({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "relay", "static_configs": [{"targets": [relay]}]}],
        });
        fs::write(&config, scrapes.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let process = Command::new(tool("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.path().display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        Self {
            process,
            client: kube::Client::try_from(config).unwrap(),
            _directory: directory,
        }
    }

    /// Values of the series that a query returns; an error is Prometheus' own.
    pub(crate) async fn query(&self, query: &str) -> Result<Vec<f64>, String> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let request = Request::get(format!("/api/v1/query?query={encoded}"));
        let request = request.body(Vec::new()).unwrap();
        let answer = self.client.request_text(request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let series = answer["data"]["result"].as_array();
        let series = series.ok_or_else(|| answer.to_string())?.iter();
        let value = |series: &Value| series["value"][1].as_str().unwrap().parse().unwrap();
        Ok(series.map(value).collect())
    }

    /// Waits until a query returns data.
    pub(crate) async fn answers(&self, query: &str) {
        until(
            query,
            async || matches!(self.query(query).await, Ok(series) if !series.is_empty()),
        )
        .await;
    }
}

/// Queries of a dashboard, with their panels.
fn queries(board: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("{ROOT}/grafana/{board}.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| {
            let query = target["expr"].as_str().unwrap();
            let mut query = query.replace("$__rate_interval", "1m");
            for variable in ["nodepool", "zone", "arch", "capacity_type", "instance_type"] {
                query = query.replace(&format!("${variable}"), ".*");
            }
            (panel["title"].as_str().unwrap().to_owned(), query)
        })
    });
    queries.collect()
}

/// Expressions of all alerts, with their names.
fn alerts() -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("{ROOT}/chart/alerts.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
    rules
        .map(|rule| (text(rule, "alert"), text(rule, "expr")))
        .collect()
}

/// Metrics in a query.
fn metrics_of(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let prefixes = ["karpenter_", "operator_", "whittle_"];
    words.filter(move |word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
}

/// Metrics of the functions of a busy cluster. Two rare counters are added by hand.
async fn function_metrics() -> FunctionMetrics {
    let mut documents = busy_cluster::documents().await;
    let mut rare = Status::default();
    let labels = |labels: &[(&str, &str)]| {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        labels.iter().map(owned).collect()
    };
    let failed = "karpenter_voluntary_disruption_failed_validations_total";
    rare.count(failed, labels(&[("consolidation_type", "multi")]), 1.0);
    let moves = labels(&[
        ("nodepool", "default"),
        ("decision", "rejected"),
        ("policy", "Balanced"),
    ]);
    rare.count("karpenter_consolidation_moves_total", moves, 1.0);
    documents.insert("rare".to_owned(), rare.keep().unwrap().text);
    FunctionMetrics::read(&documents)
}

fn node(name: &str, capacity_type: &str) -> Value {
    json!({
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": capacity_type, "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "us-east-1a", "node.kubernetes.io/instance-type": "m5.xlarge",
        }},
        "spec": {"providerID": "aws:///us-east-1a/i-1"},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "allocatable": {"cpu": "3900m", "memory": "15Gi"}},
    })
}

fn pod(owner: &str, node: Option<&str>, phase: &str) -> Value {
    let met = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"});
    let conditions = node.map_or_else(Vec::new, |_| vec![met("PodScheduled"), met("Ready")]);
    let mut pod = json!({
        "metadata": {"name": owner, "namespace": "default", "uid": owner, "creationTimestamp": "2026-01-01T00:01:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u", "controller": true}]},
        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": phase, "conditions": conditions},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn claim(initialized: &str, at: &str) -> Value {
    json!({
        "metadata": {"name": "default-x"},
        "status": {"conditions": [
            {"type": "Initialized", "status": initialized, "reason": "Initialized", "lastTransitionTime": at},
            {"type": "Drifted", "status": "False", "reason": "Drifted", "lastTransitionTime": at},
        ]},
    })
}

/// A relay that has observed pods and a NodeClaim being launched, two similar spot nodes and an on-demand one; and the address of
/// its `/metrics`.
pub(crate) async fn relay(per_object: bool) -> (ApiServer, Running, String) {
    let server = ApiServer::start().await;
    for (name, capacity_type) in [("a", "spot"), ("b", "spot"), ("c", "on-demand")] {
        server.put(Kind::Node, node(name, capacity_type));
    }
    for owner in ["ReplicaSet", "DaemonSet"] {
        server.put(Kind::Pod, pod(owner, None, "Pending"));
    }
    server.put(Kind::Pod, pod("Job", None, "Pending"));
    server.put(Kind::NodeClaim, claim("Unknown", "2026-01-01T00:00:00Z"));
    let clock = || Timestamp::UNIX_EPOCH;
    let metrics = Metrics::default().of_cluster(ClusterMetrics { clock, per_object });
    metrics.show(function_metrics().await);
    let relay = Running::start_with_metrics(&server, metrics);
    relay.ready().await;
    for owner in ["ReplicaSet", "DaemonSet"] {
        server.put(Kind::Pod, pod(owner, Some("a"), "Running"));
    }
    server.put(Kind::NodeClaim, claim("True", "2026-01-01T00:01:30Z"));
    until("the relay has seen the pods start", async || {
        let (_, metrics) = relay.get("/metrics").await;
        // Either form is a series without labels.
        let metrics = metrics.replace("{}", "");
        metrics.contains("karpenter_pods_startup_duration_seconds_count 2")
            && metrics.contains("nodeclaim_status_condition_transition_seconds_count")
    })
    .await;
    let address = relay.serve().await;
    (server, relay, address)
}

#[tokio::test]
async fn queries_of_dashboards_and_alerts_return_data() {
    let (_server, _relay, address) = relay(false).await;
    let prometheus = Prometheus::start(&address);
    prometheus.answers("up == 1").await;
    for board in ["capacity", "performance"] {
        for (panel, query) in queries(board) {
            let parses = prometheus.query(&query).await;
            assert!(parses.is_ok(), "{board}, {panel}: {query}: {parses:?}");
            prometheus.answers(&query).await;
        }
    }
    for (alert, condition) in alerts() {
        let parses = prometheus.query(&condition).await;
        assert!(parses.is_ok(), "{alert}: {condition}: {parses:?}");
        for metric in metrics_of(&condition) {
            prometheus.answers(metric).await;
        }
    }
}

#[tokio::test]
async fn dashboard_queries_without_relay_series_answer_from_karpenter_series() {
    let (_server, _relay, address) = relay(true).await;
    let prometheus = Prometheus::start(&address);
    prometheus.answers("up == 1").await;
    for board in ["capacity", "performance"] {
        for (_, query) in queries(board) {
            if !query.contains("whittle_relay") {
                let query = query.replace("whittle_nodes", "of_nobody");
                prometheus.answers(&query).await;
            }
        }
    }
}
