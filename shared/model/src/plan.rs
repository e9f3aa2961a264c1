//! The decision of one turn: a list of actions as data, each with its reason, and a reason for every pod left pending.

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
    /// Pods expected on existing nodes or nodes in flight.
    pub nominations: Vec<Nomination>,
    pub unplaced: Vec<Unplaced>,
    /// Pods left to the next turn, because one turn plans a bounded number of pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub postponed: Vec<PodRef>,
    /// CapacityBuffers whose pods were all considered.
    #[serde(
        default,
        with = "crate::pairs",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub buffers: BTreeMap<PodKey, BufferCapacity>,
    /// NodePools without any usable instance type, with the reason.
    #[serde(rename = "barren", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools_without_types: BTreeMap<NodePoolName, String>,
}

/// Whether there is room for the pods of a CapacityBuffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferCapacity {
    /// All pods fit on existing nodes or nodes in flight.
    #[serde(rename = "There")]
    Available,
    /// Some pods need a new node, or cannot be placed.
    #[serde(rename = "Lacking")]
    Insufficient,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub action: Action,
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Launch(Box<Launch>),
    /// Deletes the NodeClaim. Its finalizer hands the node to the terminator.
    DeleteNodeClaim(Target),
    /// Requests an in-place reboot of the NodeClaim's node.
    Reboot(Target),
    /// Updates labels, annotations, taints and finalizers of a node.
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
    /// The launch, if the action is one.
    pub fn launch(&self) -> Option<&Launch> {
        if let Self::Launch(launch) = self {
            Some(launch)
        } else {
            None
        }
    }

    /// The NodeClaim whose node the action reboots, if any.
    pub fn reboot(&self) -> Option<&Target> {
        if let Self::Reboot(target) = self {
            Some(target)
        } else {
            None
        }
    }

    /// The NodeClaim that the action deletes, if any.
    pub fn deletion(&self) -> Option<&Target> {
        if let Self::DeleteNodeClaim(target) = self {
            Some(target)
        } else {
            None
        }
    }
}

/// A NodeClaim as the decision read it. Its uid and resourceVersion are preconditions of the API call
/// (docs/protocol.md#d2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub name: NodeClaimName,
    pub uid: Uid,
    pub resource_version: String,
}

/// A new node: the NodeClaim to create, the pods it is for, and the offering that is expected to be launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub name: NodeClaimName,
    pub node_pool: NodePoolName,
    pub node_pool_uid: Uid,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: NodeClaimSpec,
    /// Pods that cause this launch; read again before it commits (docs/protocol.md#a6).
    pub pods: Vec<PodRef>,
    /// Compatible instance types, cheapest first; at most [`Launch::INSTANCE_TYPES_MAX`].
    pub instance_types: Vec<InstanceTypeName>,
    /// The cheapest compatible offering, by which limits and costs are calculated.
    pub cheapest: ExpectedOffering,
}

impl Launch {
    /// Karpenter's bound: more types would not fit a CreateFleet request (docs/spec/scheduling.md#truncation).
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
    /// The price, or `None` if no offering has a known price.
    pub fn known_price(&self) -> Option<NanosPerHour> {
        let is_unnamed = self.instance_type.is_empty() && self.price.is_zero();
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

/// The node that a pod is nominated to: a Node, or a NodeClaim without a registered Node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Expected {
    Node(NodeName),
    NodeClaim(NodeClaimName),
}

/// A pod that fits on no node, with one reason per NodePool tried or a single reason that concerns the pod itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaced {
    pub pod: PodRef,
    pub reasons: Vec<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub node_pool: Option<NodePoolName>,
    pub text: String,
    /// Whether the pod would fit if the NodePool's limits were higher.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
}

/// Changes to a Node: `set_*` adds or overwrites entries, `remove_*` deletes them.
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
    /// The complete new list of taints; `None` leaves them unchanged.
    pub taints: Option<Vec<Taint>>,
    /// Marks the node as unschedulable. A cordoned node stays cordoned.
    #[serde(default)]
    pub cordon: bool,
    /// Marks the node as schedulable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncordon: bool,
    /// The NodeClaim to set as the Node's owner.
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
    /// Conditions to set; all others are kept.
    pub conditions: Vec<Condition>,
    /// Types of conditions to remove.
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
