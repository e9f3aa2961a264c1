//! The page's document: the answer of `GET /api/state`.

mod machines;
mod pending;
mod pools;
mod prices;
mod stuck;

use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::{
    machines::nodes,
    pending::{is_pending, pending},
    pools::pools,
    stuck::disruption_reason,
};

/// Version of the document. Changes whenever a reader of the previous version could be misled.
pub(crate) const VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    pub(crate) version: u32,
    /// Number that grows with every change.
    pub(crate) revision: u64,
    /// Time of the last change.
    pub(crate) at: Timestamp,
    pub(crate) source: Source,
    /// Reasons why no newer state is shown.
    pub(crate) problems: Vec<String>,
    /// Warnings that do not prevent showing the state.
    pub(crate) notes: Vec<String>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) nodes: Vec<NodeBox>,
    pub(crate) pending: Vec<Pending>,
    /// Oldest first.
    pub(crate) decisions: Vec<Decision>,
    /// Oldest first; each holds until the next.
    pub(crate) costs: Vec<Cost>,
}

/// Source of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Source {
    /// Kind of the source, such as `context` or `demo`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

/// A NodePool, with or without nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pool {
    pub(crate) name: String,
    /// Reasons why it launches no nodes, or not all that it should.
    pub(crate) problems: Vec<String>,
}

/// A machine: a node with its NodeClaim, or either without the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeBox {
    pub(crate) name: String,
    pub(crate) claim: Option<String>,
    /// NodePool; empty for nodes without one.
    pub(crate) pool: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) instance_type: String,
    /// Dollars per hour, if the price is known.
    pub(crate) hourly: Option<f64>,
    /// Parts of that price in dollars: the instance, its volumes, and the node itself.
    pub(crate) price_parts: Option<[f64; 3]>,
    /// Dollars per hour with an on-demand instance of the same type and zone.
    pub(crate) list_hourly: Option<f64>,
    pub(crate) state: Stage,
    /// Start of the state, or of the node if the state is `Ready`.
    pub(crate) since: Option<Timestamp>,
    /// Reason why the node is not ready for pods; `None` in state `Ready`.
    pub(crate) reason: Option<String>,
    /// Whether the state lasts longer than it usually does.
    pub(crate) stuck: bool,
    /// Allocatable CPU in millicores.
    pub(crate) cpu: i64,
    /// Allocatable memory in bytes.
    pub(crate) memory: i64,
    pub(crate) pods: Vec<Placed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stage {
    /// The instance does not exist yet.
    Launching,
    /// The instance exists, its node is not usable yet.
    Joining,
    Ready,
    NotReady,
    Cordoned,
    Leaving,
}

/// Namespace and name, requested millicores and bytes, and 1 for a DaemonSet's pod; an array, because there are many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Placed(String, i64, i64, u8);

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pending {
    pub(crate) name: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    /// The plan for the pod, or the reasons why each NodePool cannot run it.
    pub(crate) reasons: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    pub(crate) at: Timestamp,
    pub(crate) kind: DecisionKind,
    /// Action, such as `launch`.
    pub(crate) act: String,
    /// Object of the action: a node, a NodeClaim or a pod.
    pub(crate) subject: String,
    pub(crate) why: String,
    /// Change of the cost in dollars per hour, if it is known.
    pub(crate) hourly: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DecisionKind {
    /// Adds a node.
    Launch,
    /// Removes a node.
    Delete,
    /// Leaves a node as it is.
    Keep,
    /// A failure, or something that waits for a person.
    Warning,
    /// Anything else.
    Note,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) at: Timestamp,
    /// Dollars per hour.
    pub(crate) hourly: f64,
    /// Dollars per hour with on-demand instances of the same types and zones.
    pub(crate) list: f64,
}

/// One row of the overview of clusters: an element of the answer of `GET /api/clusters`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) source: Source,
    pub(crate) at: Timestamp,
    pub(crate) nodes: usize,
    pub(crate) ready: usize,
    pub(crate) stuck: usize,
    pub(crate) pending: usize,
    /// NodePools with problems.
    pub(crate) pools_with_problems: usize,
    /// Dollars per hour.
    pub(crate) hourly: f64,
    /// Dollars per hour with on-demand instances of the same types and zones.
    pub(crate) list: f64,
    pub(crate) problems: Vec<String>,
}

#[cfg(test)]
mod tests;
