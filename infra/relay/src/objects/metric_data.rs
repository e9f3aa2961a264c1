//! Data of objects for `/metrics`. No decision depends on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::Resources;
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, OS, REGION, ZONE};
use model::pod::{Pod, PodPhase};

use super::Key;
use super::meta::{Condition, Meta};

/// Fields of an object that `/metrics` publishes, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricData {
    Pod(PodData),
    Node(Box<NodeData>),
    /// A NodeClaim, NodePool, EC2NodeClass or CapacityBuffer.
    Other(ObjectData),
}

/// Data that all kinds with conditions share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectData {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub deleted_at: Option<Timestamp>,
    pub conditions: Vec<ConditionData>,
}

/// A status condition, and when it took its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionData {
    pub name: Box<str>,
    pub status: Box<str>,
    pub reason: Box<str>,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeData {
    pub object: ObjectData,
    pub created_at: Option<Timestamp>,
    /// Labels that Karpenter's metrics have.
    pub labels: BTreeMap<String, String>,
    pub managed: bool,
    pub capacity: Resources,
    pub allocatable: Resources,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodData {
    pub node: Option<Key>,
    pub phase: PodPhase,
    pub ready: bool,
    /// Whether a DaemonSet owns the pod.
    pub daemon: bool,
    pub created_at: Option<Timestamp>,
    /// Shared by all pods with the same amounts.
    pub amounts: Arc<PodAmounts>,
    /// Whether the pod was observed before it was bound, and before it was ready; otherwise these durations are unknown.
    pub seen_unbound: bool,
    pub seen_unready: bool,
    /// Stored only if pods have individual series: details are most of a pod's memory.
    pub details: Option<Box<PodDetails>>,
}

/// Details that distinguish a pod from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDetails {
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// Name of the controller.
    pub owner: Box<str>,
    pub node: Box<str>,
    pub bound_at: Option<Timestamp>,
    pub ready_at: Option<Timestamp>,
}

/// Requests and limits of all containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodAmounts {
    pub requests: Resources,
    pub limits: Resources,
}

/// Returns whether Karpenter's node metrics have this label.
pub(super) fn is_exported(label: &str) -> bool {
    const EXPORTED: [&str; 7] = [
        ARCH,
        CAPACITY_TYPE,
        INSTANCE_TYPE,
        NODE_POOL,
        OS,
        REGION,
        ZONE,
    ];
    EXPORTED.contains(&label) || label.starts_with("karpenter.k8s.aws/instance-")
}

impl PodData {
    /// Returns whether the pod uses nothing of its node any more.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    pub(super) fn new(pod: &Pod, conditions: &[Condition]) -> Self {
        let since = |name: &str| {
            let mut met = conditions
                .iter()
                .filter(|condition| condition.name == name && condition.status == "True");
            met.next()?.since()
        };
        let owner = pod.owner.as_ref();
        let node_name = pod.node_name.as_ref().map(|node| node.as_str());
        Self {
            node: node_name.map(Key::node),
            phase: pod.phase,
            ready: pod.ready,
            daemon: owner.is_some_and(|owner| owner.kind == "DaemonSet"),
            created_at: pod.created_at,
            amounts: Arc::new(PodAmounts {
                requests: pod.requests.clone(),
                limits: pod.limits.clone(),
            }),
            seen_unbound: node_name.is_none(),
            seen_unready: pod.phase == PodPhase::Pending,
            details: Some(Box::new(PodDetails {
                namespace: pod.key.namespace.as_str().into(),
                name: pod.key.name.as_str().into(),
                owner: owner.map_or("", |owner| owner.name.as_str()).into(),
                node: node_name.unwrap_or_default().into(),
                bound_at: since("PodScheduled"),
                ready_at: since("Ready"),
            })),
        }
    }
}

impl ObjectData {
    pub(super) fn new(meta: &Meta, conditions: &[Condition]) -> Self {
        let conditions = conditions.iter().map(|condition| ConditionData {
            name: condition.name.as_str().into(),
            status: condition.status.as_str().into(),
            reason: condition.reason.as_str().into(),
            since: condition.since(),
        });
        Self {
            namespace: meta.namespace.as_str().into(),
            name: meta.name.as_str().into(),
            deleted_at: meta.deleted_at(),
            conditions: conditions.collect(),
        }
    }
}

/// Parses a resource list of an API server; amounts that cannot be parsed are skipped.
pub(super) fn resources(list: &BTreeMap<String, String>) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in list {
        // A skipped amount is only missing in metrics.
        let _ = resources.set_quantity(name, amount);
    }
    resources
}
