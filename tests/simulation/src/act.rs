use std::fmt;

use model::{
    InstanceId, Lane, NodeName,
    ids::TurnId,
    launch::FleetRequest,
    ledger::Lease,
    plan::{NodeClaimUpdate, Target},
    pod::Pod,
};
use ports::ledger::Commit;

/// An act of a turn.
pub(crate) enum Act<'a> {
    Take { lane: Lane, lease: &'a Lease },
    End { lane: Lane, turn: &'a TurnId },
    Commit(&'a Commit),
    Launch(&'a FleetRequest),
    Terminate(&'a [InstanceId]),
    DeleteClaim(&'a Target),
    UpdateClaim(&'a NodeClaimUpdate),
    DeleteNode(&'a NodeName),
    Evict(Option<Pod>),
    DeletePod(Option<Pod>),
}

impl Act<'_> {
    /// Returns whether only the leader of an active cluster may do this.
    pub(crate) fn is_destructive(&self) -> bool {
        match self {
            Self::Launch(_)
            | Self::Terminate(_)
            | Self::DeleteClaim(_)
            | Self::DeleteNode(_)
            | Self::Evict(_)
            | Self::DeletePod(_) => true,
            Self::Take { .. } | Self::End { .. } | Self::Commit(_) | Self::UpdateClaim(_) => false,
        }
    }
}

impl fmt::Display for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |pod: &Option<Pod>| {
            pod.as_ref()
                .map(|pod| pod.key.to_string())
                .unwrap_or_default()
        };
        match self {
            Self::Take { lane, lease } => write!(f, "{} takes {lane}", lease.owner),
            Self::End { lane, turn } => write!(f, "{turn} ends {lane}"),
            Self::Commit(commit) => write!(f, "commit of {}", commit.turn),
            Self::Launch(request) => write!(f, "launch {}", request.token),
            Self::Terminate(ids) => write!(f, "termination of {ids:?}"),
            Self::DeleteClaim(target) => write!(f, "deletion of NodeClaim {}", target.name),
            Self::UpdateClaim(update) => write!(f, "update of NodeClaim {}", update.name),
            Self::DeleteNode(name) => write!(f, "deletion of Node {name}"),
            Self::Evict(pod) => write!(f, "eviction of {}", key(pod)),
            Self::DeletePod(pod) => write!(f, "deletion of {}", key(pod)),
        }
    }
}
