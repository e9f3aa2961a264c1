//! Drains a node in priority tiers, by force only after its deadline (docs/spec/lifecycle.md#drain,
//! docs/spec/lifecycle.md#past-threshold, docs/spec/lifecycle.md#force-delete).

use api::conditions::{ConditionSet, types::DRAINED};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, Snapshot, counted, node::Node, node_claim::NodeClaim, pod::Pod, singular_or_plural,
};

use crate::{
    decision::{Decision, Note},
    do_not_disrupt::must_not_be_disrupted,
    inventory::is_daemon,
    pods::is_awaited,
};

use super::deadline::Deadline;

/// Time in which a scheduler that has not seen the taint may still bind a pod.
const TAINT_PROPAGATION: SignedDuration = SignedDuration::from_secs(5);

/// Time in which pods are evicted, respecting budgets, before they are deleted by force, while the instance's announced end
/// allows it.
const RESPECTFUL_PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// Kubernetes' default termination grace period.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Evictions and deletions that the drain of a node needs now.
pub(super) struct Drain<'a> {
    now: Timestamp,
    deadline: Option<Timestamp>,
    most: Option<i64>,
    waiting: usize,
    /// Pods to evict, with the remaining grace period in seconds if it is shorter than the pod's own.
    evict: Vec<(&'a Pod, Option<i64>)>,
    force: Vec<(&'a Pod, i64)>,
    /// Time at which further pods must be evicted or deleted.
    next: Option<Timestamp>,
}

impl<'a> Drain<'a> {
    /// `most` caps the grace period of pods, in seconds.
    pub(super) fn new(
        snapshot: &Snapshot,
        pods: &[&'a Pod],
        deadline: Option<&Deadline>,
        most: Option<i64>,
    ) -> Self {
        let now = snapshot.now;
        let awaited: Vec<&Pod> = pods
            .iter()
            .copied()
            .filter(|pod| is_awaited(pod, now))
            .collect();
        let grace = |pod: &Pod| most.map_or(grace(pod), |most| grace(pod).min(most));
        let plan = |pod: &Pod| deadline.map(|deadline| LatestStart::new(pod, grace(pod), deadline));
        let is_past = |pod: &&&Pod| match (&pod.deletion, plan(pod)) {
            (Some(deletion), Some(_)) => deadline.is_some_and(|deadline| deletion.at > deadline.at),
            (None, Some(start)) => now >= start.forced,
            (_, None) => false,
        };
        let (past, graceful): (Vec<&Pod>, Vec<&Pod>) = awaited.iter().partition(is_past);
        let first = graceful.iter().map(|pod| tier(pod)).min();
        // Pods of later tiers are evicted early if waiting would exceed their deadline.
        let presses = |pod: &Pod| plan(pod).is_some_and(|start| now >= start.respectful);
        let left = deadline.map_or(0, |deadline| deadline.at.duration_since(now).as_secs());
        let shortened = |pod: &Pod| {
            let short = deadline.is_some_and(|deadline| deadline.announced.is_some());
            if short && grace(pod) > left {
                return Some(left.max(1));
            }
            most.filter(|most| *most < self::grace(pod))
                .map(|most| most.max(1))
        };
        let evictable = graceful.iter().copied().filter(|pod| {
            (Some(tier(pod)) == first || presses(pod))
                && pod.deletion.is_none()
                && !must_not_be_disrupted(pod, now)
        });
        let evict = evictable.map(|pod| (pod, shortened(pod))).collect();
        let next = graceful.iter().filter_map(|pod| plan(pod));
        let next = next.flat_map(|start| [start.respectful, start.forced]);
        let next = next.filter(|at| *at > now).min();
        // A grace period of zero would remove the pod from the API while it still runs.
        let force = past.into_iter().map(|pod| (pod, left.max(1))).collect();
        Self {
            now,
            deadline: deadline.map(|deadline| deadline.at),
            most,
            waiting: awaited.len(),
            evict,
            force,
            next,
        }
    }

    pub(super) fn plan_actions(&self, node: &Node, decision: &mut Decision) {
        if self.waiting > 0 {
            decision.notes.push(Note::warning(
                node,
                "FailedDraining",
                format!(
                    "Failed to drain node, {} {} waiting to be evicted",
                    counted(self.waiting, "pod"),
                    singular_or_plural(&self.waiting, "is", "are")
                ),
            ));
        }
        let at = self.deadline.unwrap_or(self.now);
        for (pod, left) in &self.evict {
            let evict = Action::Evict {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                grace_seconds: *left,
            };
            let because = match left {
                None => format!("node {} is being drained", node.name),
                Some(most) if self.most == Some(*most) => format!(
                    "node {} is being drained: the cluster's settings limit the grace period to {most} s, below the pod's {} s",
                    node.name,
                    grace(pod)
                ),
                Some(left) => format!(
                    "node {} is terminated at {at:.0}: {left} s remain of the pod's grace period of {} s",
                    node.name,
                    grace(pod)
                ),
            };
            decision.act(evict, because);
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

    /// Time at which further pods must be evicted or deleted.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.next
    }

    pub(super) fn has_pods(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the node has been empty for less than [`TAINT_PROPAGATION`].
    pub(super) fn is_recently_empty(&self, snapshot: &Snapshot, claim: &NodeClaim) -> bool {
        let young = |since| snapshot.now.duration_since(since) < TAINT_PROPAGATION;
        !claim.is_true(DRAINED)
            && claim
                .condition(DRAINED)
                .is_none_or(|draining| young(draining.last_transition))
    }
}

/// Sets the condition of a drain in progress.
pub(super) fn write(conditions: &mut ConditionSet<'_>) {
    if !conditions.is_true(DRAINED) {
        conditions.set_unknown(DRAINED, "Draining", "Draining");
    }
}

/// Tiers: pods, DaemonSet pods, critical pods, critical DaemonSet pods.
fn tier(pod: &Pod) -> (bool, bool) {
    (pod.critical, is_daemon(pod))
}

/// Latest times at which the termination of a pod must start, computed backwards from its node's deadline.
struct LatestStart {
    /// Time of the eviction regardless of tiers.
    respectful: Timestamp,
    /// Time of the deletion regardless of budgets and annotations.
    forced: Timestamp,
}

impl LatestStart {
    /// `grace` is the grace period of the pod, in seconds.
    fn new(pod: &Pod, grace: i64, deadline: &Deadline) -> Self {
        let never = Self {
            respectful: Timestamp::MAX,
            forced: Timestamp::MAX,
        };
        let Some(since) = deadline.announced else {
            // A deadline set by the user follows Karpenter's rule, and covers only pods with a grace period.
            let Some(grace) = pod.termination_grace_seconds else {
                return never;
            };
            let last = minus(deadline.at, SignedDuration::from_secs(grace));
            // A deletion exactly at the deadline is in time.
            let forced = last.saturating_add(TICK).unwrap_or(Timestamp::MAX);
            return Self { forced, ..never };
        };
        let last = minus(deadline.at, SignedDuration::from_secs(grace));
        // A pod whose grace period exceeds the remaining time loses a part of it, so that its budget is respected at first.
        let respected_until = since
            .saturating_add(RESPECTFUL_PERIOD)
            .unwrap_or(Timestamp::MAX);
        Self {
            respectful: minus(last, RESPECTFUL_PERIOD),
            forced: last.max(respected_until).min(deadline.at),
        }
    }
}

/// Smallest difference between two timestamps.
const TICK: SignedDuration = SignedDuration::from_nanos(1);

fn grace(pod: &Pod) -> i64 {
    pod.termination_grace_seconds
        .unwrap_or(DEFAULT_GRACE_SECONDS)
}

fn minus(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.saturating_sub(time).unwrap_or(Timestamp::MIN)
}
