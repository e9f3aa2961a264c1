//! Emptying a node in priority tiers, by force only past its deadline (spec/lifecycle §9.1, §9.4, §9.5).

use api::conditions::{ConditionSet, types::DRAINED};
use jiff::{SignedDuration, Timestamp};
use model::{Action, Snapshot, node::Node, node_claim::NodeClaim, pod::Pod};

use crate::{
    decision::{Decision, Note},
    inventory::is_daemon,
    pods::is_awaited,
    provision::movable::must_not_be_disrupted,
};

/// A scheduler that has not seen the taint yet may bind a pod for this long.
const SETTLING: SignedDuration = SignedDuration::from_secs(5);

pub(super) struct Drain<'a> {
    waiting: usize,
    evict: Vec<&'a Pod>,
    force: Vec<(&'a Pod, i64)>,
}

impl<'a> Drain<'a> {
    pub(super) fn of(snapshot: &Snapshot, pods: &[&'a Pod], deadline: Option<Timestamp>) -> Self {
        let now = snapshot.now;
        let awaited: Vec<&Pod> = pods
            .iter()
            .copied()
            .filter(|pod| is_awaited(pod, now))
            .collect();
        let (past, graceful): (Vec<&Pod>, Vec<&Pod>) =
            awaited.iter().partition(|pod| is_past(pod, now, deadline));
        let first = graceful.iter().map(|pod| tier(pod)).min();
        let evict = graceful
            .into_iter()
            .filter(|pod| {
                Some(tier(pod)) == first
                    && pod.deletion.is_none()
                    && !must_not_be_disrupted(pod, now)
            })
            .collect();
        let left = deadline.map_or(0, |deadline| deadline.duration_since(now).as_secs());
        // Never zero: that would remove the pod from the API while it still runs.
        let force = past.into_iter().map(|pod| (pod, left.max(1))).collect();
        Self {
            waiting: awaited.len(),
            evict,
            force,
        }
    }

    pub(super) fn act(&self, node: &Node, decision: &mut Decision) {
        if self.waiting > 0 {
            decision.notes.push(Note::warning(
                node,
                "FailedDraining",
                format!(
                    "Failed to drain node, {} pods are waiting to be evicted",
                    self.waiting
                ),
            ));
        }
        for pod in &self.evict {
            let evict = Action::Evict {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                grace_seconds: None,
            };
            decision.act(evict, format!("node {} is being drained", node.name));
        }
        for (pod, grace) in &self.force {
            let delete = Action::DeletePod {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                grace_seconds: Some(*grace),
            };
            decision.act(
                delete,
                format!("node {} has reached its termination deadline", node.name),
            );
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the node has been empty for too short a time to trust it.
    pub(super) fn settles(&self, snapshot: &Snapshot, claim: &NodeClaim) -> bool {
        let young = |since| snapshot.now.duration_since(since) < SETTLING;
        !claim.is_true(DRAINED)
            && claim
                .condition(DRAINED)
                .is_none_or(|draining| young(draining.last_transition))
    }
}

/// The drain has begun.
pub(super) fn write(conditions: &mut ConditionSet<'_>) {
    if !conditions.is_true(DRAINED) {
        conditions.set_unknown(DRAINED, "Draining", "Draining");
    }
}

/// Ordinary pods first, then ordinary daemons, then critical pods, then critical daemons.
fn tier(pod: &Pod) -> (bool, bool) {
    (pod.critical, is_daemon(pod))
}

/// Whether the pod's own grace period would outlive the node.
fn is_past(pod: &Pod, now: Timestamp, deadline: Option<Timestamp>) -> bool {
    let Some(deadline) = deadline else {
        return false;
    };
    match (&pod.deletion, pod.termination_grace_seconds) {
        (Some(deletion), _) => deletion.at > deadline,
        (None, Some(grace)) => now
            .saturating_add(SignedDuration::from_secs(grace))
            .is_ok_and(|end| end > deadline),
        (None, None) => false,
    }
}
