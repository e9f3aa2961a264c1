use prometheus_client::encoding::text::encode;
use serde_json::{Value, json};

use super::*;

fn metrics(documents: &[(&str, Value)]) -> FunctionMetrics {
    let data = documents.iter();
    let data = data.map(|(name, document)| ((*name).to_owned(), document.to_string()));
    FunctionMetrics::read(&data.collect())
}

fn rendered(reported: &FunctionMetrics) -> String {
    let mut registry = Registry::default();
    reported.register(&Status::default(), &[], &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

fn created(pool: &str, value: f64) -> Value {
    json!({"name": "karpenter_nodeclaims_created_total", "labels": {"nodepool": pool}, "value": value})
}

fn assert_shows(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(
            text.lines().any(|other| other == *line),
            "{line} is missing from\n{text}"
        );
    }
}

#[test]
fn series_have_karpenters_names_type_and_help() {
    let labels = json!({"nodepool": "default", "resource_type": "cpu"});
    let usage = json!({"name": "karpenter_nodepools_usage", "labels": labels, "value": 2.5});
    let nodes = json!({"name": "karpenter_cluster_state_node_count", "value": 3});
    let document = json!({
        "version": 1, "counters": [created("default", 4.0)], "gauges": [usage, nodes],
    });
    let text = rendered(&metrics(&[("disruption", document)]));
    assert_shows(
        &text,
        &[
            "# HELP karpenter_nodeclaims_created NodeClaims created, by reason.",
            "# TYPE karpenter_nodeclaims_created counter",
            r#"karpenter_nodeclaims_created_total{nodepool="default"} 4.0"#,
            "# TYPE karpenter_nodepools_usage gauge",
            r#"karpenter_nodepools_usage{nodepool="default",resource_type="cpu"} 2.5"#,
            r#"whittle_status_unreadable{document="disruption"} 0"#,
        ],
    );
    assert!(
        text.contains("karpenter_cluster_state_node_count"),
        "{text}"
    );
}

#[test]
fn counters_of_functions_are_summed() {
    let document = |counters: Value| json!({"version": 1, "counters": counters});
    let text = rendered(&metrics(&[
        (
            "provisioner",
            document(json!([created("a", 2.0), created("b", 1.0)])),
        ),
        ("disruption", document(json!([created("a", 3.0)]))),
    ]));
    assert_shows(
        &text,
        &[
            r#"karpenter_nodeclaims_created_total{nodepool="a"} 5.0"#,
            r#"karpenter_nodeclaims_created_total{nodepool="b"} 1.0"#,
        ],
    );
    let types = text
        .lines()
        .filter(|line| line.starts_with("# TYPE karpenter_nodeclaims_created "));
    assert_eq!(types.count(), 1, "{text}");
}

#[test]
fn undecodable_document_is_reported_and_others_are_shown() {
    let mut data = BTreeMap::from([("terminator".to_owned(), "{".to_owned())]);
    data.insert("lifecycle".to_owned(), json!({"version": 2}).to_string());
    let good = json!({"version": 1, "counters": [created("a", 1.0)]});
    data.insert("provisioner".to_owned(), good.to_string());
    assert_shows(
        &rendered(&FunctionMetrics::read(&data)),
        &[
            r#"whittle_status_unreadable{document="lifecycle"} 1"#,
            r#"whittle_status_unreadable{document="provisioner"} 0"#,
            r#"whittle_status_unreadable{document="terminator"} 1"#,
            r#"karpenter_nodeclaims_created_total{nodepool="a"} 1.0"#,
        ],
    );
}

#[test]
fn labels_are_sanitized_for_prometheus() {
    let labels = json!({"node-pool": "a\"b\\c\nd", "node.pool": "last", "1st": "x", "": "y"});
    let unusual = json!({"name": "karpenter_odd-name.total", "labels": labels, "value": 1});
    let escaped = json!({
        "name": "karpenter_pods_state", "labels": {"phase": "a\"b\\c\nd"}, "value": 1,
    });
    let text = rendered(&metrics(&[(
        "disruption",
        json!({"version": 1, "gauges": [unusual, escaped]}),
    )]));
    assert_shows(
        &text,
        &[
            r#"karpenter_odd_name_total{_="y",_1st="x",node_pool="last"} 1.0"#,
            r#"karpenter_pods_state{phase="a\"b\\c\nd"} 1.0"#,
        ],
    );
}

#[test]
fn document_cannot_use_relay_names_or_second_type_of_a_name() {
    let counters = json!([{"name": "whittle_relay_events_total", "value": 7}, created("a", -1.0)]);
    let gauges = json!([{"name": "karpenter_nodeclaims_created", "value": 7}]);
    let document = json!({"version": 1, "counters": counters, "gauges": gauges});
    let text = rendered(&metrics(&[("disruption", document)]));
    assert!(!text.contains("whittle_relay"), "{text}");
    assert!(!text.contains('7'), "{text}");
    assert_shows(
        &text,
        &[r#"karpenter_nodeclaims_created_total{nodepool="a"} 0.0"#],
    );
}

#[test]
fn no_metrics_are_rendered_without_documents() {
    assert_eq!(rendered(&FunctionMetrics::default()), "# EOF\n");
    assert_eq!(FunctionMetrics::default().summary(), "none reported");
    let mut reported = metrics(&[("disruption", json!({"version": 1}))]);
    assert_eq!(reported.summary(), "reported by 1 functions");
    reported.set_error("403 Forbidden".to_owned());
    assert_eq!(reported.summary(), "failing: 403 Forbidden");
}

#[test]
fn histograms_of_functions_are_summed() {
    let name = "karpenter_nodes_termination_duration_seconds";
    let durations = |sum: f64, buckets: Value, above: u64| {
        json!({"version": 1, "durations": [
            {"name": name, "labels": {"nodepool": "a"}, "sum": sum, "buckets": buckets, "above": above},
        ]})
    };
    let text = rendered(&metrics(&[
        ("lifecycle", durations(3.0, json!([[1.0, 1], [2.0, 1]]), 0)),
        ("terminator", durations(9.5, json!([[1.0, 1], [2.0, 0]]), 1)),
        ("unlike", durations(1.0, json!([[7.0, 1]]), 0)),
    ]));
    assert_shows(
        &text,
        &[
            "# TYPE karpenter_nodes_termination_duration_seconds histogram",
            r#"karpenter_nodes_termination_duration_seconds_sum{nodepool="a"} 12.5"#,
            r#"karpenter_nodes_termination_duration_seconds_count{nodepool="a"} 4"#,
            r#"karpenter_nodes_termination_duration_seconds_bucket{le="1.0",nodepool="a"} 2"#,
            r#"karpenter_nodes_termination_duration_seconds_bucket{le="2.0",nodepool="a"} 3"#,
            r#"karpenter_nodes_termination_duration_seconds_bucket{le="+Inf",nodepool="a"} 4"#,
        ],
    );
}
