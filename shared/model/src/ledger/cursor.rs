use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::command::Wanted;
use crate::{
    catalog::NanosPerHour,
    ids::{NodeClaimName, NodeName, NodePoolName},
};

/// What a look for disruptions leaves to the next one. It is a hint: without it, or with one that nobody can read, the next look
/// begins anew.
///
/// Either how far it came where there was more than a turn's share, a few words for each NodePool
/// (docs/adr/0013-a-look-goes-on-from-a-cursor.md), or what is left of a plan (docs/adr/0017-plan-the-cluster-as-a-whole.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cursor {
    /// Within the nodes that drifted: the last that was considered.
    Drift(Drifted),
    /// Those are through, and of the nodes looked at one by one these are, too. A NodePool that is not here is still to come.
    Single(BTreeMap<NodePoolName, Considered>),
    /// Of a plan for all nodes together, what is still to be done.
    Plan(Vec<Together>),
}

impl Cursor {
    /// The next look goes on with what this one has not looked at.
    pub fn goes_on(&self) -> bool {
        match self {
            Self::Drift(_) | Self::Single(_) => true,
            Self::Plan(_) => false,
        }
    }
}

/// Nodes that are to go together, and where their pods are to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    pub nodes: Vec<NodeClaimName>,
    pub wanted: Vec<Wanted>,
}

/// The place of a node among those that drifted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Drifted {
    /// Whether pods have to move: nodes without any come first.
    pub occupied: bool,
    pub since: Option<Timestamp>,
    pub node: NodeName,
}

/// The nodes of a NodePool that were considered in this round: the first of them, by worth, up to the one named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Considered {
    pub nodes: usize,
    pub last: Rank,
}

/// The place of a node among those of its NodePool, which is by what it saves for what it disturbs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// What the node costs.
    pub price: NanosPerHour,
    /// What moving its pods costs, in the units that candidates are compared by.
    pub disruption: i64,
    /// Equal ones are in the order of their names.
    pub node: NodeName,
}

#[cfg(test)]
mod tests {
    use super::{super::command::Place, *};

    #[test]
    fn a_cursor_is_read_back_as_it_was_written() {
        let considered = Considered {
            nodes: 3,
            last: Rank {
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
            Cursor::Plan(vec![Together {
                nodes: vec!["a".into()],
                wanted: vec![Wanted {
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
