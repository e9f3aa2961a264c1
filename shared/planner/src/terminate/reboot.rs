//! Reboots of nodes in place: pods are drained, EC2 reboots the instance, and the node rejoins with another boot id
//! (docs/disruption.md#reboots).
//!
//! The NodeClaim's condition `Rebooting` and its annotations hold the whole state, regardless of who requested the reboot. No
//! step blocks: a step that must wait returns the time of the next check.

mod bound;

use api::{
    conditions::{
        ConditionStatus as Status,
        types::{
            DISRUPTION_REASON, INITIALIZED, REBOOT_FAILED, REBOOT_ISSUED, REBOOT_REQUESTED,
            REBOOT_SUCCEEDED, REBOOTING,
        },
    },
    names::{annotation, label, taint},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, InstanceId, Snapshot,
    ledger::{PauseLevel, Paused},
    node::{ConditionStatus, Node},
    node_claim::{Condition, NodeClaim},
    plan::{NodeClaimUpdate, NodeUpdate},
    taint::{Taint, TaintEffect},
};

pub(super) use self::bound::deadline;
use self::bound::{Bound, bound};
use super::{drain::Drain, update_of};
use crate::{
    by_instance::{ByInstance, instance_of},
    claim_conditions::{changed, is_needed},
    decision::{Decision, Note},
    lifecycle::target,
    managed::is_managed,
    pods_of_nodes::PodsOfNodes,
    repair::Mode,
};

/// Next step of every node that reboots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reboots {
    pub decision: Decision,
    /// RebootInstances calls to make.
    pub calls: Vec<RebootCall>,
}

/// RebootInstances call to make after the update `first` is written. Of two concurrent turns only one succeeds in writing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebootCall {
    pub claim: NodeClaim,
    pub instance: InstanceId,
    pub first: NodeClaimUpdate,
}

/// Reason why a reboot failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The request does not parse.
    Invalid,
    /// EC2 does not reboot the instance.
    Refused,
    /// The node did not rejoin.
    Lost,
}

/// Time in which a scheduler that has not seen the taint may still bind a pod.
const TAINT_PROPAGATION: SignedDuration = SignedDuration::from_secs(5);
/// Interval between checks. Pods that leave wake the terminator.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(15);
/// Interval between checks for a new boot id that the relay did not report.
const WATCH_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// Interval between calls. A call without an answer may have succeeded, and EC2 takes up to four minutes until it reboots by
/// force.
const CALL_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// Time within which EC2 must accept a call.
const CALLED_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// Time after the call within which the node must rejoin.
const BACK_WITHIN: SignedDuration = SignedDuration::from_mins(20);

pub fn reboot(snapshot: &Snapshot) -> Reboots {
    let mut reboots = Reboots::default();
    let mut concerned = snapshot
        .node_claims
        .iter()
        .filter(|claim| is_managed(claim) && claim.deleted_at.is_none())
        .filter(|claim| claim.condition(REBOOTING).is_some())
        .peekable();
    if concerned.peek().is_none() {
        return reboots;
    }
    let (nodes, pods) = (ByInstance::of_nodes(snapshot), PodsOfNodes::new(snapshot));
    for claim in concerned {
        let Some(condition) = claim.condition(REBOOTING) else {
            continue;
        };
        let episode = Episode {
            snapshot,
            claim,
            condition,
            node: nodes.only(&claim.status.provider_id),
        };
        match (condition.status, condition.reason.as_str()) {
            (ConditionStatus::True, REBOOT_REQUESTED) => episode.requested(&pods, &mut reboots),
            (ConditionStatus::True, REBOOT_ISSUED) => episode.issued(&mut reboots.decision),
            (ConditionStatus::False, _) => episode.over(&mut reboots.decision),
            _ => {}
        }
    }
    reboots
}

/// Update of a NodeClaim after EC2 accepted the call.
pub fn reboot_issued(claim: &NodeClaim, now: Timestamp) -> NodeClaimUpdate {
    changed(claim, now, |conditions| {
        let message = claim.condition(REBOOTING);
        let message = message.map_or("", |requested| requested.message.as_str());
        conditions.set(REBOOTING, Status::True, REBOOT_ISSUED, message);
        conditions.set_unknown(INITIALIZED, "Rebooting", "The node reboots");
    })
}

/// Ends the reboot of a node that EC2 refuses to reboot.
pub fn reboot_refused(snapshot: &Snapshot, claim: &NodeClaim, cause: &str) -> Decision {
    let mut decision = Decision::default();
    if let Some(condition) = claim.condition(REBOOTING) {
        let nodes = ByInstance::of_nodes(snapshot);
        let episode = Episode {
            snapshot,
            claim,
            condition,
            node: nodes.only(&claim.status.provider_id),
        };
        episode.fail(Failure::Refused, cause, &mut decision);
    }
    decision
}

/// One reboot of a node.
struct Episode<'a> {
    snapshot: &'a Snapshot,
    claim: &'a NodeClaim,
    condition: &'a Condition,
    node: Option<&'a Node>,
}

impl<'a> Episode<'a> {
    /// Drains the node within its bound, then calls EC2.
    fn requested(&self, pods: &PodsOfNodes<'a>, reboots: &mut Reboots) {
        let now = self.snapshot.now;
        let bound = match bound(self.claim) {
            Ok(bound) => bound,
            Err(cause) => return self.fail(Failure::Invalid, &cause, &mut reboots.decision),
        };
        if self.has_rebooted() {
            return self.act(reboot_issued(self.claim, now), &mut reboots.decision);
        }
        if let Some(paused) = self.paused() {
            return paused
                .until()
                .into_iter()
                .for_each(|until| reboots.decision.recheck_at(until));
        }
        let Some(node) = self.node else {
            // The NodeClaim is being deleted because its Node is gone, or the kubelet registers the Node again.
            return reboots.decision.recheck_at(after(now, WATCH_AGAIN));
        };
        if !node
            .taints
            .iter()
            .any(|taint| taint.key == taint::REBOOTING)
        {
            let taints = node.taints.iter().cloned().chain([rebooting()]);
            self.retaint(node, taints.collect(), &mut reboots.decision);
        }
        if let Some(again) = self.drain(node, bound, pods, &mut reboots.decision) {
            return reboots.decision.recheck_at(again);
        }
        if !self
            .claim
            .annotations
            .contains_key(annotation::REBOOT_PRE_BOOT_ID)
        {
            let boot_id = node.boot_id.clone();
            self.act(
                self.noting(annotation::REBOOT_PRE_BOOT_ID, boot_id),
                &mut reboots.decision,
            );
            return reboots.decision.recheck_at(now);
        }
        self.call(reboots);
    }

    /// Pause that delays a reboot that Whittle decided on. A reboot that a user requested is not delayed.
    fn paused(&self) -> Option<Paused<'a>> {
        let pool = self.claim.node_pool();
        let (level, now) = (PauseLevel::All, self.snapshot.now);
        let paused = self.snapshot.paused(pool.as_ref(), level, now);
        paused.filter(|_| self.claim.is_true(DISRUPTION_REASON))
    }

    /// Evicts pods. Returns the time of the next check while some are left.
    fn drain(
        &self,
        node: &Node,
        bound: Bound,
        pods: &PodsOfNodes<'a>,
        decision: &mut Decision,
    ) -> Option<Timestamp> {
        let now = self.snapshot.now;
        let requested_at = self.condition.last_transition;
        let until = match bound {
            Bound::Within(SignedDuration::ZERO) => return None,
            Bound::Within(bound) => after(requested_at, bound.max(TAINT_PROPAGATION)),
            Bound::Never => Timestamp::MAX,
        };
        if until <= now {
            return None;
        }
        let drain = Drain::new(self.snapshot, pods.of(node), None, None);
        drain.plan_actions(node, decision);
        let settled = after(requested_at, TAINT_PROPAGATION);
        match drain.has_pods() {
            true => Some(until.min(after(now, RECHECK_AFTER))),
            false => (settled > now).then_some(settled),
        }
    }

    fn call(&self, reboots: &mut Reboots) {
        let now = self.snapshot.now;
        let first = self.instant(annotation::REBOOT_FIRST_CALL);
        if first.is_some_and(|first| after(first, CALLED_WITHIN) <= now) {
            let cause = "EC2 accepted no request to reboot the instance within 5 minutes";
            return self.fail(Failure::Refused, cause, &mut reboots.decision);
        }
        let last = self.instant(annotation::REBOOT_LAST_CALL);
        let again = last.map(|last| after(last, CALL_AGAIN));
        if let Some(again) = again.filter(|again| *again > now) {
            return reboots.decision.recheck_at(again);
        }
        let Some(instance) = instance_of(&self.claim.status.provider_id) else {
            let cause = "the NodeClaim has no provider id of an instance";
            return self.fail(Failure::Refused, cause, &mut reboots.decision);
        };
        let text = format!("{now:.0}");
        let mut update = self.noting(annotation::REBOOT_LAST_CALL, text.clone());
        if first.is_none() {
            let first = annotation::REBOOT_FIRST_CALL.to_owned();
            update.set_annotations.insert(first, text);
        }
        reboots.calls.push(RebootCall {
            claim: self.claim.clone(),
            instance,
            first: update,
        });
    }

    /// Waits for the node to rejoin with another boot id.
    fn issued(&self, decision: &mut Decision) {
        let now = self.snapshot.now;
        let issued_at = self.issued_at();
        if let Some(node) = self.node {
            if node.labels.contains_key(label::INITIALIZED) && !self.claim.is_true(INITIALIZED) {
                let update = NodeUpdate {
                    resource_version: node.resource_version.clone(),
                    remove_labels: vec![label::INITIALIZED.to_owned()],
                    ..update_of(node)
                };
                let because = format!("node {} reboots", node.name);
                decision.act(Action::UpdateNode(update), because);
            }
            if self.has_rebooted() && self.untaint(node, decision) {
                let text = "New boot observed (bootID changed); awaiting node readiness";
                let note = Note::normal(self.claim, "RebootObserved", text);
                decision.notes.push(note);
            }
            if self.has_rebooted() && node.ready.status == ConditionStatus::True {
                let message = "node rebooted and rejoined the cluster";
                self.act(self.ended(REBOOT_SUCCEEDED, message), decision);
                return decision.recheck_at(now);
            }
        }
        let last = after(issued_at, BACK_WITHIN);
        if last <= now {
            let cause = "the node did not come back within 20 minutes";
            return self.fail(Failure::Lost, cause, decision);
        }
        decision.recheck_at(last.min(after(now, WATCH_AGAIN)));
    }

    /// Removes taint and annotations of a finished reboot. A NodeClaim whose node is lost is deleted; its pods get a new node
    /// as they need it.
    fn over(&self, decision: &mut Decision) {
        if let Some(node) = self.node {
            self.untaint(node, decision);
        }
        if let Some(result) = self.claim.annotations.get(annotation::REBOOT_FAILED) {
            let because = format!("NodeClaim {} failed to reboot: {result}", self.claim.name);
            let deletion = Action::DeleteNodeClaim(target(self.claim));
            return decision.act(deletion, because);
        }
        let marks = [
            annotation::REBOOT_PRE_BOOT_ID,
            annotation::REBOOT_GRACE_PERIOD,
            annotation::REBOOT_FIRST_CALL,
            annotation::REBOOT_LAST_CALL,
        ];
        let marks = marks.into_iter().map(str::to_owned);
        let marks = marks.filter(|name| self.claim.annotations.contains_key(name));
        let update = NodeClaimUpdate {
            remove_annotations: marks.collect(),
            ..crate::lifecycle::update_of(self.claim)
        };
        self.act(update, decision);
    }

    /// Ends a failed reboot. If node repair is on, it replaces a node that still runs; a request that does not parse has no
    /// consequences.
    fn fail(&self, failure: Failure, cause: &str, decision: &mut Decision) {
        let is_repaired = Mode::from_settings(&self.snapshot.settings) == Mode::Voluntary;
        let goes = match failure {
            Failure::Invalid => false,
            Failure::Refused => !is_repaired,
            Failure::Lost => true,
        };
        if let Some(node) = self.node {
            self.untaint(node, decision);
        }
        let mut update = self.ended(REBOOT_FAILED, cause);
        if goes {
            let failed = annotation::REBOOT_FAILED.to_owned();
            update.set_annotations.insert(failed, cause.to_owned());
        }
        self.act(update, decision);
        decision.recheck_at(self.snapshot.now);
        let note = Note::warning(self.claim, "RebootFailed", cause);
        decision.notes.push(note);
    }

    /// Update that ends the episode. Annotations are removed later, because they record the outcome.
    fn ended(&self, reason: &str, message: &str) -> NodeClaimUpdate {
        changed(self.claim, self.snapshot.now, |conditions| {
            conditions.set(REBOOTING, Status::False, reason, message);
            // No readiness condition depends on it, so it can always be cleared.
            let _ = conditions.clear(DISRUPTION_REASON);
        })
    }

    fn has_rebooted(&self) -> bool {
        let before = self.claim.annotations.get(annotation::REBOOT_PRE_BOOT_ID);
        self.node
            .zip(before)
            .is_some_and(|(node, before)| !node.boot_id.is_empty() && node.boot_id != *before)
    }

    /// Time of the last call to EC2, or, for a reboot issued by something else, the time at which the NodeClaim lost
    /// Initialized.
    fn issued_at(&self) -> Timestamp {
        let uninitialized = self.claim.condition(INITIALIZED);
        let uninitialized = uninitialized.map(|condition| condition.last_transition);
        let last_call = self.instant(annotation::REBOOT_LAST_CALL);
        last_call
            .or(uninitialized)
            .unwrap_or(self.condition.last_transition)
    }

    fn instant(&self, annotation: &str) -> Option<Timestamp> {
        self.claim.annotations.get(annotation)?.parse().ok()
    }

    fn noting(&self, annotation: &str, value: String) -> NodeClaimUpdate {
        let mut update = crate::lifecycle::update_of(self.claim);
        update.set_annotations.insert(annotation.to_owned(), value);
        update
    }

    fn act(&self, update: NodeClaimUpdate, decision: &mut Decision) {
        if is_needed(&update) {
            let because = format!("NodeClaim {} reboots", self.claim.name);
            decision.act(Action::UpdateNodeClaim(update), because);
        }
    }

    /// Removes the reboot taint; returns whether the node had it.
    fn untaint(&self, node: &Node, decision: &mut Decision) -> bool {
        let others = node.taints.iter();
        let others: Vec<Taint> = others
            .filter(|taint| taint.key != taint::REBOOTING)
            .cloned()
            .collect();
        let had_it = others.len() < node.taints.len();
        if had_it {
            self.retaint(node, others, decision);
        }
        had_it
    }

    fn retaint(&self, node: &Node, taints: Vec<Taint>, decision: &mut Decision) {
        let update = NodeUpdate {
            resource_version: node.resource_version.clone(),
            taints: Some(taints),
            ..update_of(node)
        };
        let because = format!("node {} reboots", node.name);
        decision.act(Action::UpdateNode(update), because);
    }
}

fn rebooting() -> Taint {
    Taint {
        key: taint::REBOOTING.to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    }
}

fn after(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
