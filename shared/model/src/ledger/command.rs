use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    ids::{InstanceTypeName, NodeClaimName, NodePoolName, Uid},
    plan::Target,
};

/// Row `CLUSTER#c` / `COMMAND#…`: a disruption under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: String,
    pub reason: String,
    pub delete: Vec<Target>,
    /// Replacements that must be initialized before anything is deleted.
    pub replacements: Vec<NodeClaimName>,
    pub state: CommandState,
    pub committed_at: Timestamp,
    /// Method that chose the disruption; `None` for one that is not voluntary (expiration, repair …), which nothing holds
    /// back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The node to reboot in place, instead of deleting NodeClaims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<Target>,
    /// Replacements that were initialized once. They count as initialized whatever happens to them afterwards
    /// (docs/spec/lifecycle.md#command-progress).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initialized: Vec<NodeClaimName>,
}

impl Command {
    /// The NodeClaims to delete, or the one whose node is rebooted.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.delete.iter().chain(&self.reboot)
    }

    /// Window over which caps bound evictions and terminations.
    pub const CAP_WINDOW: SignedDuration = SignedDuration::from_hours(1);

    /// Chosen evictions that still count against caps, by NodePool, and until when they count.
    pub fn counted_evictions(
        &self,
        now: Timestamp,
    ) -> Option<(&BTreeMap<NodePoolName, u32>, Timestamp)> {
        let chosen = self.choice.as_ref()?;
        Some((&chosen.evicts, self.counts_until(now)?))
    }

    /// Number of nodes whose termination still counts against caps, and until when it counts.
    pub fn counted_terminations(&self, now: Timestamp) -> Option<(u32, Timestamp)> {
        let nodes = u32::try_from(self.delete.len()).unwrap_or(u32::MAX);
        Some((nodes, self.counts_until(now)?))
    }

    fn counts_until(&self, now: Timestamp) -> Option<Timestamp> {
        let binds = match self.state {
            CommandState::Proposed | CommandState::RolledBack => false,
            CommandState::Replacing
            | CommandState::Deleting
            | CommandState::Done
            | CommandState::Newer => true,
        };
        let until = self.committed_at.saturating_add(Self::CAP_WINDOW).ok()?;
        (binds && until > now).then_some(until)
    }
}

/// `proposed → replacing → deleting → done`, or `rolledback` from either of the first two (docs/protocol.md#d1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandState {
    /// Waits for validation; has no effect yet.
    Proposed,
    #[default]
    Replacing,
    Deleting,
    Done,
    RolledBack,
    /// A state of a newer schema version. Nodes of the command are reserved, and only functions of that version change
    /// it.
    #[serde(other)]
    Newer,
}

impl CommandState {
    /// Whether the command's nodes are being removed (docs/protocol.md#o3).
    pub fn is_open(self) -> bool {
        match self {
            Self::Replacing | Self::Deleting | Self::Newer => true,
            Self::Proposed | Self::Done | Self::RolledBack => false,
        }
    }

    /// Whether the command has ended.
    pub fn is_over(self) -> bool {
        match self {
            Self::Done | Self::RolledBack => true,
            Self::Proposed | Self::Replacing | Self::Deleting | Self::Newer => false,
        }
    }
}

/// A voluntary disruption: the method that chose it, and the state that its validation compares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub method: Method,
    /// Time of the validation of a proposal.
    pub validate_at: Option<Timestamp>,
    /// Instance types of the first proposed replacement; empty if there is none.
    pub instance_types: Vec<InstanceTypeName>,
    /// Instance types of each further replacement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Vec<InstanceTypeName>>,
    /// Decided destinations of pods, so that validation judges the disruption as it was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<PodAssignment>,
    /// Number of pods to evict, by the NodePool of their nodes. Counts against caps on evictions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evicts: BTreeMap<NodePoolName, u32>,
    /// The repair, if the node is repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Whether the node is terminated before its replacement is launched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate_first: bool,
    /// The reserved instance that becomes free, if the node is terminated first and runs in a capacity reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<FreedInstance>,
}

/// An instance of a capacity reservation that a node frees by terminating before its replacement is launched. It is
/// kept for pods like those of the node while such pods are pending (docs/spec/v1.15.md#terminate-first-freed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedInstance {
    pub reservation: String,
    /// NodePool of the node.
    pub node_pool: NodePoolName,
    /// Owners of the pods that ran on the node, which create their replacements.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub owners: BTreeSet<Uid>,
}

/// The condition that a node is repaired for, and the time its pods have to leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// Type of the Node's condition.
    pub condition: String,
    /// Reason of that condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Upper bound on the drain, counted from the deletion of the NodeClaim; zero removes pods by force immediately.
    /// `None`, or a longer value, leaves the bound to the NodeClaim's own grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_bound: Option<SignedDuration>,
}

/// Pods with the same destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodAssignment {
    pub place: Place,
    pub pods: Vec<Uid>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Name of a Node, or of the NodeClaim of a node that has not registered.
    Node(String),
    /// A replacement node of this NodePool.
    New(NodePoolName),
}

/// Method that chose a disruption. Methods are tried in this order (docs/spec/lifecycle.md#disruption-loop).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    Repair,
    Emptiness,
    StaticDrift,
    Drift,
    MultiNode,
    SingleNode,
}

impl Method {
    /// Value of the metric label `consolidation_type`.
    pub fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::Repair | Self::StaticDrift | Self::Drift => "",
            Self::MultiNode => "multi",
            Self::SingleNode => "single",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_command_state_is_open_and_never_over() {
        let state: CommandState = serde_json::from_str("\"paused\"").unwrap();
        assert_eq!(state, CommandState::Newer);
        assert!(state.is_open() && !state.is_over());
    }
}
