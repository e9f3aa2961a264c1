use std::time::Duration;

use model::ClusterName;
use serde_json::{Value, json};

use super::*;
use crate::batcher::Window;
use crate::function_metrics::FunctionMetrics;
use crate::metrics::Metrics;
use crate::objects::node::Node;
use crate::objects::node_claim::NodeClaim;
use crate::objects::whole_pod::WholePod;
use crate::objects::{Key, WatchedObject};
use crate::relay::{Event, Observation};
use crate::state::ObservedObject;

/// A relay that has observed some objects; the time is 12:10.
struct Scrape {
    relay: Relay,
    metrics: Metrics,
}

impl Scrape {
    fn new(per_object: bool) -> Self {
        let window = Window {
            idle: Duration::from_secs(1),
            max: Duration::from_secs(10),
        };
        let clock: fn() -> Timestamp = || "2026-03-05T12:10:00Z".parse().unwrap();
        let relay = Relay::new(ClusterName::from("demo"), window, 0);
        let relay = relay.timing_terminations(clock);
        Self {
            relay: match per_object {
                true => relay.with_pod_series(),
                false => relay,
            },
            metrics: Metrics::default().of_cluster(ClusterMetrics { clock, per_object }),
        }
    }

    fn see<T: WatchedObject>(&mut self, object: &Value) {
        self.observe::<T>(object, Event::Changed);
    }

    fn lose<T: WatchedObject>(&mut self, object: &Value) {
        self.observe::<T>(object, Event::Deleted);
    }

    fn observe<T: WatchedObject>(&mut self, object: &Value, event: fn(ObservedObject) -> Event) {
        // Pods are decoded from text.
        let object: T = serde_json::from_str(&object.to_string()).unwrap();
        let observed = ObservedObject {
            key: Key::new(&object.meta().namespace, &object.meta().name),
            name: object.meta().full_name(),
            digest: object.digest(),
            metric_data: object.metric_data(),
            pod: None,
        };
        let observation = Observation {
            kind: T::KIND,
            event: event(observed),
        };
        self.relay.observe(observation, Duration::ZERO);
    }

    fn lines(&self) -> Vec<String> {
        let text = self.metrics.render(&self.relay, Duration::ZERO).unwrap();
        // Either form is a series without labels.
        text.lines().map(|line| line.replace("{}", "")).collect()
    }

    /// Samples of a metric, without its name.
    fn samples(&self, name: &str) -> Vec<String> {
        let lines = self.lines();
        let own = lines.iter().filter_map(|line| line.strip_prefix(name));
        let own = own.filter(|rest| rest.starts_with('{') || rest.starts_with(' '));
        own.map(str::to_owned).collect()
    }
}

fn node(name: &str, instance_type: &str) -> Value {
    json!({
        "metadata": {"name": name, "creationTimestamp": "2026-03-05T12:00:00Z", "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "us-east-1a", "node.kubernetes.io/instance-type": instance_type,
            "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.k8s.aws/instance-cpu": "4", "team": "a",
        }},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi"}, "allocatable": {"cpu": "3920m", "memory": "15Gi"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-03-05T12:05:00Z"}],
        },
    })
}

fn pod(name: &str, owner: &str, node: Option<&str>) -> Value {
    let bound = node.map(|_| json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-05T12:08:30Z"}));
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-03-05T12:08:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u", "controller": true}]},
        "spec": {"containers": [
            {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}}]},
        "status": {"phase": "Pending", "conditions": bound.into_iter().collect::<Vec<_>>()},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn ready(mut pod: Value, at: &str) -> Value {
    pod["status"]["phase"] = json!("Running");
    let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Ready", "status": "True", "lastTransitionTime": at}));
    pod
}

const GROUP: &str = r#"{nodepool="default",capacity_type="spot",zone="us-east-1a",arch="amd64",instance_type="m5.xlarge",managed="true""#;

#[test]
fn similar_nodes_are_summed_with_daemon_and_system_overhead() {
    let mut scrape = Scrape::new(false);
    for name in ["a", "b"] {
        scrape.see::<Node>(&node(name, "m5.xlarge"));
        scrape.see::<WholePod>(&pod(&format!("agent-{name}"), "DaemonSet", Some(name)));
    }
    scrape.see::<WholePod>(&pod("web-0", "ReplicaSet", Some("a")));
    let of = |name: &str| scrape.samples(name);
    let cpu = |value: &str| format!("{GROUP},resource_type=\"cpu\"}} {value}");
    assert_eq!(of("karpenter_nodes_system_overhead")[0], cpu("0.16"));
    assert_eq!(of("karpenter_nodes_total_daemon_requests")[0], cpu("1.0"));
    let memory = format!("{GROUP},resource_type=\"memory\"}} 6442450944.0");
    assert!(of("karpenter_nodes_total_pod_limits").contains(&memory));
    assert_eq!(of("whittle_nodes"), [format!("{GROUP}}} 2.0")]);
    assert_eq!(
        of("karpenter_nodes_allocatable"),
        [""; 0],
        "the functions report it"
    );
    assert_eq!(
        of("karpenter_pods_state"),
        [""; 0],
        "the functions report it"
    );
}

#[test]
fn node_and_pod_have_series_until_deleted() {
    let mut scrape = Scrape::new(true);
    let objects = (
        node("a", "m5.xlarge"),
        pod("web-0", "ReplicaSet", Some("a")),
    );
    scrape.see::<Node>(&objects.0);
    scrape.see::<WholePod>(&objects.1);
    scrape.see::<WholePod>(&pod("web-1", "ReplicaSet", None));
    let allocatable = scrape.samples("karpenter_nodes_allocatable");
    assert_eq!(allocatable.len(), 2, "{allocatable:?}");
    for label in [
        r#"node_name="a""#,
        r#"instance_cpu="4""#,
        r#"managed="true""#,
        r#"resource_type="cpu""#,
    ] {
        assert!(allocatable[0].contains(label), "{label} {allocatable:?}");
    }
    assert!(!allocatable[0].contains("team"), "{allocatable:?}");
    let lifetime = scrape.samples("karpenter_nodes_current_lifetime_seconds");
    assert!(lifetime[0].ends_with(" 600.0"), "{lifetime:?}");
    let states = scrape.samples("karpenter_pods_state");
    assert_eq!(states.len(), 2, "{states:?}");
    let of = |pod| states.iter().find(|state| state.contains(pod)).unwrap();
    let bound = of("web-0");
    for label in [
        r#"namespace="shop""#,
        r#"owner="web""#,
        r#"node="a""#,
        r#"scheduled="true""#,
        r#"phase="Pending""#,
        r#"ready="false""#,
        r#"managed="true""#,
        r#"nodepool="default""#,
        r#"instance_type="m5.xlarge""#,
    ] {
        assert!(bound.contains(label), "{label} {bound}");
    }
    let waits = of("web-1");
    assert!(waits.contains(r#"managed="false""#), "{waits}");
    assert_eq!(
        scrape.samples("karpenter_pods_unbound_time_seconds"),
        [r#"{name="web-1",namespace="shop"} 120.0"#]
    );

    // The label with the node's name differs between families of series.
    let about_either = |scrape: &Scrape| -> Vec<String> {
        let lines = scrape.lines().into_iter();
        lines
            .filter(|line| line.contains(r#"="a""#) || line.contains("web-0"))
            .collect()
    };
    let before = about_either(&scrape);
    for family in ["karpenter_nodes_", "operator_node_", "karpenter_pods_"] {
        let has_series = before.iter().any(|line| line.starts_with(family));
        assert!(has_series, "{family} {before:#?}");
    }
    scrape.lose::<Node>(&objects.0);
    scrape.lose::<WholePod>(&objects.1);
    assert_eq!(about_either(&scrape), [""; 0]);
}

#[test]
fn unschedulable_pods_are_reported_with_age_of_oldest() {
    let mut scrape = Scrape::new(false);
    let unbound = "karpenter_pods_unbound_time_seconds";
    assert_eq!(scrape.samples(unbound), [" 0.0"]);
    let mut older = pod("old", "ReplicaSet", None);
    older["metadata"]["creationTimestamp"] = json!("2026-03-05T12:00:00Z");
    scrape.see::<WholePod>(&older);
    scrape.see::<WholePod>(&pod("new", "ReplicaSet", None));
    assert_eq!(scrape.samples(unbound), [" 600.0"]);
    scrape.lose::<WholePod>(&older);
    assert_eq!(scrape.samples(unbound), [" 120.0"]);
}

#[test]
fn pods_seen_pending_are_timed_until_bound_and_ready() {
    for (per_object, kind) in [(false, "histogram"), (true, "summary")] {
        let mut scrape = Scrape::new(per_object);
        let startup = "karpenter_pods_startup_duration_seconds";
        let bound = pod("web-0", "ReplicaSet", Some("a"));
        scrape.see::<WholePod>(&pod("web-0", "ReplicaSet", None));
        scrape.see::<WholePod>(&bound);
        let serves = ready(bound, "2026-03-05T12:09:15Z");
        for _ in 0..2 {
            scrape.see::<WholePod>(&serves);
        }
        // The pod was created before the relay started.
        let early = ready(
            pod("web-1", "ReplicaSet", Some("a")),
            "2026-03-05T12:09:00Z",
        );
        scrape.see::<WholePod>(&early);
        let lines = scrape.lines();
        let has =
            |line: &str| assert!(lines.iter().any(|other| other == line), "{line} {lines:#?}");
        has(&format!("# TYPE {startup} {kind}"));
        has(&format!("{startup}_sum 75.0"));
        has(&format!(
            "{startup}_count 1{}",
            if per_object { ".0" } else { "" }
        ));
        has("karpenter_pods_bound_duration_seconds_sum 30.0");
        if per_object {
            has(&format!("{startup}{{quantile=\"0.5\"}} 67.5"));
            has(&format!("{startup}{{quantile=\"1\"}} 75.0"));
        }
    }
}

#[test]
fn conditions_are_counted_or_listed_per_object_with_age() {
    let claim = json!({
        "metadata": {"name": "default-x", "deletionTimestamp": "2026-03-05T12:09:00Z"},
        "status": {"conditions": [
            {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": "2026-03-05T12:00:00Z"}]},
    });
    let mut other = claim.clone();
    other["metadata"] = json!({"name": "default-y"});
    let count = "operator_nodeclaim_status_condition_count";
    let mut scrape = Scrape::new(false);
    scrape.see::<NodeClaim>(&claim);
    scrape.see::<NodeClaim>(&other);
    assert_eq!(
        scrape.samples(count),
        [r#"{type="Drifted",status="True",reason="AMIDrift"} 2.0"#]
    );

    let mut scrape = Scrape::new(true);
    scrape.see::<NodeClaim>(&claim);
    let labels = r#"{name="default-x",type="Drifted",status="True",reason="AMIDrift"}"#;
    assert_eq!(scrape.samples(count), [format!("{labels} 1.0")]);
    assert_eq!(
        scrape.samples("operator_nodeclaim_status_condition_current_status_seconds"),
        [format!("{labels} 600.0")]
    );
    assert_eq!(
        scrape.samples("operator_nodeclaim_termination_current_time_seconds"),
        [r#"{name="default-x"} 60.0"#]
    );
}

#[test]
fn condition_transition_is_counted_and_timed() {
    let mut scrape = Scrape::new(false);
    let mut node = node("a", "m5.xlarge");
    scrape.see::<Node>(&node);
    let changed = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-03-05T12:06:10Z"});
    node["status"]["conditions"] = json!([changed]);
    scrape.see::<Node>(&node);
    assert_eq!(
        scrape.samples("operator_node_status_condition_transitions_total"),
        [r#"{reason="NodeStatusUnknown",status="Unknown",type="Ready"} 1.0"#]
    );
    assert_eq!(
        scrape.samples("operator_node_status_condition_transition_seconds_sum"),
        [r#"{status="Unknown",type="Ready"} 70.0"#]
    );
}

#[test]
fn deletion_of_objects_is_timed() {
    let mut scrape = Scrape::new(false);
    let mut deleted = node("a", "m5.xlarge");
    scrape.see::<Node>(&deleted);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-03-05T12:09:00Z");
    scrape.lose::<Node>(&deleted);
    let at_once = json!({"metadata": {"name": "b"}});
    scrape.see::<NodeClaim>(&at_once);
    scrape.lose::<NodeClaim>(&at_once);
    let name = "operator_node_termination_duration_seconds";
    assert_eq!(scrape.samples(&format!("{name}_sum")), [" 60.0"]);
    assert_eq!(scrape.samples(&format!("{name}_count")), [" 1"]);
    let other = "operator_nodeclaim_termination_duration_seconds_count";
    assert!(scrape.samples(other).is_empty(), "nothing held it");
}

#[test]
fn unsynced_time_is_reported_until_all_kinds_are_listed() {
    let scrape = Scrape::new(false);
    let after = Duration::from_secs(7);
    let text = scrape.metrics.render(&scrape.relay, after).unwrap();
    for line in [
        "karpenter_cluster_state_synced 0.0",
        "karpenter_cluster_state_unsynced_time_seconds 7.0",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn unschedulable_counts_do_not_exceed_pending_pods() {
    let gauges = UNSCHEDULABLE_COUNTS
        .map(|name| json!({"name": name, "labels": {"controller": "provisioner"}, "value": 2.0}));
    let document = json!({"version": 1, "gauges": gauges});
    let data = [("provisioner".to_owned(), document.to_string())].into();
    let mut scrape = Scrape::new(false);
    scrape.metrics.show(FunctionMetrics::read(&data));
    let counts = |scrape: &Scrape| UNSCHEDULABLE_COUNTS.map(|name| scrape.samples(name).concat());
    assert_eq!(counts(&scrape), [r#"{controller="provisioner"} 0.0"#; 3]);
    let mut waits = pod("web-0", "ReplicaSet", None);
    waits["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    scrape.see::<WholePod>(&waits);
    assert_eq!(counts(&scrape), [r#"{controller="provisioner"} 1.0"#; 3]);
}

#[test]
fn objects_beyond_limit_are_counted_without_series() {
    let mut scrape = Scrape::new(true);
    for number in 0..OBJECTS_MAX + 3 {
        scrape.see::<Node>(&node(&format!("n{number}"), "m5.xlarge"));
    }
    let lifetimes = scrape.samples("karpenter_nodes_current_lifetime_seconds");
    assert_eq!(lifetimes.len(), OBJECTS_MAX);
    assert_eq!(
        scrape.samples("whittle_relay_objects_left_out"),
        [r#"{resource="nodes"} 3.0"#, r#"{resource="pods"} 0.0"#]
    );
}

#[test]
fn label_values_are_escaped() {
    let mut text = String::new();
    let mut page = Exposition::new(&mut text);
    page.gauge("whittle_test", "For this test");
    page.sample(&[("a", "x\"\\\n"), ("b", "")], 1.0);
    assert_eq!(
        text,
        "# HELP whittle_test For this test.\n# TYPE whittle_test gauge\nwhittle_test{a=\"x\\\"\\\\\\n\"} 1.0\n"
    );
}
