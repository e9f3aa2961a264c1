//! What one turn decided: a list of actions as data, each with its reason, and a reason for every pod left waiting.

mod text;

pub use text::names;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    catalog::{CapacityType, NanosPerHour},
    ids::{InstanceId, InstanceTypeName, NodeClaimName, NodeName, NodePoolName, PodKey, Uid},
    node_claim::{Condition, NodeClaimSpec},
    resources::Resources,
    taint::Taint,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub actions: Vec<Planned>,
    /// Pods expected on nodes that exist or are on their way.
    pub nominations: Vec<Nomination>,
    pub unplaced: Vec<Unplaced>,
    /// Pods that this turn did not get to, because a turn plans only so much at once: the next one goes on with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub postponed: Vec<PodRef>,
    /// CapacityBuffers whose pods were all looked at.
    #[serde(
        default,
        with = "crate::pairs",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub buffers: BTreeMap<PodKey, Room>,
    /// NodePools that no pod can use, because no instance type is left for them, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub barren: BTreeMap<NodePoolName, String>,
}

/// Where the pods of a CapacityBuffer would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Room {
    /// All of them to nodes that exist or are on their way.
    There,
    /// Some need a new node, or have no place.
    Lacking,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub action: Action,
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Launch(Box<Launch>),
    /// Deletes the NodeClaim; its finalizer hands the node to the terminator.
    DeleteNodeClaim(Target),
    /// Asks for the node of the NodeClaim to be rebooted in place.
    Reboot(Target),
    /// Writes labels, annotations, taints and finalizers of a NodeClaim's node.
    UpdateNode(NodeUpdate),
    UpdateNodeClaim(NodeClaimUpdate),
    Evict {
        pod: PodKey,
        uid: Uid,
        grace_seconds: Option<i64>,
    },
    DeletePod {
        pod: PodKey,
        uid: Uid,
        grace_seconds: Option<i64>,
    },
    Terminate {
        claim: NodeClaimName,
        instance: InstanceId,
    },
}

impl Action {
    /// The node that it buys.
    pub fn launch(&self) -> Option<&Launch> {
        if let Self::Launch(launch) = self {
            Some(launch)
        } else {
            None
        }
    }

    /// The NodeClaim whose node it reboots.
    pub fn reboot(&self) -> Option<&Target> {
        if let Self::Reboot(target) = self {
            Some(target)
        } else {
            None
        }
    }

    /// The NodeClaim that it deletes.
    pub fn deletion(&self) -> Option<&Target> {
        if let Self::DeleteNodeClaim(target) = self {
            Some(target)
        } else {
            None
        }
    }
}

/// An object and the version it was judged by; both are preconditions of the act (docs/protocol.md#d2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub name: NodeClaimName,
    pub uid: Uid,
    pub resource_version: String,
}

/// One new node: the NodeClaim to create, what it is for and what it is expected to become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub name: NodeClaimName,
    pub node_pool: NodePoolName,
    pub node_pool_uid: Uid,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: NodeClaimSpec,
    /// The pods that cause this launch; re-read before it commits (docs/protocol.md#a6).
    pub pods: Vec<PodRef>,
    /// The options left, cheapest first; at most [`Launch::INSTANCE_TYPES_MAX`].
    pub instance_types: Vec<InstanceTypeName>,
    /// The cheapest offering among them, which limits and costs are counted by.
    pub cheapest: ExpectedOffering,
}

impl Launch {
    /// As upstream: more would not fit a launch request (docs/spec/scheduling.md#truncation).
    pub const INSTANCE_TYPES_MAX: usize = 600;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedOffering {
    pub instance_type: String,
    pub capacity_type: CapacityType,
    pub zone: String,
    pub price: NanosPerHour,
    pub capacity: Resources,
}

impl ExpectedOffering {
    /// The price, unless nothing on offer says what the node will cost.
    pub fn known_price(&self) -> Option<NanosPerHour> {
        let is_unnamed = self.instance_type.is_empty() && self.price.is_nothing();
        let is_unpriced = self.price == NanosPerHour(i64::MAX);
        (!is_unnamed && !is_unpriced).then_some(self.price)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    pub key: PodKey,
    pub uid: Uid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nomination {
    pub pod: PodRef,
    pub node: Expected,
}

/// Where a pod is expected: a Node, or a NodeClaim that has no registered Node yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Expected {
    Node(NodeName),
    NodeClaim(NodeClaimName),
}

/// A pod without a place, with one reason per NodePool tried (or a single one that concerns the pod itself).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaced {
    pub pod: PodRef,
    pub reasons: Vec<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub node_pool: Option<NodePoolName>,
    pub text: String,
    /// The pod would have a place, were the NodePool's limits higher.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
}

/// Changes to a Node; maps name what to set, `remove_*` what to take away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUpdate {
    pub name: NodeName,
    pub uid: Uid,
    pub resource_version: String,
    pub set_labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_labels: Vec<String>,
    pub set_annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_annotations: Vec<String>,
    pub add_finalizers: Vec<String>,
    pub remove_finalizers: Vec<String>,
    /// The whole list, where it changes.
    pub taints: Option<Vec<Taint>>,
    /// Takes no new pods from now on; what is cordoned stays so.
    #[serde(default)]
    pub cordon: bool,
    /// Takes new pods again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncordon: bool,
    /// The NodeClaim that is to own the Node.
    pub owner: Option<(NodeClaimName, Uid)>,
    pub delete: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClaimUpdate {
    pub name: NodeClaimName,
    pub uid: Uid,
    pub resource_version: String,
    pub set_labels: BTreeMap<String, String>,
    pub set_annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_annotations: Vec<String>,
    pub add_finalizers: Vec<String>,
    pub remove_finalizers: Vec<String>,
    /// Conditions that change; the others stay.
    pub conditions: Vec<Condition>,
    /// Conditions that go away.
    #[serde(default)]
    pub clear_conditions: Vec<String>,
    #[serde(default)]
    pub last_pod_event: Option<Timestamp>,
    pub node_name: Option<NodeName>,
    pub provider_id: Option<String>,
    pub image_id: Option<String>,
    pub capacity: Option<Resources>,
    pub allocatable: Option<Resources>,
}
