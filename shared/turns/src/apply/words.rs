//! What users are told of an act.

use api::conditions::types::DISRUPTION_REASON;
use jiff::{SignedDuration, Timestamp};
use model::{Action, PodKey, node::Node};
use ports::{
    ClusterError,
    cluster::{Event, EventKind, EventTarget},
};

use crate::{lane::Turn, observe::Observed};

/// Upstream's word for what nobody chose.
const FORCEFUL: &str = "Forceful Termination";

/// Why the pod's node goes.
pub(super) fn reason_of(observed: &Observed, pod: &PodKey) -> String {
    let reason = || {
        let node = node_of(observed, pod)?;
        let claims = observed.snapshot.node_claims.iter();
        let claim = claims
            .into_iter()
            .find(|claim| claim.status.provider_id == node.provider_id)?;
        let reason = claim.condition(DISRUPTION_REASON)?;
        claim
            .is_true(DISRUPTION_REASON)
            .then(|| reason.reason.clone())
    };
    reason().unwrap_or_else(|| FORCEFUL.to_owned())
}

fn node_of<'a>(observed: &'a Observed, pod: &PodKey) -> Option<&'a Node> {
    let snapshot = &observed.snapshot;
    let pod = snapshot.pods.iter().find(|other| other.key == *pod)?;
    let mut nodes = snapshot.nodes.iter();
    nodes.find(|node| Some(&node.name) == pod.node_name.as_ref())
}

pub(super) fn forced(
    observed: &Observed,
    pod: &PodKey,
    grace: Option<i64>,
    now: Timestamp,
) -> String {
    let grace = grace.unwrap_or_default();
    let at = now + SignedDuration::from_secs(grace);
    let pods = &observed.snapshot.pods;
    let wanted = pods.iter().find(|other| other.key == *pod);
    let wanted = wanted.and_then(|pod| pod.termination_grace_seconds);
    let wanted = wanted.map_or_else(|| "default".to_owned(), |wanted| format!("{wanted}s"));
    format!(
        "Deleting the pod to accommodate the terminationTime {at:.0} of the node. The pod was granted {grace}s of grace-period \
         of its {wanted} terminationGracePeriod. This bypasses the PDB of the pod and the do-not-disrupt annotation."
    )
}

/// An eviction that a budget refuses is said on the node it holds up.
pub(super) fn refused(
    turn: &Turn<'_>,
    observed: &Observed,
    action: &Action,
    error: &ClusterError,
) -> Option<Event> {
    let Action::Evict { pod, .. } = action else {
        return None;
    };
    let node = node_of(observed, pod)?;
    Some(Event {
        about: EventTarget::Node(node.name.clone(), node.uid.clone()),
        kind: EventKind::Warning,
        reason: "FailedDraining".into(),
        message: format!("Failed to drain node, {error}"),
        at: turn.now,
    })
}
