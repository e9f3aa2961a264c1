//! Wakes: messages that say "look at this cluster". Level-triggered: losing or doubling one changes latency only.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ids::ClusterName, view::ViewPointer};

/// The body of a message in a wake queue. Unknown fields are ignored, so that two versions can run side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    pub version: u32,
    pub cluster: ClusterName,
    pub lane: Lane,
    /// A kebab-case word for logs, such as `pods-unschedulable`.
    pub reason: String,
    /// Names that may choose what is read first; never believed. At most [`Wake::HINTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The newest view of the cluster's pods, where the relay publishes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<ViewPointer>,
    /// Whether more pods are still gathered.
    #[serde(default, skip_serializing_if = "Batch::is_closed")]
    pub batch: Batch,
}

/// Whether the relay's window of pending pods was still open when a wake was sent (docs/scheduling.md#when-nodes-are-launched).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batch {
    /// Every pod that waits is planned for.
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
    /// Keeps a wake far below SQS' message size, however long the names are.
    pub const HINTS_MAX: usize = 100;

    /// Longest message group that SQS takes, in characters.
    const GROUP_MAX: usize = 128;

    /// The wake's message group in a queue that all clusters share: its cluster. `None` where SQS would refuse the name.
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
        }
    }
}

/// One function working on one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Provisioner,
    Lifecycle,
    Disruption,
    Terminator,
    Interruption,
    Housekeeper,
}

impl Lane {
    /// The lanes that wakes go to; the other two are woken by EventBridge.
    pub const WOKEN: [Self; 4] = [
        Self::Provisioner,
        Self::Lifecycle,
        Self::Disruption,
        Self::Terminator,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioner => "provisioner",
            Self::Lifecycle => "lifecycle",
            Self::Disruption => "disruption",
            Self::Terminator => "terminator",
            Self::Interruption => "interruption",
            Self::Housekeeper => "housekeeper",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cluster: &str) -> Option<String> {
        Wake::new(cluster.into(), Lane::Provisioner, "test").group()
    }

    #[test]
    fn message_group_is_a_name_that_sqs_takes() {
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
