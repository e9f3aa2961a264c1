//! State of the world at one moment, for turns and for the output.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{
    CapacityType, NanosPerHour, NodeName,
    launch::{Instance, InstanceState},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    pod::{Pod, PodPhase},
    resources::CPU,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) at: Timestamp,
    /// EC2NodeClasses and NodePools by their UIDs, each with its generation.
    pub(super) asked_for: BTreeMap<String, Option<i64>>,
    /// EC2NodeClasses that are ready for launches.
    pub(super) ready: BTreeSet<String>,
    pub(super) claims: Vec<NodeClaim>,
    pub(super) nodes: BTreeMap<NodeName, Node>,
    pub(super) pods: Vec<Pod>,
    /// All instances, including terminated ones.
    pub(super) instances: Vec<Priced>,
    /// Hourly cost of all running instances.
    pub(super) hourly: NanosPerHour,
    /// Total cost so far, in nano-dollars.
    pub(super) spent_nanos: i64,
}

/// An instance and its price.
#[derive(Clone, Debug)]
pub(super) struct Priced {
    pub(super) instance: Instance,
    pub(super) price: NanosPerHour,
}

/// A NodeClaim's node, as one line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeLine {
    pub(super) claim: String,
    pub(super) bought: Option<Bought>,
    pub(super) stage: Stage,
    pub(super) pods: usize,
    /// Requests of Running and starting pods, in millicores.
    pub(super) cpu_used: u64,
    pub(super) cpu_allocatable: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bought {
    pub(super) instance_type: String,
    pub(super) capacity_type: CapacityType,
    pub(super) zone: String,
    pub(super) price: NanosPerHour,
}

/// Stage of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Launching,
    Booting,
    /// The kubelet has registered; the node is not Ready and initialized yet.
    Joining,
    Ready,
    Leaving,
}

impl Picture {
    /// Pods that the scheduler found no node for.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Pod> {
        self.pods
            .iter()
            .filter(|pod| pod.unschedulable && pod.node_name.is_none())
    }

    pub(super) fn pods_on<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Pod> {
        self.pods
            .iter()
            .filter(move |pod| pod.node_name.as_ref() == Some(node))
    }

    /// Pods of a Deployment that labels them `app: <its name>`.
    pub(super) fn pods_of<'a>(&'a self, app: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods
            .iter()
            .filter(move |pod| pod.labels.get("app").is_some_and(|value| value == app))
    }

    pub(super) fn instance_of(&self, claim: &NodeClaim) -> Option<&Priced> {
        let (_, id) = claim.status.provider_id.rsplit_once('/')?;
        self.instances
            .iter()
            .find(|priced| priced.instance.id.as_str() == id)
    }

    /// Instances that are not terminated.
    pub(super) fn remaining(&self) -> impl Iterator<Item = &Priced> {
        self.instances
            .iter()
            .filter(|priced| priced.instance.state != InstanceState::Terminated)
    }

    /// One line per NodeClaim, oldest first.
    pub(super) fn lines(&self) -> Vec<NodeLine> {
        let mut claims: Vec<&NodeClaim> = self.claims.iter().collect();
        claims.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
        claims.into_iter().map(|claim| self.line(claim)).collect()
    }

    fn line(&self, claim: &NodeClaim) -> NodeLine {
        let node = claim
            .status
            .node_name
            .as_ref()
            .and_then(|name| self.nodes.get(name));
        let pods: Vec<&Pod> = node
            .map(|node| self.pods_on(&node.name).collect())
            .unwrap_or_default();
        let cpu = |amount: i64| u64::try_from(amount).unwrap_or(0);
        let allocatable = node.map_or(&claim.status.allocatable, |node| &node.allocatable);
        NodeLine {
            claim: claim.name.to_string(),
            bought: self.instance_of(claim).map(Bought::of),
            stage: stage(claim, node),
            pods: pods.len(),
            cpu_used: pods.iter().map(|pod| cpu(pod.requests.get(CPU))).sum(),
            cpu_allocatable: cpu(allocatable.get(CPU)),
        }
    }
}

impl Bought {
    pub(super) fn of(priced: &Priced) -> Self {
        Self {
            instance_type: priced.instance.instance_type.clone(),
            capacity_type: priced.instance.capacity_type,
            zone: priced.instance.zone.clone(),
            price: priced.price,
        }
    }
}

fn stage(claim: &NodeClaim, node: Option<&Node>) -> Stage {
    if claim.deleted_at.is_some() {
        Stage::Leaving
    } else if claim.status.provider_id.is_empty() {
        Stage::Launching
    } else if node.is_none() {
        Stage::Booting
    } else if claim.is_true("Initialized")
        && node.is_some_and(|node| node.ready.status == ConditionStatus::True)
    {
        Stage::Ready
    } else {
        Stage::Joining
    }
}

/// Whether a pod runs and is not being deleted.
pub(super) fn is_running(pod: &Pod) -> bool {
    pod.phase == PodPhase::Running && pod.deletion.is_none()
}
