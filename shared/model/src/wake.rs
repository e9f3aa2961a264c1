//! Wakes: messages that ask for a turn of a lane. Level-triggered: losing or doubling one changes latency only.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ids::ClusterName, lane::Lane, view::ViewPointer};

/// Body of a message in a wake queue. Unknown fields are ignored, so that two versions can run side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    pub version: u32,
    pub cluster: ClusterName,
    pub lane: Lane,
    /// A kebab-case reason for logs, such as `pods-unschedulable`.
    pub reason: String,
    /// Names of objects to read first; never believed. At most [`Wake::HINTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// Newest view of the cluster's pods, if the relay publishes views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<ViewPointer>,
    /// Whether the relay's batching window is still open.
    #[serde(default, skip_serializing_if = "Batch::is_closed")]
    pub batch: Batch,
    /// Time at which the relay sent it, by the relay's clock; other senders leave it out. For timelines only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
}

/// Whether the relay's batching window for pending pods was open when it sent a wake
/// (docs/scheduling.md#when-nodes-are-launched).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batch {
    /// All pending pods are planned for.
    #[default]
    Closed,
    /// Only full nodes are launched. Another wake follows when the window closes.
    Open,
}

impl Batch {
    pub fn is_closed(&self) -> bool {
        *self == Self::Closed
    }
}

impl Wake {
    pub const VERSION: u32 = 1;
    /// Keeps a wake far below the size limit of SQS messages, however long the names are.
    pub const HINTS_MAX: usize = 100;

    /// Longest message group id that SQS accepts, in characters.
    const GROUP_MAX: usize = 128;

    /// The wake's message group in a queue that all clusters share: the cluster's name. `None` if SQS would refuse the
    /// name.
    pub fn group(&self) -> Option<String> {
        let name = self.cluster.as_str();
        let is_group = (1..=Self::GROUP_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_group.then(|| name.to_owned())
    }

    pub fn new(cluster: ClusterName, lane: Lane, reason: &str) -> Self {
        Self {
            version: Self::VERSION,
            cluster,
            lane,
            reason: reason.to_owned(),
            hints: Vec::new(),
            view: None,
            batch: Batch::Closed,
            sent_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cluster: &str) -> Option<String> {
        Wake::new(cluster.into(), Lane::Provisioner, "test").group()
    }

    #[test]
    fn message_group_is_valid_for_sqs() {
        assert_eq!(group("team-a.prod_1"), Some("team-a.prod_1".to_owned()));
        for refused in [
            String::new(),
            "c".repeat(129),
            "with space".to_owned(),
            "é".to_owned(),
        ] {
            assert_eq!(group(&refused), None, "{refused}");
        }
    }
}
