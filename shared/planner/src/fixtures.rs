//! Fixtures of this crate's tests, complete by default, so that a test states only what matters.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    Resources, Snapshot,
    ledger::{Intent, IntentState},
    node::{ConditionStatus, Node, Ready},
    node_claim::{Condition, NodeClaim},
    node_pool::{ConsolidateAfter, NodePool},
    plan::Launch,
    pod::{Pod, PodPhase, PodShape},
};

pub(crate) fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(crate) fn snapshot() -> Snapshot {
    serde_json::from_value(serde_json::json!({
        "now": now(), "cluster": "demo", "generation": 7,
        "settings": {
            "preference_policy": "Respect", "min_values_policy": "Strict", "reserved_offering_mode": "Strict",
            "optimize": "cost", "feature_gates": {}, "well_known_labels": [], "restricted_domains": [],
            "reservation_id_label": ""
        },
        "node_pools": [], "instance_types": {}, "node_claims": [], "nodes": [], "pods": [], "daemon_sets": [],
        "namespaces": [], "disruption_budgets": [],
        "storage": {"claims": [], "volumes": [], "classes": [], "attach_limits": {}, "attachments": []},
        "intents": [], "commands": [], "notices": [], "nominated": {}
    }))
    .unwrap()
}

/// NodeClaim of NodePool `default` with an instance, and these conditions True since [`now`].
pub(crate) fn claim(name: &str, conditions: &[&str]) -> NodeClaim {
    let mut claim = NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".to_owned(),
        generation: 1,
        labels: BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "default".to_owned())]),
        finalizers: vec!["karpenter.sh/termination".to_owned()],
        created_at: Some(now()),
        ..NodeClaim::default()
    };
    claim.spec.node_class.group = "karpenter.k8s.aws".to_owned();
    claim.spec.node_class.kind = "EC2NodeClass".to_owned();
    claim.spec.requests = Resources::from([("cpu", 1_000)]);
    claim.status.provider_id = format!("aws:///us-east-1a/i-{name}");
    claim.status.conditions = conditions
        .iter()
        .map(|kind| Condition {
            kind: (*kind).to_owned(),
            status: ConditionStatus::True,
            reason: (*kind).to_owned(),
            message: String::new(),
            last_transition: now(),
            observed_generation: Some(1),
        })
        .collect();
    claim
}

/// Healthy, registered Node of a NodeClaim.
pub(crate) fn node(name: &str, claim: &NodeClaim) -> Node {
    let mut labels = claim.labels.clone();
    labels.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
    labels.insert(
        "karpenter.k8s.aws/ec2nodeclass".to_owned(),
        "default".to_owned(),
    );
    labels.insert(
        "node.kubernetes.io/instance-type".to_owned(),
        "m5.large".to_owned(),
    );
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".to_owned(),
        provider_id: claim.status.provider_id.clone(),
        labels,
        finalizers: vec!["karpenter.sh/termination".to_owned()],
        allocatable: Resources::from([("cpu", 1_900), ("pods", 29)]),
        ready: Ready {
            status: ConditionStatus::True,
            since: Some(now()),
        },
        created_at: Some(now()),
        ..Node::default()
    }
}

pub(crate) fn pool(name: &str, consolidate_after_seconds: i64) -> NodePool {
    let mut pool = NodePool {
        name: name.into(),
        ..NodePool::default()
    };
    pool.disruption.consolidate_after = ConsolidateAfter::Seconds(consolidate_after_seconds);
    pool
}

/// Running pod of a ReplicaSet.
pub(crate) fn pod(name: &str, node: &str) -> Pod {
    Pod {
        key: model::PodKey::new("default", name),
        uid: format!("uid-{name}").into(),
        node_name: Some(node.into()),
        phase: PodPhase::Running,
        ready: true,
        shape: PodShape {
            requests: Resources::from([("cpu", 100), ("pods", 1)]),
            ..PodShape::default()
        }
        .into(),
        ..Pod::default()
    }
}

/// Launch of NodeClaim `name` that starts now.
pub(crate) fn intent(name: &str) -> Intent {
    let launch: Launch = serde_json::from_value(serde_json::json!({
        "name": name, "node_pool": "default", "node_pool_uid": "", "labels": {}, "annotations": {},
        "spec": claim(name, &[]).spec, "pods": [], "instance_types": [],
        "cheapest": {"instance_type": "", "capacity_type": "on-demand", "zone": "", "price": 0, "capacity": {}}
    }))
    .unwrap();
    Intent {
        plan: "p".into(),
        generation: 1,
        launch,
        state: IntentState::Intended,
        lease: None,
        committed_at: now(),
    }
}
