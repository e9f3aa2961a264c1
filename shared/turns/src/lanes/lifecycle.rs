//! NodeClaims from launched to initialized, NodePool and NodeClass status, and launches that were made by hand.

mod caps;
mod drift;
mod hashes;
mod node_classes;
mod node_pools;
mod overlays;
mod registrations;
mod static_node_claims;
mod tags;

use std::collections::BTreeSet;

use api::conditions::types::{CONSOLIDATABLE, DRIFTED, INITIALIZED};
use executor::Executor;
use jiff::SignedDuration;
use model::{
    Action, Lane, NodeClaimName, NodePoolName, Plan, Snapshot, Uid, counted,
    ledger::{Command, CommandState, Intent},
    node_claim::NodeClaim,
    node_pool::ConsolidateAfter,
    plan::Planned,
};
use ports::ledger::Unfenced;

use crate::{
    Report, TurnError,
    act::{
        adopt,
        apply::{Applied, apply},
        forget,
        launching::launch,
        refusals, spending,
    },
    context::Turn,
    interruption::capacity_blocks,
    lanes::{TurnResult, buffers, record_snapshot},
    observe::{Observed, PodScope, observe},
    report::{events, metrics},
};

/// Delay before deletions that could not be recorded are tried again.
const RECORD_AGAIN: SignedDuration = SignedDuration::from_secs(10);

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<TurnResult, TurnError> {
    let mut report = turn.report();
    let mut observed = observe(turn, PodScope::AsPublished).await?;
    spending::publish(turn, &mut observed).await?;
    let counter = observed.counter.clone();
    let executor = turn.executor();
    if turn.may_act() {
        match executor.may_act().await? {
            None => {
                node_classes::update_status(turn, &mut observed, &mut report).await?;
                node_pools::update_status(turn, &mut observed, &mut report).await?;
                overlays::update_status(turn, &observed, &mut report).await?;
                buffers::write_resolved_status(turn, &observed, &mut report).await?;
            }
            Some(stop) => report.stopped = Some(stop.to_string()),
        }
    }
    caps::report_exceeded(turn, &observed, &mut report).await;
    capacity_blocks::handle_ending_blocks(turn, &observed, &mut report).await;
    drift::evaluate(turn, &mut observed, &mut report).await?;
    record_measured_memory(turn, &observed).await?;
    let mut decision = planner::lifecycle_with(&observed.snapshot, turn.entry.timeouts);
    let mut fixed = planner::static_capacity(&observed.snapshot);
    let rebooted = planner::rebooted(&observed.snapshot);
    let mut orphans = adopt::orphans(turn, &observed.snapshot, &mut report).await?;
    let late = adopt::created_too_late(turn, &observed.snapshot, &mut orphans, &mut report).await?;
    let again = [
        refusals::drop_refused_deletions(turn, &observed.snapshot, &mut decision.plan.actions)
            .await?,
        refusals::drop_refused_deletions(turn, &observed.snapshot, &mut fixed.plan.actions).await?,
    ];
    if let Some(again) = again.into_iter().flatten().min() {
        report.run_again_at(again);
    }
    record_snapshot(&observed, &mut report);
    for decision in [&decision, &fixed, &rebooted] {
        report.plan(&decision.plan.actions);
        if let Some(due) = decision.due {
            report.run_again_at(due);
        }
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
    report.plan(&late.actions);
    let plans = [decision.plan, fixed.plan, rebooted.plan, late];
    let unrecorded = record_deletions(turn, &plans, &mut report).await;
    let may_act = |planned: &Planned| {
        let deletion = planned.action.deletion();
        deletion.is_none_or(|target| !unrecorded.contains(&target.uid))
    };
    let recorded = plans.map(|plan| {
        let actions = plan.actions.into_iter();
        actions.filter(may_act).collect::<Vec<_>>()
    });
    let judged = recorded[0].len();
    let actions = recorded.concat();
    let applied = apply(turn, &executor, &observed, &actions, &mut report).await?;
    refusals::record_refused_deletions(turn, &observed.snapshot, &actions, &applied).await?;
    let ended = applied.done.iter().filter_map(|index| {
        let name = &actions.get(*index)?.action.deletion()?.name;
        let reason = decision.endings.get(name)?;
        let mut claims = observed.snapshot.node_claims.iter();
        let claim = claims.find(|claim| claim.name == *name)?;
        let moving = metrics::moving(&observed.snapshot, claim);
        Some(match decision.forced_repairs.get(name) {
            Some(condition) => metrics::of_forced_repair(claim, moving, reason, condition),
            None => metrics::of_disruption(claim, moving, reason, None),
        })
    });
    report.metrics.extend(ended.flatten());
    // A deletion because a NodePool has too many nodes is no sign of failed registrations.
    let judged = actions.get(..judged).unwrap_or_default();
    registrations::record(turn, &observed, judged, &applied, &mut report).await;
    let pools = &observed.snapshot.node_pools;
    static_node_claims::create(turn, &executor, &actions, pools, &mut report).await?;
    launch_by_hand(turn, &executor, &observed, &orphans, &mut report).await?;
    tags::tag_instances(turn, &observed.snapshot.node_claims, &mut report).await?;
    forget_failed(turn, &observed, &mut report).await?;
    wake_concerned_lanes(turn, &observed, &applied, &actions).await?;
    let mut notes = events::of_notes(&decision.notes, turn.now);
    notes.extend(events::of_notes(&rebooted.notes, turn.now));
    let emitted: Vec<_> = notes.into_iter().chain(applied.events).collect();
    events::post(turn, &emitted, &mut report).await;
    Ok(TurnResult {
        report,
        full_look: Some(counter),
        snapshot: None,
        cursor: None,
    })
}

/// Records the memory that nodes of a type were measured to have, for every cluster of the account
/// (docs/spec/aws.md#measured-memory).
async fn record_measured_memory(turn: &Turn<'_>, observed: &Observed) -> Result<(), TurnError> {
    for measured in planner::measurements(&observed.snapshot, &observed.experience) {
        let (instance_type, image) = (&measured.instance_type, &measured.image);
        let ledger = &turn.world.ledger;
        ledger
            .measure_memory(instance_type, image, measured.bytes, turn.now)
            .await?;
    }
    Ok(())
}

/// Records involuntary deletions, which are not fenced: recorded first, and then executed (docs/protocol.md#c3). Returns
/// those that could not be recorded: a later turn retries them, and they delay nothing else.
async fn record_deletions(turn: &Turn<'_>, plans: &[Plan], report: &mut Report) -> BTreeSet<Uid> {
    let actions = plans.iter().flat_map(|plan| &plan.actions);
    let commands: Vec<Command> = actions
        .filter_map(|planned| {
            let target = planned.action.deletion()?;
            Some(Command {
                id: format!("ended-{}", target.uid),
                reason: planned.because.clone(),
                delete: vec![target.clone()],
                reboot: None,
                replacements: Vec::new(),
                state: CommandState::Deleting,
                committed_at: turn.now,
                choice: None,
                initialized: Vec::new(),
            })
        })
        .collect();
    let acts = Unfenced {
        turn: turn.id.clone(),
        commands,
        notices: Vec::new(),
        due: vec![(Lane::Disruption, turn.now), (Lane::Terminator, turn.now)],
    };
    let mut unrecorded = BTreeSet::new();
    for piece in acts.pieces() {
        if let Err(error) = turn
            .world
            .ledger
            .record_unfenced(turn.cluster, &piece)
            .await
        {
            let targets = piece.commands.iter().flat_map(|command| &command.delete);
            unrecorded.extend(targets.map(|target| target.uid.clone()));
            let deletions = counted(piece.commands.len(), "deletion");
            report
                .problems
                .push(format!("{deletions} could not be recorded: {error}"));
            report.run_again_at(turn.now + RECORD_AGAIN);
        }
    }
    unrecorded
}

async fn launch_by_hand(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    orphans: &[&NodeClaim],
    report: &mut Report,
) -> Result<(), TurnError> {
    let (snapshot, classes) = (&observed.snapshot, &observed.classes);
    let adopted = adopt::adopt(turn, executor, snapshot, classes, orphans).await?;
    if adopted.is_empty() {
        return Ok(());
    }
    let names = adopted.iter().map(Intent::name).collect();
    let existing = adopt::existing_instances(turn, snapshot, &names, report).await?;
    let outcome = launch(turn, executor, observed, adopted, existing, report).await?;
    events::post(turn, &outcome.events, report).await;
    Ok(())
}

/// Forgets launches that failed. Launches that led to an instance outlive many turns, and garbage collection forgets them.
async fn forget_failed(
    turn: &Turn<'_>,
    observed: &Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    let intents = turn.world.ledger.intents(turn.cluster).await?;
    let over = intents.iter().filter(|intent| !intent.is_in_flight());
    let over: Vec<NodeClaimName> = over.map(|intent| intent.name().clone()).collect();
    let listed = &observed.snapshot.node_claims;
    let failures = &mut report.objects;
    forget::forget_finished_launches(
        turn.world,
        turn.cluster,
        &*turn.api,
        &over,
        listed,
        failures,
    )
    .await
}

/// NodeClaims whose nodes stay Consolidatable when they lose their pods, so that no condition changes.
fn always_consolidatable(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    let pools = snapshot.node_pools.iter();
    let at_once =
        pools.filter(|pool| pool.disruption.consolidate_after == ConsolidateAfter::Seconds(0));
    let at_once: BTreeSet<&NodePoolName> = at_once.map(|pool| &pool.name).collect();
    let claims = snapshot.node_claims.iter();
    let of_these = claims.filter(|claim| {
        let pool = claim.node_pool();
        pool.is_some_and(|pool| at_once.contains(&pool))
    });
    of_these.map(|claim| &claim.name).collect()
}

/// Wakes the lanes that the turn's changes concern.
async fn wake_concerned_lanes(
    turn: &Turn<'_>,
    observed: &Observed,
    applied: &Applied,
    actions: &[Planned],
) -> Result<(), TurnError> {
    if applied.deleted_claims {
        turn.wake(Lane::Terminator, "nodeclaim-deleted").await?;
        // Pods that were nominated to that node need another place.
        turn.wake(Lane::Provisioner, "nodeclaim-deleted").await?;
    }
    let always_consolidatable = always_consolidatable(&observed.snapshot);
    let may_be_disrupted = |planned: &Planned| match &planned.action {
        Action::UpdateNodeClaim(update) => {
            let relevant = [CONSOLIDATABLE, DRIFTED, INITIALIZED];
            let mut changed = update.conditions.iter();
            let has_changed = changed.any(|condition| relevant.contains(&condition.kind.as_str()));
            let lost_pods =
                || update.last_pod_event.is_some() && always_consolidatable.contains(&update.name);
            has_changed || lost_pods()
        }
        Action::Launch(_)
        | Action::DeleteNodeClaim(_)
        | Action::Reboot(_)
        | Action::UpdateNode(_)
        | Action::Evict { .. }
        | Action::DeletePod { .. }
        | Action::Terminate { .. } => false,
    };
    if actions.iter().any(may_be_disrupted) {
        turn.wake(Lane::Disruption, "disruptable").await?;
    }
    if observed
        .snapshot
        .node_claims
        .iter()
        .any(|claim| claim.deleted_at.is_some())
    {
        turn.world
            .ledger
            .make_due(turn.cluster, Lane::Terminator, turn.now)
            .await?;
    }
    Ok(())
}
