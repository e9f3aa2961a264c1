//! Pods without a place → a plan → NodeClaims → launches; on missing capacity plans again immediately (docs/design.md#functions,
//! docs/design.md#missing-capacity).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{
    Batch, NodeClaimName, NodeName, Plan, PodKey, Snapshot,
    ledger::{Pause, PauseLevel},
    plan::Expected,
};
use ports::LaunchBuilder;

use crate::{
    Report, TurnError,
    act::{
        nominate::{NOMINATED_FOR, nominate},
        spending,
    },
    context::Turn,
    lanes::{TurnResult, buffers, shadow},
    observe::{Observed, PodScope, observe},
    report::{Step, metrics},
};

mod described;
mod launches;
mod open_batch;

/// Upper bound on plans in one turn: further ones only follow missing capacity.
const ROUNDS_MAX: u32 = 3;
/// Longest interval between checks on pods that were nominated to a node and are still unbound.
const NOMINATED_CHECK_MAX: SignedDuration = SignedDuration::from_mins(5);
/// Delay before postponed pods are planned in a turn that changed nothing, as Karpenter tries again
/// (docs/spec/scheduling.md#batching); after a change they are planned immediately.
const RETRY_UNCHANGED_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// Interval between checks on pods that wait for the account's cap: other clusters may have made room.
const ACCOUNT_CAP_RECHECK: SignedDuration = SignedDuration::from_mins(2);
/// Delay before decisions that the check refused are planned again: their cause may have been about to change.
const RETRY_REFUSED_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// Longest time for a NodeClaim that should have registered to be deleted and the deletion to wake a lane, unless the deletion
/// is refused.
const DELETION_WITHIN: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<TurnResult, TurnError> {
    if turn.batch == Batch::Open {
        return open_batch::turn(turn).await;
    }
    let mut report = turn.report();
    let mut observed = observe_with_spending(turn).await?;
    let builder = turn
        .world
        .launches
        .prepare(turn.cluster, &turn.meta.registry)
        .await?;
    // Launches that were left, and pods that wait, are handled when a pause is over (docs/protocol.md#c4).
    let paused = turn.meta.paused(PauseLevel::All, turn.now);
    if let Some(end) = Pause::next_end(&observed.snapshot.pauses, turn.now) {
        report.run_again_at(end);
    }
    if turn.may_act()
        && paused.is_none()
        && launches::take_over(turn, &observed, &*builder, &mut report).await?
    {
        observed = observe_with_spending(turn).await?;
    }
    let counter = observed.counter.clone();
    for round in 1..=ROUNDS_MAX {
        let again = run_round(turn, &observed, &*builder, &mut report).await?;
        if !again || round == ROUNDS_MAX || turn.world.clock.now() >= turn.deadline {
            break;
        }
        observed = observe_with_spending(turn).await?;
    }
    Ok(TurnResult {
        report,
        full_look: Some(counter),
        snapshot: Some(observed.snapshot),
        cursor: None,
    })
}

async fn observe_with_spending(turn: &Turn<'_>) -> Result<Observed, TurnError> {
    let mut observed = observe(turn, PodScope::IfAnyMoves).await?;
    spending::publish(turn, &mut observed).await?;
    Ok(observed)
}

/// Makes, commits and carries out one plan. Returns whether to plan again.
async fn run_round(
    turn: &Turn<'_>,
    observed: &Observed,
    builder: &dyn LaunchBuilder,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let snapshot = &observed.snapshot;
    let begun_at = turn.world.clock.now();
    report.end_step(Step::Observed, begun_at);
    let plan = planner::provision(snapshot, turn.world.share);
    let took = turn.world.clock.now().duration_since(begun_at);
    let checked = plancheck::filter(snapshot, plan);
    report.end_step(Step::Planned, turn.world.clock.now());
    described::describe(observed, &checked, report);
    if report.waiting.is_some() {
        report.metrics.push(metrics::of_planning(turn.lane, took));
    }
    report.shadowed = shadow::launches(snapshot, turn.world.share);
    if !checked.refused.is_empty() {
        report.run_again_at(turn.now + RETRY_REFUSED_AFTER);
    }
    let plan = checked.plan;
    if !plan.unplaced.is_empty()
        && let Some(until) = observed.experience.next_lapse()
    {
        report.run_again_at(until);
    }
    let is_capped = !snapshot.account.caps.is_unlimited() && !report.limited.is_empty();
    if is_capped {
        // No wake reports other clusters' nodes.
        report.run_again_at(turn.now + ACCOUNT_CAP_RECHECK);
    }
    if !plan.postponed.is_empty() {
        report.run_again_at(turn.now + RETRY_UNCHANGED_AFTER);
    }
    if !turn.may_act() {
        report.plan(&plan.actions);
        report.stopped = Some("the cluster is not active: nothing was done".into());
        return Ok(false);
    }
    buffers::write_room_status(turn, observed, &plan.buffers, report).await;
    nominate(turn, &plan).await?;
    if let Some(wait) = binding_wait(snapshot, &plan) {
        report.run_again_at(turn.now + wait);
    }
    if let Some(at) = registration_due(snapshot, &plan) {
        report.run_again_at(at + DELETION_WITHIN);
    }
    launches::commit(turn, observed, plan, builder, report).await
}

/// Time until waiting pods should have been bound to the ready nodes they are nominated to: the time since the younger of pod
/// and node appeared, within bounds. No wake reports that the scheduler has bound other pods there.
fn binding_wait(snapshot: &Snapshot, plan: &Plan) -> Option<SignedDuration> {
    let waits = snapshot.pods.iter().filter(|pod| pod.node_name.is_none());
    let waits: BTreeMap<&PodKey, _> = waits.map(|pod| (&pod.key, pod.created_at)).collect();
    let nodes = snapshot.nodes.iter();
    let ready: BTreeMap<&NodeName, _> = nodes.map(|node| (&node.name, node.ready.since)).collect();
    let since = plan.nominations.iter().filter_map(|nomination| {
        let Expected::Node(name) = &nomination.node else {
            return None;
        };
        let pod = waits.get(&nomination.pod.key)?;
        (*ready.get(name)?).max(*pod)
    });
    let waited = snapshot.now.duration_since(since.max()?);
    Some(waited.clamp(NOMINATED_FOR, NOMINATED_CHECK_MAX))
}

/// Time by which the first nominated NodeClaim should have registered. It may pass without any change, if its Node refuses
/// to be changed.
fn registration_due(snapshot: &Snapshot, plan: &Plan) -> Option<Timestamp> {
    let awaited = plan
        .nominations
        .iter()
        .filter_map(|nomination| match &nomination.node {
            Expected::NodeClaim(name) => Some(name),
            Expected::Node(_) => None,
        });
    let awaited: BTreeSet<&NodeClaimName> = awaited.collect();
    let claims = snapshot.node_claims.iter();
    let claims = claims.filter(|claim| awaited.contains(&claim.name));
    let due = claims.filter_map(|claim| planner::overdue_at(claim, snapshot));
    due.min()
}
