//! Notifications to people outside their clusters.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::ClusterName;

/// A message to one destination, sent once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Idempotency key: notifications with equal ids are sent once.
    pub id: String,
    /// Name of the destination.
    pub to: String,
    pub class: NotificationClass,
    pub cluster: ClusterName,
    pub at: Timestamp,
    pub title: String,
    /// One line per entry.
    pub details: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotificationClass {
    /// AWS announced that instances end.
    Interruption,
    /// Nodes are removed or replaced voluntarily.
    Disruption,
    /// EC2 had no capacity for several launches of one turn.
    InsufficientCapacity,
    /// A NodePool limit, or the account's budget of EC2 calls, delays work.
    Limit,
    /// Work is on hold until a person approves it.
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
