//! Texts of events about actions.

use api::conditions::types::DISRUPTION_REASON;
use jiff::{SignedDuration, Timestamp};
use model::{Action, InstanceId, PodKey, Uid, node::Node};
use ports::{
    ClusterError, TerminationRefusal,
    cluster::{Event, EventKind, EventTarget},
};

use crate::{act::terminations::refusal_event, context::Turn, observe::Observed};

/// Karpenter's reason for a disruption that no controller chose.
const FORCEFUL_REASON: &str = "Forceful Termination";

/// Reason for which the pod's node is disrupted.
pub(super) fn disruption_reason(observed: &Observed, pod: &PodKey) -> String {
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
    reason().unwrap_or_else(|| FORCEFUL_REASON.to_owned())
}

fn node_of<'a>(observed: &'a Observed, pod: &PodKey) -> Option<&'a Node> {
    let snapshot = &observed.snapshot;
    let pod = snapshot.pods.iter().find(|other| other.key == *pod)?;
    let mut nodes = snapshot.nodes.iter();
    nodes.find(|node| Some(&node.name) == pod.node_name.as_ref())
}

pub(super) fn forced_deletion_message(
    observed: &Observed,
    pod: &PodKey,
    grace: Option<i64>,
    now: Timestamp,
) -> String {
    let grace = grace.unwrap_or_default();
    let at = now + SignedDuration::from_secs(grace);
    let pods = &observed.snapshot.pods;
    let requested = pods.iter().find(|other| other.key == *pod);
    let requested = requested.and_then(|pod| pod.termination_grace_seconds);
    let requested =
        requested.map_or_else(|| "default".to_owned(), |requested| format!("{requested}s"));
    format!(
        "Deleting the pod to accommodate the terminationTime {at:.0} of the node. The pod was granted {grace}s of grace-period \
         of its {requested} terminationGracePeriod. This bypasses the PDB of the pod and the do-not-disrupt annotation."
    )
}

pub(super) fn object_of(observed: &Observed, action: &Action) -> EventTarget {
    match action {
        Action::Launch(launch) => {
            EventTarget::NodePool(launch.node_pool.clone(), launch.node_pool_uid.clone())
        }
        Action::DeleteNodeClaim(target) | Action::Reboot(target) => {
            EventTarget::NodeClaim(target.name.clone(), target.uid.clone())
        }
        Action::UpdateNode(update) => EventTarget::Node(update.name.clone(), update.uid.clone()),
        Action::UpdateNodeClaim(update) => {
            EventTarget::NodeClaim(update.name.clone(), update.uid.clone())
        }
        Action::Evict { pod, uid, .. } | Action::DeletePod { pod, uid, .. } => {
            EventTarget::Pod(pod.clone(), uid.clone())
        }
        Action::Terminate { claim: name, .. } => {
            let mut claims = observed.snapshot.node_claims.iter();
            let claim = claims.find(|claim| claim.name == *name);
            let uid = claim.map_or_else(Uid::default, |claim| claim.uid.clone());
            EventTarget::NodeClaim(name.clone(), uid)
        }
    }
}

/// Events on the NodeClaim and the Node of an instance that EC2 refuses to terminate.
pub(super) fn termination_refused(
    turn: &Turn<'_>,
    observed: &Observed,
    id: &InstanceId,
    refusal: &TerminationRefusal,
) -> Vec<Event> {
    let snapshot = &observed.snapshot;
    let is_its = |provider_id: &str| provider_id.rsplit('/').next() == Some(id.as_str());
    let claims = snapshot.node_claims.iter();
    let claims = claims.filter(|claim| is_its(&claim.status.provider_id));
    let claims = claims.map(|claim| EventTarget::NodeClaim(claim.name.clone(), claim.uid.clone()));
    let nodes = snapshot.nodes.iter();
    let nodes = nodes.filter(|node| is_its(&node.provider_id));
    let nodes = nodes.map(|node| EventTarget::Node(node.name.clone(), node.uid.clone()));
    let objects = claims.chain(nodes);
    objects
        .map(|about| refusal_event(about, id, refusal, turn.now))
        .collect()
}

/// Event on a node whose drain waits because a PodDisruptionBudget refuses an eviction.
pub(super) fn drain_refused(
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
