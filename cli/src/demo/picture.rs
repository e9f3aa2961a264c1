//! The world at one moment, as turns and people look at it.

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
    /// EC2NodeClasses that nodes can be made of.
    pub(super) ready: BTreeSet<String>,
    pub(super) claims: Vec<NodeClaim>,
    pub(super) nodes: BTreeMap<NodeName, Node>,
    pub(super) pods: Vec<Pod>,
    /// Every instance there ever was.
    pub(super) instances: Vec<Priced>,
    /// What all instances cost together now.
    pub(super) hourly: NanosPerHour,
    /// What was spent until now, in nano-dollars.
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
    /// Of Running and starting pods.
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

/// How far a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Launching,
    Booting,
    /// Its kubelet is there; not Ready and initialized yet.
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

    /// One line per NodeClaim, the oldest first.
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

/// Whether a pod runs, and can be counted on.
pub(super) fn is_running(pod: &Pod) -> bool {
    pod.phase == PodPhase::Running && pod.deletion.is_none()
}
