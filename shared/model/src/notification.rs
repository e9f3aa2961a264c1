//! What people are told outside their clusters.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::ClusterName;

/// Something to be told once, to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// What is put twice under one id is told once.
    pub id: String,
    /// The name of the destination.
    pub to: String,
    pub class: NotificationClass,
    pub cluster: ClusterName,
    pub at: Timestamp,
    pub title: String,
    /// One line each.
    pub details: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotificationClass {
    /// AWS announced the end of nodes.
    Interruption,
    /// Nodes are removed or replaced by choice.
    Disruption,
    /// EC2 had no capacity for several launches of one turn.
    InsufficientCapacity,
    /// A limit of a NodePool, or the account's budget of EC2 calls, holds something back.
    Limit,
    /// A person has to look before anything else happens.
    Approval,
}

impl NotificationClass {
    pub const ALL: [Self; 5] = [
        Self::Interruption,
        Self::Disruption,
        Self::InsufficientCapacity,
        Self::Limit,
        Self::Approval,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interruption => "interruption",
            Self::Disruption => "disruption",
            Self::InsufficientCapacity => "insufficientCapacity",
            Self::Limit => "limit",
            Self::Approval => "approval",
        }
    }
}
