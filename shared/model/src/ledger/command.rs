use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    ids::{InstanceTypeName, NodeClaimName, NodePoolName, Uid},
    plan::Target,
};

/// `CLUSTER#c` / `COMMAND#…`: a disruption under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: String,
    pub reason: String,
    pub delete: Vec<Target>,
    /// They must be initialized before anything is deleted.
    pub replacements: Vec<NodeClaimName>,
    pub state: CommandState,
    pub committed_at: Timestamp,
    /// `None` for what nobody chose (expiry, repair …), which nothing holds back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The node that is rebooted in place, where that is what is done instead of a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<Target>,
    /// Replacements that were seen in service. That is enough, whatever becomes of them afterwards
    /// (docs/spec/lifecycle.md#command-progress).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initialized: Vec<NodeClaimName>,
}

impl Command {
    /// The NodeClaims that it is about: those that it deletes, or the one whose node it reboots.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.delete.iter().chain(&self.reboot)
    }

    /// Caps on evictions are for so long.
    pub const EVICTIONS_FOR: SignedDuration = SignedDuration::from_hours(1);

    /// The evictions that were chosen with it, as long as they count against caps, and until when they do.
    pub fn counted_evictions(
        &self,
        now: Timestamp,
    ) -> Option<(&BTreeMap<NodePoolName, u32>, Timestamp)> {
        let chosen = self.choice.as_ref()?;
        Some((&chosen.evicts, self.counts_until(now)?))
    }

    /// The nodes that it ends, as long as they count against caps, and until when they do.
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
        let until = self.committed_at.saturating_add(Self::EVICTIONS_FOR).ok()?;
        (binds && until > now).then_some(until)
    }
}

/// `proposed → replacing → deleting → done`, or `rolledback` from either of the first two (docs/protocol.md#d1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandState {
    /// To be judged again; it binds nobody yet.
    Proposed,
    #[default]
    Replacing,
    Deleting,
    Done,
    RolledBack,
    /// A newer version of the functions knows what this is. Its nodes are spoken for, and nobody else moves it.
    #[serde(other)]
    Newer,
}

impl CommandState {
    /// Whether what it names is on its way out (docs/protocol.md#o3).
    pub fn is_open(self) -> bool {
        match self {
            Self::Replacing | Self::Deleting | Self::Newer => true,
            Self::Proposed | Self::Done | Self::RolledBack => false,
        }
    }

    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        match self {
            Self::Done | Self::RolledBack => true,
            Self::Proposed | Self::Replacing | Self::Deleting | Self::Newer => false,
        }
    }
}

/// A disruption that was chosen, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub method: Method,
    /// When a proposal is judged again.
    pub validate_at: Option<Timestamp>,
    /// What a proposed replacement may become; empty where none is needed.
    pub instance_types: Vec<InstanceTypeName>,
    /// The same of further replacements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Vec<InstanceTypeName>>,
    /// Where pods are to go when their nodes do, as far as that was decided: it is judged again as it was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<Wanted>,
    /// How many pods have to go, by the NodePool of their nodes: what is counted against caps on evictions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub evicts: BTreeMap<NodePoolName, u32>,
    /// Why the node is repaired, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// The node goes before its replacement comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate_first: bool,
    /// The instance that the node leaves to its reservation, where it goes first and runs in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<FreedInstance>,
}

/// An instance of a capacity reservation that a node leaves which goes before its replacement. Other pods do not get it while pods
/// like those of the node wait (docs/spec/v1.15.md#terminate-first-freed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedInstance {
    pub reservation: String,
    /// NodePool of the node.
    pub node_pool: NodePoolName,
    /// Owners of the pods that ran on the node, which make others like them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub owners: BTreeSet<Uid>,
}

/// The condition that a node is repaired for, and how long its pods may take to leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The type of the Node's condition.
    pub condition: String,
    /// The reason of that condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time from the deletion of the NodeClaim on, unless its own grace period is shorter; zero removes pods by force at once. `None`:
    /// the NodeClaim's grace period alone counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_bound: Option<SignedDuration>,
}

/// Pods that are to go to the same place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub place: Place,
    pub pods: Vec<Uid>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A Node, or the NodeClaim of one that is not there yet, by its name.
    Node(String),
    /// A replacement.
    New(NodePoolName),
}

/// Method that decides on a disruption. Methods are tried in this order (docs/spec/lifecycle.md#disruption-loop).
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
    /// As metrics call it.
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
    fn a_state_of_a_newer_version_binds_and_is_never_over() {
        let state: CommandState = serde_json::from_str("\"paused\"").unwrap();
        assert_eq!(state, CommandState::Newer);
        assert!(state.is_open() && !state.is_over());
    }
}
