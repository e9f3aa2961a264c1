//! Nodes that are being deleted: each deletion is advanced by one step per turn, woken by events, timers and sweeps; no turn
//! waits.

mod ends;
mod hooks;
mod reboots;

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::types::REBOOTING;
use jiff::SignedDuration;
use model::{
    Action, InstanceId, Lane, Snapshot,
    interruption::InterruptionAction,
    ledger::{Call, Holder, Notice},
    node::{ConditionStatus, Node},
    node_claim::{Condition, NodeClaim},
    plan::{Planned, Target},
};
use planner::CompletedNotices;
use ports::{ClusterError, cluster::EventTarget};

use self::{
    ends::{InstanceEnds, read_instance_ends, resolve_launches, unlaunched},
    hooks::Hooks,
};
use crate::{
    Report, TurnError,
    act::apply::apply,
    context::{
        Turn,
        node_claims::{instance_of, target_of},
    },
    interruption::{forced_termination_update, node_of_instance},
    lanes::{TurnResult, record_snapshot},
    observe::{PodScope, notices, observe},
    report::events,
};

/// Period after which a node that still has no replacement is left as it is.
const REPLACED_WITHIN: SignedDuration = SignedDuration::from_mins(15);
/// Time past its deadline after which an instance that still runs is assumed to stay.
const OVERDUE: SignedDuration = SignedDuration::from_mins(2);
/// Interval at which instances that EC2 is terminating are read again.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// Upper bound on the difference between AWS' clock, which dates notices, and Whittle's, which dates calls.
const CLOCK_SKEW_MAX: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<TurnResult, TurnError> {
    let mut report = turn.report();
    let mut observed = observe(turn, PodScope::IfAnyLeaves).await?;
    let counter = observed.counter.clone();
    let executor = turn.executor();
    let stop = match turn.may_act() && has_obligations(&observed.snapshot) {
        true => executor.may_act().await?,
        false => None,
    };
    if turn.may_act() && stop.is_none() {
        let hooks = &mut Hooks::new(turn, &observed.snapshot);
        handle_notices(turn, &observed.snapshot, hooks, &mut report).await?;
        for notice in &observed.refuted {
            finish_notice(turn, notice, hooks, &mut report).await?;
        }
        resolve_launches(turn, &executor, &observed.snapshot, &mut report).await?;
        // Launches that ended just now hold no NodeClaim back.
        observed.snapshot.intents = turn.world.ledger.intents(turn.cluster).await?;
    }
    let InstanceEnds {
        gone,
        missing_in_ec2,
    } = read_instance_ends(turn, &observed.snapshot).await?;
    observed.missing_in_ec2 = missing_in_ec2;
    let mut decision = planner::terminate(&observed.snapshot, &gone);
    let (unmanaged, leave) =
        planner::terminate_unmanaged(&observed.snapshot, &turn.entry.unmanaged);
    decision.extend(unmanaged);
    let reboots = planner::reboot(&observed.snapshot);
    decision.extend(reboots.decision);
    record_snapshot(&observed, &mut report);
    report.plan(&decision.plan.actions);
    if let Some(due) = decision.due {
        report.run_again_at(due);
    }
    if !turn.may_act() {
        report.stopped = Some("the cluster is not active: nothing was done".into());
        return Ok(TurnResult {
            report,
            full_look: Some(counter),
            snapshot: None,
            cursor: None,
        });
    }
    let applied = apply(
        turn,
        &executor,
        &observed,
        &decision.plan.actions,
        &mut report,
    )
    .await?;
    match stop {
        None => {
            finish_unmanaged_notices(turn, &observed.snapshot, &leave, &mut report).await?;
            reboots::request_reboots(turn, &executor, &observed, &reboots.calls, &mut report)
                .await?;
        }
        Some(stop) => {
            report.stopped = Some(stop.to_string());
            report.run_again_at(turn.now + RECHECK_AFTER * 2);
        }
    }
    if applied.acted {
        // The actions changed objects that the next step depends on.
        report.run_again_at(turn.world.clock.now() + RECHECK_AFTER);
    }
    if decision.plan.actions.iter().any(begins_drain) {
        // Pods of the node need other places, best before they are evicted.
        turn.wake(Lane::Provisioner, "node-leaves").await?;
    } else if applied.finished_without_node {
        // Pods that were nominated there need another place, and no change of an object lets the relay report it.
        turn.wake(Lane::Provisioner, "nodeclaim-gone").await?;
    }
    if decision.plan.actions.iter().any(ends_reboot) {
        // The node is initialized again.
        turn.wake(Lane::Lifecycle, "rebooted").await?;
    }
    if applied.finished_claims {
        // A budget that counted them may allow the next disruption.
        turn.wake(Lane::Disruption, "nodeclaim-gone").await?;
    }
    let notes = events::of_notes(&decision.notes, turn.now);
    // Events about single pods come first: they are more specific than counts.
    let emitted: Vec<_> = applied.events.into_iter().chain(notes).collect();
    events::post(turn, &emitted, &mut report).await;
    Ok(TurnResult {
        report,
        full_look: Some(counter),
        snapshot: None,
        cursor: None,
    })
}

/// Whether the turn has work that no plan contains: recorded notices, launches of deleted NodeClaims
/// (docs/protocol.md#b1), and reboot calls.
fn has_obligations(snapshot: &Snapshot) -> bool {
    let reboots = |claim: &NodeClaim| claim.is_true(REBOOTING);
    !snapshot.notices.is_empty()
        || unlaunched(snapshot).next().is_some()
        || snapshot.node_claims.iter().any(reboots)
}

/// Whether this is the first step of a drain.
fn begins_drain(planned: &Planned) -> bool {
    matches!(&planned.action, Action::UpdateNode(update) if update.taints.is_some())
}

/// Whether this action ends a reboot.
fn ends_reboot(planned: &Planned) -> bool {
    let is_over = |condition: &Condition| {
        condition.kind == REBOOTING && condition.status == ConditionStatus::False
    };
    matches!(&planned.action, Action::UpdateNodeClaim(update) if update.conditions.iter().any(is_over))
}

/// Handles recorded interruptions: their NodeClaims are deleted, unless another lane did that already. A notice stays until its
/// NodeClaim is gone: the drain is planned by its deadline.
async fn handle_notices(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    hooks: &mut Hooks<'_>,
    report: &mut Report,
) -> Result<(), TurnError> {
    let own: BTreeMap<InstanceId, &NodeClaim> = snapshot
        .node_claims
        .iter()
        .filter_map(|claim| Some((instance_of(claim)?, claim)))
        .collect();
    let waits = |notice: &Notice| notice.action == InterruptionAction::Replace;
    let replaced = match snapshot.notices.iter().any(waits) {
        true => planner::replaced(snapshot),
        false => BTreeSet::new(),
    };
    for notice in snapshot.notices.iter().filter(|notice| !notice.unmanaged) {
        let claim = match own.get(&notice.instance) {
            Some(claim) => Some(*claim),
            None => {
                let owned = owner_without_provider_id(turn, snapshot, &notice.instance).await;
                let about = format!("owner of instance {}", notice.instance);
                match report.isolate_unseen(about, owned)? {
                    Some(claim) => claim,
                    // The NodeClaim that should go is not known: the notice stays.
                    None => continue,
                }
            }
        };
        let Some(claim) = claim else {
            if may_still_launch(turn, notice).await? {
                report.run_again_at(turn.now + RECHECK_AFTER * 2);
            } else {
                finish_notice(turn, notice, hooks, report).await?;
            }
            continue;
        };
        let action = notices::action(notice, claim, &snapshot.node_pools);
        if claim.deleted_at.is_some() {
            let drain_forced = force_drain(turn, action, claim).await;
            report.isolate(&target_of(claim), drain_forced)?;
            continue;
        }
        if action == InterruptionAction::Cordon {
            let is_cordoned = cordon_node(turn, snapshot, claim, report).await?;
            let overdue = |at| turn.now.duration_since(at) > OVERDUE;
            if is_cordoned && notice.deadline.is_none_or(overdue) {
                finish_notice(turn, notice, hooks, report).await?;
            }
            continue;
        }
        if action == InterruptionAction::Replace && !replaced.contains(&claim.name) {
            let age = notice.at.map(|at| turn.now.duration_since(at));
            if age.is_none_or(|age| age >= REPLACED_WITHIN) {
                // The node stays; if its instance is taken back, that is announced separately.
                finish_notice(turn, notice, hooks, report).await?;
            } else {
                report.run_again_at(turn.now + RECHECK_AFTER * 2);
            }
            continue;
        }
        let deleted = delete_interrupted(turn, notice, claim).await;
        let has_changed = matches!(deleted, Err(ClusterError::Conflict { .. }));
        let is_deleted = report.isolate(&target_of(claim), deleted)?.is_some();
        if is_deleted || has_changed {
            report.run_again_at(turn.now);
        }
    }
    Ok(())
}

/// Cordons the node of a NodeClaim whose NodePool asks for no more; its owner drains it. Returns whether nothing is left to do.
async fn cordon_node(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    claim: &NodeClaim,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let own = |node: &&Node| node.provider_id == claim.status.provider_id;
    let node = snapshot.nodes.iter().find(own);
    let Some(update) = node.and_then(planner::cordon) else {
        return Ok(true);
    };
    let about = EventTarget::Node(update.name.clone(), update.uid.clone());
    let updated = turn.api.update_node(&update).await;
    Ok(report.isolate(&about, updated)?.is_some())
}

/// Finishes notices of nodes that no NodePool made: drained instances may be terminated, and lifecycle hooks of the others are
/// extended.
async fn finish_unmanaged_notices(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    leave: &CompletedNotices,
    report: &mut Report,
) -> Result<(), TurnError> {
    let hooks = &mut Hooks::new(turn, snapshot);
    for notice in snapshot.notices.iter().filter(|notice| notice.unmanaged) {
        let id = &notice.instance;
        let is_done = leave.drained.contains(id)
            || leave.unlisted.contains(id) && {
                let has_no_node = has_no_node(turn, id).await;
                let has_no_node =
                    report.isolate_unseen(format!("Node of instance {id}"), has_no_node);
                has_no_node?.unwrap_or(false)
            };
        match is_done {
            true => finish_notice(turn, notice, hooks, report).await?,
            false => hooks.extend(notice, report).await?,
        }
        if leave.unlisted.contains(id) && !is_done {
            report.run_again_at(turn.now + RECHECK_AFTER * 2);
        }
    }
    Ok(())
}

/// Whether an instance certainly has no Node whose pods would end with it: EC2 reports that it has ended or never existed, or
/// none of the names that its Node can have exists. A list without the Node is no proof.
async fn has_no_node(turn: &Turn<'_>, id: &InstanceId) -> Result<bool, TurnError> {
    let cloud = &turn.world.cloud;
    let shown = cloud.describe_instances(std::slice::from_ref(id)).await?;
    let Some(instance) = shown.first() else {
        return Ok(!cloud.knows_instance(id).await?);
    };
    if !instance.state.is_alive() {
        return Ok(true);
    }
    let dns = instance.private_dns.as_deref();
    Ok(node_of_instance(&*turn.api, id, dns).await?.is_none())
}

/// Finishes a notice: its lifecycle hook is completed, and the notice removed.
async fn finish_notice(
    turn: &Turn<'_>,
    notice: &Notice,
    hooks: &mut Hooks<'_>,
    report: &mut Report,
) -> Result<(), TurnError> {
    if !hooks.complete(notice, report).await? {
        return Ok(());
    }
    let ledger = &turn.world.ledger;
    ledger
        .finish_notice(turn.cluster, &notice.instance, &notice.kind)
        .await?;
    Ok(())
}

/// The NodeClaim that owns an instance and has no provider id yet.
async fn owner_without_provider_id<'a>(
    turn: &Turn<'_>,
    snapshot: &'a Snapshot,
    instance: &InstanceId,
) -> Result<Option<&'a NodeClaim>, TurnError> {
    let owner = turn.world.ledger.owner(instance).await?;
    let Some(Holder::Claim(name)) = owner.map(|owner| owner.holder) else {
        return Ok(None);
    };
    let is_owner = |claim: &&NodeClaim| claim.name == name && claim.status.provider_id.is_empty();
    Ok(snapshot.node_claims.iter().find(is_owner))
}

/// Whether an open call may have launched the instance: its NodeClaim obeys the notice when it is known.
async fn may_still_launch(turn: &Turn<'_>, notice: &Notice) -> Result<bool, TurnError> {
    let calls = turn.world.ledger.open_calls(turn.cluster).await?;
    let before = |call: &Call| {
        notice
            .at
            .is_none_or(|at| call.frozen_at < at + CLOCK_SKEW_MAX)
    };
    Ok(calls.iter().any(before))
}

async fn delete_interrupted(
    turn: &Turn<'_>,
    notice: &Notice,
    claim: &NodeClaim,
) -> Result<(), ClusterError> {
    let target = Target {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
    };
    turn.api.delete_node_claim(&target).await?;
    force_drain(turn, notice.action, claim).await
}

/// Sets the drain's deadline to now if there is no time to wait.
async fn force_drain(
    turn: &Turn<'_>,
    action: InterruptionAction,
    claim: &NodeClaim,
) -> Result<(), ClusterError> {
    match forced_termination_update(action, claim, turn.now) {
        Some(update) => turn.api.update_node_claim(&update).await.map(drop),
        None => Ok(()),
    }
}
