use model::ClusterName;
use serde::Serialize;

/// Reaction to one interruption, for the log line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum InterruptionReport {
    /// No registered cluster has this instance.
    NotOurs,
    /// The fact is recorded, and its NodeClaim is being deleted or will be by the terminator.
    Recorded { cluster: ClusterName },
    /// No action is needed: its NodeClaim is gone or being deleted already.
    Expected { cluster: ClusterName },
    /// The instance's NodePool asks for no reaction to this.
    Tolerated { cluster: ClusterName },
    /// The event cannot happen to this instance, as its NodeClaim shows, such as a spot notice for an instance that is not
    /// spot. Nothing was done.
    Refuted { cluster: ClusterName },
    /// The instance's cluster is in shadow mode: nothing was done.
    Shadow { cluster: ClusterName },
    /// The functions of its cluster's reach receive the event too, and act on it. Recorded here if that cannot wait.
    Elsewhere { cluster: ClusterName },
    /// The instance's cluster is not registered any more.
    Unregistered { cluster: ClusterName },
}

impl InterruptionReport {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NotOurs => "not-ours",
            Self::Recorded { .. } => "recorded",
            Self::Expected { .. } => "expected",
            Self::Tolerated { .. } => "tolerated",
            Self::Refuted { .. } => "refuted",
            Self::Shadow { .. } => "shadow",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Unregistered { .. } => "unregistered",
        }
    }
}
