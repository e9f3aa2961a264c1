//! Lifecycle of NodeClaims: launched → registered → initialized → consolidatable, and the events that end it
//! (docs/spec/lifecycle.md#node-claim-states).

mod consistency;
mod drift;
pub(crate) mod expiration;
mod hydration;
mod initialization;
mod liveness;
mod marks;
pub(crate) mod pod_events;
mod registration;
pub(crate) mod repair;

use std::collections::BTreeMap;

use api::{
    conditions::types::{INITIALIZED, REBOOTING, REGISTERED},
    names::{annotation::PODS_DIGEST, finalizer},
};
use jiff::Timestamp;
use model::{
    Action, NodeClaimName, Snapshot,
    ledger::{IntentState, PauseLevel},
    node::Node,
    node_claim::NodeClaim,
    plan::{NodeClaimUpdate, Target},
};

pub use liveness::Timeouts;

use crate::{
    by_instance::ByInstance,
    claim_conditions::{changed, is_needed},
    decision::{Decision, Note},
    lifecycle::{
        initialization::{Published, Waiting},
        registration::Registration,
        repair::ForcedRepair,
    },
    machine::{Ending, Joined, Observations, State, Step, next},
    managed::is_managed,
    pods_of_nodes::PodsOfNodes,
};

/// Returns the next step of every NodeClaim that is not being deleted, with Karpenter's timeouts.
pub fn lifecycle(snapshot: &Snapshot) -> Decision {
    lifecycle_with(snapshot, Timeouts::default())
}

/// Returns the next step of every NodeClaim that is not being deleted.
///
/// Steps are derived from the objects alone, not from earlier writes: a Node that lost its `registered` label to a conflict is
/// registered again.
pub fn lifecycle_with(snapshot: &Snapshot, timeouts: Timeouts) -> Decision {
    let pass = LifecyclePass {
        snapshot,
        timeouts,
        nodes: ByInstance::of_nodes(snapshot),
        pods: PodsOfNodes::new(snapshot),
        claims: ByInstance::of_claims(snapshot),
        forced_repair: ForcedRepair::new(snapshot),
        failed: failed_launches(snapshot),
        launch_started: launches_under_way(snapshot),
        expirations: expiration::Allowance::new(snapshot),
        published: Published::from_snapshot(snapshot),
    };
    let mut decision = Decision::default();
    for claim in snapshot
        .node_claims
        .iter()
        .filter(|claim| is_managed(claim))
    {
        if claim.deleted_at.is_none() {
            pass.step(claim, &mut decision);
        } else {
            pass.force_drain(claim, &mut decision);
        }
    }
    decision
}

/// Data shared by the steps of all NodeClaims.
struct LifecyclePass<'a> {
    snapshot: &'a Snapshot,
    timeouts: Timeouts,
    nodes: ByInstance<'a, Node>,
    pods: PodsOfNodes<'a>,
    claims: ByInstance<'a, NodeClaim>,
    forced_repair: ForcedRepair<'a>,
    failed: BTreeMap<&'a NodeClaimName, &'a str>,
    launch_started: BTreeMap<&'a NodeClaimName, Timestamp>,
    expirations: expiration::Allowance,
    /// Drivers that have published devices, by node; `None` if device claims are ignored.
    published: Option<Published<'a>>,
}

/// A NodeClaim with the current state of its Node.
struct ObservedClaim<'a> {
    claim: &'a NodeClaim,
    registration: Registration<'a>,
    /// Missing requirement for the initialization of its Node.
    waiting: Option<Waiting>,
}

impl<'a> LifecyclePass<'a> {
    fn step(&self, claim: &'a NodeClaim, decision: &mut Decision) {
        let registration = registration::judge(self.nodes_of(claim));
        let waiting = registration
            .node()
            .and_then(|node| match claim.is_true(REBOOTING) {
                true => Some(Waiting::for_reboot()),
                false => initialization::judge(claim, node, self.published.as_ref()).err(),
            });
        let node = match (&registration, &waiting) {
            (Registration::NotFound, _) => Joined::Nobody,
            (Registration::Several, _) => Joined::Several,
            (Registration::Node(_), Some(_)) => Joined::Unready,
            (Registration::Node(_), None) => Joined::Ready,
        };
        let observed = ObservedClaim {
            claim,
            registration,
            waiting,
        };
        let ending = self.ending(&observed, decision);
        let (_, steps) = next(
            State::from_claim(claim),
            Observations::Alive { ending, node },
        );
        if let [Step::Delete(ending)] = steps[..] {
            self.delete(ending, claim, decision);
            return;
        }
        for step in steps {
            take_node_step(step, &observed, decision);
        }
        self.write_conditions(&observed, decision);
    }

    /// Returns the first reason that ends the NodeClaim now, and schedules checks for later ones.
    fn ending(&self, observed: &ObservedClaim<'a>, decision: &mut Decision) -> Option<Ending> {
        let ObservedClaim { claim, .. } = observed;
        let now = self.snapshot.now;
        if claim.status.provider_id.is_empty() && self.failed.contains_key(&claim.name) {
            return Some(Ending::LaunchFailed);
        }
        let mut is_due = |at: Option<Timestamp>| match at {
            Some(at) if at <= now => true,
            Some(at) => {
                decision.recheck_at(at);
                false
            }
            None => false,
        };
        let launch_started = self.launch_started.get(&claim.name).copied();
        let pool = claim.node_pool();
        let (timeout, at) = liveness::deadline(claim, launch_started, self.timeouts);
        match liveness::paused(self.snapshot, claim) {
            Some(paused) => _ = is_due(paused.until()),
            // A Node that has joined is registered, however late.
            None if timeout == Ending::RegistrationTimeout
                && observed.registration.node().is_some() => {}
            None if is_due(at) => return Some(timeout),
            None => {}
        }
        // Expiration can wait until a pause ends: it only makes the node older.
        match self
            .snapshot
            .paused(pool.as_ref(), PauseLevel::Voluntary, now)
        {
            Some(paused) => _ = is_due(expiration::expires_at(claim).max(paused.until())),
            None if is_due(expiration::expires_at(claim)) => {
                match self.expirations.hold(claim, decision) {
                    None => return Some(Ending::Expired),
                    Some(until) => decision.recheck_at(until),
                }
            }
            None => {}
        }
        let node = observed.registration.node()?;
        match self.forced_repair.judge(claim, node, now) {
            repair::Verdict::Well => None,
            repair::Verdict::At(at) => {
                decision.recheck_at(at);
                None
            }
            repair::Verdict::Blocked(notes, at) => {
                decision.notes.extend(notes);
                decision.recheck_at(at);
                None
            }
            repair::Verdict::Due(condition) => {
                let name = claim.name.clone();
                decision.forced_repairs.insert(name, condition.to_owned());
                Some(Ending::Unhealthy)
            }
        }
    }

    fn delete(&self, ending: Ending, claim: &NodeClaim, decision: &mut Decision) {
        let (reason, because) = ending.because();
        let because = match (ending, self.failed.get(&claim.name)) {
            (Ending::LaunchFailed, Some(why)) => {
                format!("{reason}: NodeClaim {} was not launched: {why}", claim.name)
            }
            _ => format!("{reason}: {because}"),
        };
        decision.endings.insert(claim.name.clone(), reason);
        decision.act(Action::DeleteNodeClaim(target(claim)), because.clone());
        if ending == Ending::Unhealthy {
            // A NodeClaim that is not being deleted has no deadline, so that none outlives a repair that is given up.
            self.allow_forced_deletion(claim, because, decision);
        }
    }

    /// Allows the deletion of everything on the node by force from now on. The update has no condition on the resource version,
    /// because the deletion changes it.
    fn allow_forced_deletion(&self, claim: &NodeClaim, because: String, decision: &mut Decision) {
        if let Some(update) = repair::allow_forced_deletion(claim, self.snapshot.now) {
            decision.act(Action::UpdateNodeClaim(update), because);
        }
    }

    /// Writes the conditions of the NodeClaim.
    fn write_conditions(&self, observed: &ObservedClaim<'a>, decision: &mut Decision) {
        let ObservedClaim {
            claim,
            registration,
            waiting,
        } = observed;
        let node = registration.node();
        let judged =
            node.map(|node| pod_events::judge(self.pods.of(node), claim, self.snapshot.now));
        let pods = match judged {
            Some(pod_events::Judged::Changed(change)) => Some(change),
            Some(pod_events::Judged::Later(at)) => {
                decision.recheck_at(at);
                None
            }
            Some(pod_events::Judged::Unchanged) | None => None,
        };
        let last_event = pods
            .as_ref()
            .and_then(|change| change.event)
            .or(claim.status.last_pod_event);
        let marks = marks::consolidatable(self.snapshot, claim, last_event);
        if let marks::Consolidatable::At(at) = marks {
            decision.recheck_at(at);
        }
        if let Some(waiting) = waiting {
            let now = self.snapshot.now;
            initialization::recheck_at(claim, waiting, now, decision);
        }
        let paused = liveness::paused(self.snapshot, claim);
        let drifted = drift::judge(self.snapshot, claim);
        let issues = registration
            .node()
            .map(|node| consistency::judge(claim, node));
        let mut update = changed(claim, self.snapshot.now, |conditions| {
            liveness::write(paused.as_ref(), claim, conditions);
            if !conditions.is_true(REGISTERED) {
                registration.write(conditions);
            } else {
                conditions.renew(REGISTERED);
            }
            match (registration.node(), waiting) {
                _ if conditions.is_true(INITIALIZED) => conditions.renew(INITIALIZED),
                _ if !conditions.is_true(REGISTERED) => {}
                (Some(_), None) => conditions.set_true(INITIALIZED),
                (Some(_), Some(waiting)) => {
                    conditions.set_unknown(INITIALIZED, waiting.reason, &waiting.message);
                }
                (None, _) => conditions.set_unknown(
                    INITIALIZED,
                    "NodeNotFound",
                    "Node not registered with cluster",
                ),
            }
            marks::write(&marks, conditions);
            drift::write(&drifted, conditions);
            if let Some(issues) = &issues {
                consistency::write(issues, conditions);
            }
        });
        let issues = issues.unwrap_or_default();
        let warn = |issue| Note::warning(*claim, "FailedConsistencyCheck", issue);
        decision.notes.extend(issues.into_iter().map(warn));
        if let Some(node) = registration.node()
            && claim.status.node_name.as_ref() != Some(&node.name)
        {
            update.node_name = Some(node.name.clone());
        }
        if let Some(change) = pods {
            update
                .set_annotations
                .insert(PODS_DIGEST.to_owned(), change.digest);
            update.last_pod_event = change.event;
        }
        update.set_labels.extend(hydration::label(claim));
        if !claim
            .finalizers
            .iter()
            .any(|name| name == finalizer::TERMINATION)
        {
            update.add_finalizers = vec![finalizer::TERMINATION.to_owned()];
        }
        if is_needed(&update) {
            decision.act(
                Action::UpdateNodeClaim(update),
                format!("NodeClaim {} has new conditions", claim.name),
            );
        }
    }

    /// Nodes that match the NodeClaim's instance, unless an older NodeClaim has that instance.
    fn nodes_of(&self, claim: &NodeClaim) -> &[&'a Node] {
        if self.claims.is_taken(claim) {
            return &[];
        }
        self.nodes.of(&claim.status.provider_id)
    }

    /// Drains a node by force if it becomes unhealthy while it is drained (docs/spec/lifecycle.md#repair-while-draining).
    fn force_drain(&self, claim: &'a NodeClaim, decision: &mut Decision) {
        let now = self.snapshot.now;
        let [node] = self.nodes_of(claim) else {
            return;
        };
        if let repair::Verdict::Due(_) = self.forced_repair.judge(claim, node, now) {
            let because = format!("node {} is unhealthy", node.name);
            self.allow_forced_deletion(claim, because, decision);
        }
    }
}

/// Performs a step on the Node.
fn take_node_step(step: Step, observed: &ObservedClaim<'_>, decision: &mut Decision) {
    let Some(node) = observed.registration.node() else {
        return;
    };
    let claim = observed.claim;
    match step {
        Step::Register => {
            if registration::lacks_taint(node) {
                decision.notes.push(Note::warning(
                    claim,
                    "UnregisteredTaintMissing",
                    format!(
                        "Missing taint {}:NoExecute on node {}, pods may have been scheduled before it was registered",
                        api::names::taint::UNREGISTERED,
                        node.name
                    ),
                ));
            }
            if let Some(update) = registration::sync(claim, node) {
                decision.act(
                    Action::UpdateNode(update),
                    format!("node {} belongs to NodeClaim {}", node.name, claim.name),
                );
            }
        }
        Step::Initialize => {
            if let Some(update) = initialization::label(node) {
                decision.act(
                    Action::UpdateNode(update),
                    format!("node {} is initialized", node.name),
                );
            }
        }
        // The finalizer is written with the conditions; the other steps do not apply to NodeClaims that stay.
        Step::Protect
        | Step::Delete(_)
        | Step::Follow
        | Step::AwaitLaunch
        | Step::DeleteNodes
        | Step::Mark
        | Step::Drain
        | Step::AwaitVolumes
        | Step::EndInstance
        | Step::ReleaseNode
        | Step::Release => {}
    }
}

/// NodeClaims whose launch ended without an instance. The turn that ended the launch deletes them, unless it fails first.
fn failed_launches(snapshot: &Snapshot) -> BTreeMap<&NodeClaimName, &str> {
    let failed = snapshot
        .intents
        .iter()
        .filter_map(|intent| match &intent.state {
            IntentState::Failed { why } | IntentState::Void { why } => {
                Some((intent.name(), why.as_str()))
            }
            IntentState::Intended
            | IntentState::Claimed { .. }
            | IntentState::Launching { .. }
            | IntentState::Launched { .. } => None,
        });
    failed.collect()
}

/// Start of each launch in flight, by Whittle's own clock.
fn launches_under_way(snapshot: &Snapshot) -> BTreeMap<&NodeClaimName, Timestamp> {
    let under_way = snapshot
        .intents
        .iter()
        .filter(|intent| intent.is_in_flight());
    under_way
        .map(|intent| (intent.name(), intent.committed_at))
        .collect()
}

pub(crate) fn target(claim: &NodeClaim) -> Target {
    Target {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
    }
}

/// Empty update of the NodeClaim, with a condition on its resource version.
pub(crate) fn update_of(claim: &NodeClaim) -> NodeClaimUpdate {
    NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
        ..NodeClaimUpdate::default()
    }
}

#[cfg(test)]
mod drift_tests;
#[cfg(test)]
mod tests;
