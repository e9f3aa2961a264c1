//! Termination: the next step of every node that is being deleted: taint → drain → volumes → instance → finalizers
//! (docs/spec/lifecycle.md#termination, docs/spec/lifecycle.md#drain).
//!
//! No step blocks. A step that must wait returns the time of the next check, and events wake the terminator earlier.

mod deadline;
mod drain;
mod mark;
mod pausable;
mod reboot;
mod unmanaged;
mod volumes;

pub use self::{
    mark::{cordon, mark},
    reboot::{RebootCall, Reboots, reboot, reboot_issued, reboot_refused},
    unmanaged::{CompletedNotices, terminate_unmanaged},
};

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::{ConditionSet, types},
    names::{finalizer, label, tag::EKS_CLUSTER, taint::UNREGISTERED},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, InstanceId, NodeClaimName, Snapshot,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::{NodeClaimUpdate, NodeUpdate},
    taint::Taint,
};

use crate::{
    by_instance::{ByInstance, instance_of},
    claim_conditions::{changed, is_needed},
    decision::{About, Decision, Note},
    lifecycle::target,
    machine::{Detachment, Instance, LeavingNode, Observations, Pods, State, Step, next},
    managed::is_managed,
    pods_of_nodes::PodsOfNodes,
    terminate::{deadline::Deadline, drain::Drain},
};

/// State of instances in EC2, for NodeClaims and Nodes that are being deleted.
#[derive(Clone, Debug, Default)]
pub struct InstanceStatuses {
    /// Provider ids of instances that are terminated or unknown to EC2.
    pub instances: BTreeSet<String>,
    /// Provider ids of instances that are shutting down. They are not terminated again.
    pub ending: BTreeSet<String>,
    /// NodeClaims whose provider id names an instance of something else. The instance is not terminated.
    pub mismatched: BTreeSet<NodeClaimName>,
    /// NodeClaims that registered here and whose instance is tagged with another cluster's name, with a clause that names both.
    /// The instance cannot be terminated under this cluster's name, and would be leaked if the NodeClaim were released.
    pub misnamed: BTreeMap<NodeClaimName, String>,
    /// Provider ids of instances that EC2 recently refused to terminate, with the time of the next attempt.
    pub refused: BTreeMap<String, Timestamp>,
}

/// Interval between checks. EC2 takes tens of seconds to terminate an instance; pods that leave wake the terminator.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// Longest interval between checks of a drain that is blocked for long. Events announce its progress.
const RECHECK_AFTER_MAX: SignedDuration = SignedDuration::from_secs(60);
/// The interval between checks is this fraction of the time since the deletion.
const BACKOFF_DIVISOR: i32 = 20;

pub fn terminate(snapshot: &Snapshot, statuses: &InstanceStatuses) -> Decision {
    let terminator = Terminator {
        snapshot,
        statuses,
        claims: ByInstance::of_claims(snapshot),
        nodes: ByInstance::of_nodes(snapshot),
        pods: PodsOfNodes::new(snapshot),
        launching: launching(snapshot),
        pausable: pausable::PausableDrains::new(snapshot),
    };
    let mut decision = Decision::default();
    for claim in snapshot.node_claims.iter().filter(|claim| {
        is_managed(claim) && claim.deleted_at.is_some() && is_held(&claim.finalizers)
    }) {
        if !terminator.is_paused(claim, &mut decision) {
            terminator.advance_claim(claim, &mut decision);
        }
    }
    for node in snapshot.nodes.iter().filter(|node| {
        node.deleted_at.is_some()
            && node.labels.contains_key(label::EC2_NODE_CLASS)
            && is_held(&node.finalizers)
    }) {
        match terminator.claims.only(&node.provider_id) {
            Some(claim) if terminator.is_paused(claim, &mut decision) => {}
            Some(claim) => terminator.advance_node(node, claim, &mut decision),
            None => terminator.advance_stray_node(node, &mut decision),
        }
    }
    decision
}

/// Data shared by the steps of all objects that are being deleted.
struct Terminator<'a> {
    snapshot: &'a Snapshot,
    statuses: &'a InstanceStatuses,
    claims: ByInstance<'a, NodeClaim>,
    nodes: ByInstance<'a, Node>,
    pods: PodsOfNodes<'a>,
    launching: BTreeSet<&'a NodeClaimName>,
    pausable: pausable::PausableDrains<'a>,
}

/// Event about a NodeClaim that is kept because its instance carries another cluster's name.
fn misnamed_note(claim: &NodeClaim, instance: &InstanceId, name: &str) -> Note {
    Note {
        about: About::NodeClaim(claim.name.clone(), claim.uid.clone()),
        warning: true,
        reason: "InstanceOfAnotherCluster",
        message: format!(
            "Instance {instance} {name}, so it cannot be terminated under this cluster's name, and the NodeClaim is kept: change the \
             instance's tag {EKS_CLUSTER} to the name of this cluster, or register the cluster under its former name again"
        ),
    }
}

impl<'a> Terminator<'a> {
    /// Whether a pause holds the drain; schedules a check for its end.
    fn is_paused(&self, claim: &NodeClaim, decision: &mut Decision) -> bool {
        let node = self.nodes.only(&claim.status.provider_id);
        let paused = self.pausable.pause_of(claim, node);
        if let Some(until) = paused.as_ref().and_then(|paused| paused.until()) {
            decision.recheck_at(until);
        }
        paused.is_some()
    }

    /// Advances a NodeClaim, which is released after its Nodes and its instance are gone
    /// (docs/spec/lifecycle.md#node-claim-finalization).
    fn advance_claim(&self, claim: &NodeClaim, decision: &mut Decision) {
        if let Some((update, note)) = deadline::timestamp_update(claim, self.snapshot) {
            decision.act(
                Action::UpdateNodeClaim(update),
                format!("NodeClaim {} gets a termination deadline", claim.name),
            );
            decision.notes.push(note);
        }
        // Nodes that only other finalizers hold need no further step.
        let ours = |node: &&&Node| node.deleted_at.is_none() || is_held(&node.finalizers);
        // A Node loses its unregistered taint before its NodeClaim becomes Registered, and a deletion may come in between.
        let joined = |node: &&&Node| {
            let closed = |taint: &Taint| taint.key == UNREGISTERED;
            claim.is_true(types::REGISTERED) || !node.taints.iter().any(closed)
        };
        let own: Vec<&Node> = match self.owns(claim) {
            true => {
                let all = self.nodes.of(&claim.status.provider_id);
                all.iter().filter(ours).filter(joined).copied().collect()
            }
            false => Vec::new(),
        };
        let node = if own.is_empty() {
            LeavingNode::Nothing
        } else if own.iter().any(|node| node.deleted_at.is_none()) {
            LeavingNode::Kept
        } else {
            // The Nodes hold the NodeClaim, and advance by themselves.
            return;
        };
        let instance = self.instance(claim);
        let (_, steps) = next(
            State::from_claim(claim),
            Observations::Leaving { node, instance },
        );
        for step in steps {
            match step {
                Step::DeleteNodes => {
                    for node in own.iter().filter(|node| node.deleted_at.is_none()) {
                        let update = NodeUpdate {
                            delete: true,
                            ..update_of(node)
                        };
                        decision.act(
                            Action::UpdateNode(update),
                            format!("NodeClaim {} is being deleted", claim.name),
                        );
                    }
                }
                Step::AwaitLaunch => decision.recheck_at(self.after(RECHECK_AFTER)),
                Step::EndInstance => self.terminate_instance(claim, |_| {}, decision),
                Step::Release if instance == Instance::Gone => {
                    release_claim(claim, "its instance is gone", decision);
                }
                Step::Release => release_claim(claim, "no instance was launched for it", decision),
                // Steps of a leaving Node are taken in `advance_node`; the others apply to NodeClaims that stay.
                Step::Protect
                | Step::Register
                | Step::Initialize
                | Step::Delete(_)
                | Step::Follow
                | Step::Mark
                | Step::Drain
                | Step::AwaitVolumes
                | Step::ReleaseNode => {}
            }
        }
    }

    /// Advances a Node, which is released after its pods, its volumes and its instance are gone
    /// (docs/spec/lifecycle.md#node-finalization).
    fn advance_node(&self, node: &Node, claim: &NodeClaim, decision: &mut Decision) {
        let deadline = Deadline::for_claim(claim, self.snapshot);
        let drain = Drain::new(self.snapshot, self.pods.of(node), deadline.as_ref(), None);
        let deadline = deadline.map(|deadline| deadline.at);
        let volumes = volumes::judge(self.snapshot, node, self.pods.of(node), deadline);
        let instance = self.instance(claim);
        let observations = Observations::Leaving {
            node: LeavingNode::Leaving {
                ready: node.ready.status == ConditionStatus::True,
                pods: if drain.has_pods() {
                    Pods::Waiting
                } else if drain.is_recently_empty(self.snapshot, claim) {
                    Pods::Settling
                } else {
                    Pods::Left
                },
                volumes: if volumes.are_awaited() {
                    Detachment::Awaited
                } else {
                    Detachment::Over
                },
            },
            instance,
        };
        let (after, steps) = next(State::from_claim(claim), observations);
        let drained = |conditions: &mut ConditionSet<'_>| {
            conditions.set_true(types::DRAINED);
            volumes.write(conditions);
        };
        let emptied = after == State::Terminating && steps.contains(&Step::Mark);
        for step in steps {
            match step {
                Step::Follow => decision.act(
                    Action::DeleteNodeClaim(target(claim)),
                    format!("node {} is being deleted", node.name),
                ),
                Step::Mark => {
                    mark::plan_mark(node, decision);
                    decision
                        .notes
                        .extend(deadline.map(|at| deadline::expiring_note(node, at)));
                }
                Step::Drain => {
                    drain.plan_actions(node, decision);
                    self.write_conditions(claim, decision, drain::write);
                    decision.recheck_at(self.recheck_with_backoff(node));
                    if let Some(next) = drain.next() {
                        decision.recheck_at(next);
                    }
                }
                Step::AwaitVolumes => {
                    decision.notes.extend(volumes.note(node));
                    self.write_conditions(claim, decision, drained);
                    decision.recheck_at(self.recheck_with_backoff(node));
                }
                Step::EndInstance => self.terminate_instance(claim, drained, decision),
                Step::ReleaseNode if emptied => {
                    self.write_conditions(claim, decision, drained);
                    release_node(node, "it is drained and its instance is gone", decision);
                }
                Step::ReleaseNode => release_node(node, "its instance is gone", decision),
                Step::Protect
                | Step::Register
                | Step::Initialize
                | Step::Delete(_)
                | Step::AwaitLaunch
                | Step::DeleteNodes
                | Step::Release => {}
            }
        }
    }

    /// Drains and releases a Node that no NodeClaim or several NodeClaims match. Its instance is not terminated, because its
    /// owner is unknown.
    fn advance_stray_node(&self, node: &Node, decision: &mut Decision) {
        let silent = node.ready.status != ConditionStatus::True;
        if silent && self.statuses.instances.contains(&node.provider_id) {
            release_node(node, "its instance is gone", decision);
            return;
        }
        mark::plan_mark(node, decision);
        let drain = Drain::new(self.snapshot, self.pods.of(node), None, None);
        drain.plan_actions(node, decision);
        let volumes = volumes::judge(self.snapshot, node, self.pods.of(node), None);
        if drain.has_pods() {
            decision.recheck_at(self.recheck_with_backoff(node));
        } else if volumes.are_awaited() {
            decision.notes.extend(volumes.note(node));
            decision.recheck_at(self.recheck_with_backoff(node));
        } else {
            release_node(node, "it is drained and no NodeClaim names it", decision);
        }
    }

    fn owns(&self, claim: &NodeClaim) -> bool {
        !self.statuses.mismatched.contains(&claim.name) && !self.claims.is_taken(claim)
    }

    fn instance(&self, claim: &NodeClaim) -> Instance {
        let id = claim.status.provider_id.as_str();
        if id.is_empty() {
            // A launch in flight is resolved first (docs/protocol.md#a5).
            if self.launching.contains(&claim.name) {
                Instance::Underway
            } else {
                Instance::Never
            }
        } else if !self.owns(claim)
            || self.statuses.instances.contains(id)
            || instance_of(id).is_none()
        {
            Instance::Gone
        } else {
            Instance::Alive
        }
    }

    /// Terminates the instance, again on each check until EC2 shows it shutting down: TerminateInstances is idempotent. Refused
    /// calls are retried less often.
    fn terminate_instance(
        &self,
        claim: &NodeClaim,
        also: impl FnOnce(&mut ConditionSet<'_>),
        decision: &mut Decision,
    ) {
        let Some(instance) = instance_of(&claim.status.provider_id) else {
            return;
        };
        if let Some(name) = self.statuses.misnamed.get(&claim.name) {
            decision.notes.push(misnamed_note(claim, &instance, name));
            decision.recheck_at(self.after(RECHECK_AFTER_MAX));
            return;
        }
        let rests_until = self
            .statuses
            .refused
            .get(&claim.status.provider_id)
            .copied();
        if rests_until.is_none() && !self.statuses.ending.contains(&claim.status.provider_id) {
            decision.act(
                Action::Terminate {
                    claim: claim.name.clone(),
                    instance,
                },
                format!(
                    "NodeClaim {} is being deleted and its node is drained",
                    claim.name
                ),
            );
        }
        self.write_conditions(claim, decision, |conditions| {
            also(conditions);
            conditions.set_true(types::INSTANCE_TERMINATING);
        });
        decision.recheck_at(rests_until.unwrap_or_else(|| self.after(RECHECK_AFTER)));
    }

    fn write_conditions(
        &self,
        claim: &NodeClaim,
        decision: &mut Decision,
        change: impl FnOnce(&mut ConditionSet<'_>),
    ) {
        let update = changed(claim, self.snapshot.now, change);
        if is_needed(&update) {
            decision.act(
                Action::UpdateNodeClaim(update),
                format!("NodeClaim {} has new conditions", claim.name),
            );
        }
    }

    fn after(&self, wait: SignedDuration) -> Timestamp {
        let now = self.snapshot.now;
        now.saturating_add(wait).unwrap_or(now)
    }

    /// Time of the next check, with an interval that grows from [`RECHECK_AFTER`] to [`RECHECK_AFTER_MAX`]: a drain that a
    /// PodDisruptionBudget blocks for hours must cost next to nothing.
    fn recheck_with_backoff(&self, node: &Node) -> Timestamp {
        let since = node.deleted_at.unwrap_or(self.snapshot.now);
        let age = self.snapshot.now.duration_since(since);
        self.after((age / BACKOFF_DIVISOR).clamp(RECHECK_AFTER, RECHECK_AFTER_MAX))
    }
}

fn is_held(finalizers: &[String]) -> bool {
    finalizers.iter().any(|name| name == finalizer::TERMINATION)
}

fn launching(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    let under_way = snapshot
        .intents
        .iter()
        .filter(|intent| intent.is_in_flight());
    under_way.map(|intent| intent.name()).collect()
}

fn release_claim(claim: &NodeClaim, why: &str, decision: &mut Decision) {
    let update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        remove_finalizers: vec![finalizer::TERMINATION.to_owned()],
        ..NodeClaimUpdate::default()
    };
    decision.act(
        Action::UpdateNodeClaim(update),
        format!("NodeClaim {} is released: {why}", claim.name),
    );
}

fn release_node(node: &Node, why: &str, decision: &mut Decision) {
    let update = NodeUpdate {
        remove_finalizers: vec![finalizer::TERMINATION.to_owned()],
        ..update_of(node)
    };
    decision.act(
        Action::UpdateNode(update),
        format!("node {} is released: {why}", node.name),
    );
}

/// Empty update of the Node, without a condition on its resource version.
fn update_of(node: &Node) -> NodeUpdate {
    NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        ..NodeUpdate::default()
    }
}

#[cfg(test)]
mod tests;
