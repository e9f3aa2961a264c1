//! The parts of objects that `/metrics` tells of. Nothing is decided by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::Resources;
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, OS, REGION, ZONE};
use model::pod::{Pod, PodPhase};

use super::Key;
use super::meta::{Condition, Meta};

/// Parts of an object that `/metrics` tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Facts {
    Pod(PodFacts),
    Node(Box<NodeFacts>),
    /// A NodeClaim, NodePool, EC2NodeClass or CapacityBuffer.
    Other(ObjectFacts),
}

/// Parts that all kinds with conditions have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub deleted_at: Option<Timestamp>,
    pub conditions: Vec<ConditionFacts>,
}

/// One status condition, and since when it has its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionFacts {
    pub name: Box<str>,
    pub status: Box<str>,
    pub reason: Box<str>,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub object: ObjectFacts,
    pub created_at: Option<Timestamp>,
    /// The labels that Karpenter's metrics have.
    pub labels: BTreeMap<String, String>,
    pub managed: bool,
    pub capacity: Resources,
    pub allocatable: Resources,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    pub node: Option<Key>,
    pub phase: PodPhase,
    pub ready: bool,
    /// Whether a DaemonSet owns it.
    pub daemon: bool,
    pub created_at: Option<Timestamp>,
    /// Shared by the pods that are alike.
    pub amounts: Arc<PodAmounts>,
    /// Seen before it was bound, and before it was ready: only then is it known how long either took.
    pub seen_unbound: bool,
    pub seen_unready: bool,
    /// Kept only where pods have series of their own: these are most of what a pod takes of the relay's memory.
    pub details: Option<Box<PodDetails>>,
}

/// Parts of a pod that tell it from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDetails {
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// Name of the controlling owner.
    pub owner: Box<str>,
    pub node: Box<str>,
    pub bound_at: Option<Timestamp>,
    pub ready_at: Option<Timestamp>,
}

/// Requests and limits of a pod's containers together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodAmounts {
    pub requests: Resources,
    pub limits: Resources,
}

/// Whether Karpenter's metrics of nodes have this label.
pub(super) fn is_told(label: &str) -> bool {
    const TOLD: [&str; 7] = [
        ARCH,
        CAPACITY_TYPE,
        INSTANCE_TYPE,
        NODE_POOL,
        OS,
        REGION,
        ZONE,
    ];
    TOLD.contains(&label) || label.starts_with("karpenter.k8s.aws/instance-")
}

impl PodFacts {
    /// Whether it takes nothing of its node any more.
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

impl ObjectFacts {
    pub(super) fn new(meta: &Meta, conditions: &[Condition]) -> Self {
        let conditions = conditions.iter().map(|condition| ConditionFacts {
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

/// An API server's resource list; an amount that cannot be read is left out.
pub(super) fn resources(list: &BTreeMap<String, String>) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in list {
        // An amount that is left out is missing from a chart, and nothing else.
        let _ = resources.set_quantity(name, amount);
    }
    resources
}
