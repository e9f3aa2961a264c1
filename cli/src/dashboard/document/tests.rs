use std::sync::Arc;

use api::manifests::Manifests;
use model::{
    NanosPerHour, Plan, PodKey, Snapshot,
    labels::NODE_POOL,
    node::{ConditionStatus, Node, NodeCondition, Ready},
    node_claim::{Condition, NodeClaim},
    node_pool::NodePool,
    pod::Pod,
    selector::LabelSelector,
    snapshot::PodDisruptionBudget,
};

use super::*;
use crate::{catalogs, cluster};

const CLUSTER: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: v1
kind: Node
metadata:
  name: a
  labels:
    karpenter.sh/nodepool: default
    karpenter.sh/capacity-type: on-demand
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: us-east-1a
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: zz.large}}
";

#[test]
fn node_price_is_the_sum_of_its_parts() {
    let mut snapshot = cluster::empty(Timestamp::UNIX_EPOCH, cluster::aws_settings());
    snapshot.settings.node_price = NanosPerHour(10_000_000);
    let mut manifests = Manifests::default();
    manifests.read("cluster.yaml", CLUSTER);
    let objects = manifests
        .objects
        .into_iter()
        .map(|manifest| manifest.object);
    let types = Arc::new(catalogs::us_east_1().unwrap());
    cluster::add_objects(&mut snapshot, objects, &types);
    for pool in &mut snapshot.node_pools {
        pool.volume_price = NanosPerHour(2_000_000);
    }
    let nodes = nodes(&snapshot);
    let [known, unknown] = nodes.as_slice() else {
        panic!("{nodes:?}");
    };
    let text = |dollars: f64| format!("{dollars:.4}");
    assert_eq!(known.hourly.map(text).as_deref(), Some("0.1080"));
    let parts = known.price_parts.map(|parts| parts.map(text).join(" + "));
    assert_eq!(parts.as_deref(), Some("0.0960 + 0.0020 + 0.0100"));
    assert!(unknown.hourly.is_none() && unknown.price_parts.is_none());
}

fn now() -> Timestamp {
    "2026-11-28T12:00:00Z".parse().unwrap()
}

fn minutes_ago(minutes: i64) -> Option<Timestamp> {
    Some(now() - jiff::SignedDuration::from_mins(minutes))
}

fn snapshot(nodes: Vec<Node>, node_claims: Vec<NodeClaim>) -> Snapshot {
    let mut snapshot = cluster::empty(now(), cluster::aws_settings());
    snapshot.nodes = nodes;
    snapshot.node_claims = node_claims;
    snapshot
}

fn node(name: &str, provider_id: &str) -> Node {
    Node {
        name: name.into(),
        provider_id: provider_id.to_owned(),
        created_at: minutes_ago(60),
        ready: Ready {
            status: ConditionStatus::True,
            since: minutes_ago(60),
        },
        ..Node::default()
    }
}

fn claim(name: &str, provider_id: &str, conditions: &[(&str, ConditionStatus, &str)]) -> NodeClaim {
    let mut claim = NodeClaim {
        name: name.into(),
        created_at: minutes_ago(60),
        ..NodeClaim::default()
    };
    claim.status.provider_id = provider_id.to_owned();
    let conditions = conditions.iter();
    claim.status.conditions = conditions
        .map(|(kind, status, message)| Condition {
            kind: (*kind).to_owned(),
            status: *status,
            reason: "Reason".to_owned(),
            message: (*message).to_owned(),
            last_transition: now(),
            observed_generation: None,
        })
        .collect();
    claim
}

const READY: &[(&str, ConditionStatus, &str)] = &[
    ("Registered", ConditionStatus::True, ""),
    ("Initialized", ConditionStatus::True, ""),
];

#[test]
fn each_instance_is_counted_once() {
    let mut unnamed = claim("by-name", "", READY);
    unnamed.status.node_name = Some("early".into());
    let mut renamed = node("b-renamed", "aws:///a/i-2");
    renamed.created_at = minutes_ago(1);
    let snapshot = snapshot(
        vec![
            node("a", "aws:///a/i-1"),
            node("b", "aws:///a/i-2"),
            renamed,
            node("early", ""),
            node("foreign", "aws:///a/i-9"),
        ],
        vec![
            // The status does not name the node yet.
            claim("of-a", "aws:///a/i-1", READY),
            claim("of-b", "aws:///a/i-2", READY),
            unnamed,
            claim("young", "aws:///a/i-3", &[]),
        ],
    );
    let nodes = nodes(&snapshot);
    let joined: Vec<(&str, Option<&str>)> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node.claim.as_deref()))
        .collect();
    assert_eq!(
        joined,
        [
            ("a", Some("of-a")),
            ("b-renamed", Some("of-b")),
            ("early", Some("by-name")),
            ("foreign", None),
            ("young", Some("young")),
        ]
    );
}

/// State of the only machine, the reason for it, and whether it is stuck.
fn explained(node: Option<Node>, claim: NodeClaim) -> (Stage, String, bool) {
    let snapshot = snapshot(node.into_iter().collect(), vec![claim]);
    let [node] = <[NodeBox; 1]>::try_from(nodes(&snapshot)).unwrap();
    (node.state, node.reason.unwrap_or_default(), node.stuck)
}

#[test]
fn node_that_is_not_ready_has_a_reason() {
    let id = "aws:///a/i-1";
    let refused = "InsufficientInstanceCapacity in us-east-1a";
    let conditions = [("Launched", ConditionStatus::Unknown, refused)];
    let (state, reason, stuck) = explained(None, claim("web", "", &conditions));
    assert_eq!((state, stuck), (Stage::Launching, true));
    assert_eq!(reason, format!("Launched: {refused}"));

    let (state, reason, stuck) = explained(None, claim("web", id, &[]));
    assert_eq!((state, stuck), (Stage::Joining, true));
    assert!(reason.contains("no Node with its provider id"), "{reason}");

    let mut young = claim("web", id, &[]);
    young.created_at = minutes_ago(1);
    let (.., stuck) = explained(None, young);
    assert!(!stuck, "a node usually takes a minute to join");

    let conditions = [
        ("Registered", ConditionStatus::True, ""),
        (
            "Initialized",
            ConditionStatus::Unknown,
            "startup taint example.com/cni",
        ),
    ];
    let (state, reason, _) = explained(Some(node("a", id)), claim("web", id, &conditions));
    assert_eq!(state, Stage::Joining);
    assert_eq!(reason, "Initialized: startup taint example.com/cni");

    let mut silent = node("a", id);
    silent.ready.status = ConditionStatus::Unknown;
    silent.conditions.push(NodeCondition {
        kind: "DiskPressure".to_owned(),
        status: ConditionStatus::True,
        reason: "KubeletHasDiskPressure".to_owned(),
        since: None,
    });
    let (state, reason, stuck) = explained(Some(silent), claim("web", id, READY));
    assert_eq!((state, stuck), (Stage::NotReady, true));
    assert_eq!(
        reason,
        "the kubelet has stopped reporting; DiskPressure (KubeletHasDiskPressure)"
    );
}

#[test]
fn pods_that_hold_a_drain_are_named() {
    let id = "aws:///a/i-1";
    let mut leaving = claim("web", id, READY);
    leaving.deleted_at = minutes_ago(30);
    let mut snapshot = snapshot(vec![node("a", id)], vec![leaving]);
    let mut pod = Pod {
        key: PodKey::new("default", "web-0"),
        node_name: Some("a".into()),
        ..Pod::default()
    };
    pod.labels.insert("app".to_owned(), "web".to_owned());
    snapshot.pods = vec![pod];
    snapshot.disruption_budgets = vec![PodDisruptionBudget {
        key: PodKey::new("default", "web"),
        selector: Some(LabelSelector {
            match_labels: [("app".to_owned(), "web".to_owned())].into(),
            ..LabelSelector::default()
        }),
        ..PodDisruptionBudget::default()
    }];
    let reason = |snapshot: &Snapshot| nodes(snapshot).remove(0).reason.unwrap();
    assert_eq!(
        reason(&snapshot),
        "pod default/web-0: PodDisruptionBudget web allows no eviction now"
    );
    snapshot.disruption_budgets.clear();
    assert_eq!(reason(&snapshot), "1 pod is still on it");
    snapshot.pods.clear();
    snapshot.nodes[0].finalizers = vec!["example.com/backup".to_owned()];
    assert_eq!(
        reason(&snapshot),
        "finalizer example.com/backup holds the Node"
    );
}

#[test]
fn node_pools_without_nodes_are_listed_with_their_problems() {
    let pool = |name: &str| NodePool {
        name: name.into(),
        ..NodePool::default()
    };
    let mut used_up = pool("small");
    used_up.limits.set("nodes", 1);
    let mut unready = pool("gpu");
    unready.not_ready = Some("EC2NodeClass gpu does not exist".to_owned());
    let mut static_pool = pool("static");
    static_pool.replicas = Some(3);
    let mut of_small = claim("small-1", "aws:///a/i-1", READY);
    of_small
        .labels
        .insert(NODE_POOL.to_owned(), "small".to_owned());
    let mut snapshot = snapshot(vec![], vec![of_small]);
    snapshot.node_pools = vec![used_up, unready, static_pool, pool("idle")];
    let pools = pools(&snapshot, &Plan::default());
    let listed: Vec<String> = pools
        .iter()
        .map(|pool| format!("{}: {}", pool.name, pool.problems.join("; ")))
        .collect();
    assert_eq!(
        listed,
        [
            "gpu: EC2NodeClass gpu does not exist",
            "idle: ",
            "small: limit reached: 1 of 1 nodes",
            "static: 0 of 3 replicas",
        ]
    );
}
