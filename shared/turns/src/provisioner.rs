//! Pods without a place → a plan → NodeClaims → launches; on missing capacity plans again at once (docs/design.md#functions,
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
    Report, TurnError, buffers,
    lane::{Done, Turn},
    metrics,
    observe::{Observed, Pods, observe},
    shadow, spending,
};

mod described;
mod launches;
mod open_batch;

pub(crate) use described::seen;

/// Plans in one turn: further ones only follow missing capacity.
const ROUNDS_MAX: u32 = 3;
/// A node that pods are expected on may not be removed for so long (docs/spec/scheduling.md#nomination).
const NOMINATED_FOR: SignedDuration = SignedDuration::from_secs(20);
/// Pods that do not go to nodes that are there for them are looked at so often at least.
const NOMINATED_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// What could not be planned at once is planned by the next turn: at once if this one changed anything, else after this, as
/// upstream tries again (docs/spec/scheduling.md#batching).
const AFTER_NOTHING: SignedDuration = SignedDuration::from_secs(10);
/// Pods that wait for the account's cap are looked at so often: other clusters may have made room.
const ROOM_ELSEWHERE: SignedDuration = SignedDuration::from_mins(2);
/// What the checker refused is planned again after this: it may have been about to change.
const AFTER_REFUSAL: SignedDuration = SignedDuration::from_mins(1);
/// A NodeClaim that should have registered is deleted within this, which is told, unless something refuses.
const ENDED_WITHIN: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<Done, TurnError> {
    if turn.batch == Batch::Open {
        return open_batch::turn(turn).await;
    }
    let mut report = turn.report();
    let mut observed = look(turn).await?;
    let builder = turn
        .world
        .launches
        .prepare(turn.cluster, &turn.meta.registry)
        .await?;
    // Launches that were left, and pods that wait, are seen to when a pause is over (docs/protocol.md#c4).
    let paused = turn.meta.paused(PauseLevel::All, turn.now);
    if let Some(end) = Pause::next_end(&observed.snapshot.pauses, turn.now) {
        report.look_again(end);
    }
    if turn.may_act()
        && paused.is_none()
        && launches::take_over(turn, &observed, &*builder, &mut report).await?
    {
        observed = look(turn).await?;
    }
    let counter = observed.counter.clone();
    for round in 1..=ROUNDS_MAX {
        let again = round_of(turn, &observed, &*builder, &mut report).await?;
        if !again || round == ROUNDS_MAX || turn.world.clock.now() >= turn.deadline {
            break;
        }
        observed = look(turn).await?;
    }
    Ok(Done {
        report,
        full_look: Some(counter),
        seen: Some(observed.snapshot),
        cursor: None,
    })
}

async fn look(turn: &Turn<'_>) -> Result<Observed, TurnError> {
    let mut observed = observe(turn, Pods::IfAnyMoves).await?;
    spending::publish(turn, &mut observed).await?;
    Ok(observed)
}

/// One plan, committed and acted upon. Says whether planning again is worth it.
async fn round_of(
    turn: &Turn<'_>,
    observed: &Observed,
    builder: &dyn LaunchBuilder,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let snapshot = &observed.snapshot;
    let begun_at = turn.world.clock.now();
    let plan = planner::provision(snapshot, turn.world.share);
    let took = turn.world.clock.now().duration_since(begun_at);
    let checked = plancheck::filter(snapshot, plan);
    described::describe(observed, &checked, report);
    if report.waiting.is_some() {
        report.metrics.push(metrics::of_planning(turn.lane, took));
    }
    report.shadowed = shadow::launches(snapshot, turn.world.share);
    if !checked.refused.is_empty() {
        report.look_again(turn.now + AFTER_REFUSAL);
    }
    let plan = checked.plan;
    if !plan.unplaced.is_empty()
        && let Some(until) = observed.experience.next_lapse()
    {
        report.look_again(until);
    }
    let is_capped = !snapshot.account.caps.is_unlimited() && !report.limited.is_empty();
    if is_capped {
        // No wake tells of other clusters' nodes.
        report.look_again(turn.now + ROOM_ELSEWHERE);
    }
    if !plan.postponed.is_empty() {
        report.look_again(turn.now + AFTER_NOTHING);
    }
    if !turn.may_act() {
        report.plan(&plan.actions);
        report.stopped = Some("the cluster is not active: nothing was done".into());
        return Ok(false);
    }
    buffers::tell(turn, observed, &plan.buffers, report).await;
    nominate(turn, &plan).await?;
    if let Some(patience) = patience(snapshot, &plan) {
        report.look_again(turn.now + patience);
    }
    if let Some(at) = awaited_until(snapshot, &plan) {
        report.look_again(at + ENDED_WITHIN);
    }
    launches::commit(turn, observed, plan, builder, report).await
}

/// Keeps the nodes that pods are expected on from being removed meanwhile. One that joins while it is waited for is known by its
/// NodeClaim.
pub(crate) async fn nominate(turn: &Turn<'_>, plan: &Plan) -> Result<(), TurnError> {
    let now = turn.world.clock.now();
    let nominations = plan.nominations.iter();
    let expected: BTreeMap<Expected, Timestamp> = nominations
        .map(|nomination| (nomination.node.clone(), now + NOMINATED_FOR))
        .collect();
    if !expected.is_empty() {
        turn.world
            .ledger
            .nominate(turn.cluster, &expected, now)
            .await?;
    }
    Ok(())
}

/// How long until pods that wait have gone to the nodes that are there for them: as long as the youngest of either has been there, within
/// bounds. No wake tells that the scheduler has put other pods there.
fn patience(snapshot: &Snapshot, plan: &Plan) -> Option<SignedDuration> {
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
    let stands = snapshot.now.duration_since(since.max()?);
    Some(stands.clamp(NOMINATED_FOR, NOMINATED_AGAIN))
}

/// When the first NodeClaim that pods are expected on should have registered. That may pass without any change, where its Node refuses
/// to be changed.
fn awaited_until(snapshot: &Snapshot, plan: &Plan) -> Option<Timestamp> {
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
