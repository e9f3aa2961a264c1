use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::command::PodAssignment;
use crate::{
    catalog::NanosPerHour,
    ids::{NodeClaimName, NodeName, NodePoolName},
};

/// State of an unfinished disruption evaluation. A hint: if it is missing or unreadable, the next turn starts a new
/// evaluation.
///
/// Either the position reached when there were too many nodes for one turn, with a small entry per NodePool
/// (docs/adr/0013-disruption-evaluations-resume-from-a-cursor.md), or the remaining steps of a plan
/// (docs/adr/0017-plan-the-cluster-as-a-whole.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cursor {
    /// Position among drifted nodes: the last one considered.
    Drift(Drifted),
    /// Position in single-node consolidation, after all drifted nodes were considered. A NodePool without an entry has
    /// not been considered.
    Single(BTreeMap<NodePoolName, PoolProgress>),
    /// Remaining steps of a plan for the cluster as a whole.
    Plan(Vec<PlannedRemoval>),
}

impl Cursor {
    /// Whether the next turn continues with nodes that this one did not consider.
    pub fn is_unfinished(&self) -> bool {
        match self {
            Self::Drift(_) | Self::Single(_) => true,
            Self::Plan(_) => false,
        }
    }
}

/// Nodes to remove together, and the destinations of their pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRemoval {
    pub nodes: Vec<NodeClaimName>,
    pub wanted: Vec<PodAssignment>,
}

/// Position of a node in the order of drifted nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Drifted {
    /// Whether pods have to move. Nodes without such pods come first.
    pub occupied: bool,
    pub since: Option<Timestamp>,
    pub node: NodeName,
}

/// The nodes of a NodePool considered so far in this evaluation: the first ones by [`CandidateRank`], up to `last`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolProgress {
    pub nodes: usize,
    pub last: CandidateRank,
}

/// Position of a node in its NodePool's order, which is by savings relative to disruption cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateRank {
    /// Price of the node.
    pub price: NanosPerHour,
    /// Disruption cost of the node's pods, in the unit in which candidates are compared.
    pub disruption: i64,
    /// Breaks ties.
    pub node: NodeName,
}

#[cfg(test)]
mod tests {
    use super::{super::command::Place, *};

    #[test]
    fn cursor_round_trips_through_json() {
        let considered = PoolProgress {
            nodes: 3,
            last: CandidateRank {
                price: NanosPerHour(2),
                disruption: 4,
                node: "a".into(),
            },
        };
        let cursors = [
            Cursor::Drift(Drifted {
                occupied: true,
                since: None,
                node: "a".into(),
            }),
            Cursor::Single([("default".into(), considered)].into()),
            Cursor::Plan(vec![PlannedRemoval {
                nodes: vec!["a".into()],
                wanted: vec![PodAssignment {
                    place: Place::New("default".into()),
                    pods: vec!["p".into()],
                }],
            }]),
        ];
        for cursor in cursors {
            let text = serde_json::to_string(&cursor).unwrap();
            assert_eq!(serde_json::from_str::<Cursor>(&text).unwrap(), cursor);
        }
    }
}
