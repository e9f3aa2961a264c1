//! Pods without a place → a plan → NodeClaims → launches; on missing capacity plans again at once (DESIGN §2, §7.3).

use std::collections::{BTreeMap, BTreeSet};

use executor::{Commitment, LaunchFacts, Stop};
use jiff::{SignedDuration, Timestamp};
use model::{
    FreeAddresses, Lane, NodeClaimName, NodeName, Plan, PodKey, Snapshot,
    journal::{Line, Subject},
    ledger::{Intent, Pause, PauseLevel},
    plan::{Expected, names},
};
use ports::LaunchBuilder;

use crate::{
    Report, TurnError, addresses, approval, buffers, events,
    lane::{Done, Turn},
    metrics,
    observe::{Observed, Pods, observe},
    report::{PodsFrom, Waiting},
    shadow, spending,
};

/// Plans in one turn: further ones only follow missing capacity.
const ROUNDS_MAX: u32 = 3;
/// A node that pods are expected on may not be removed for so long (spec/scheduling §9.3).
const NOMINATED_FOR: SignedDuration = SignedDuration::from_secs(20);
/// Pods that do not go to nodes that are there for them are looked at so often at least.
const NOMINATED_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// What could not be planned at once is planned by the next turn: at once if this one changed anything, else after this, as
/// upstream tries again (spec/scheduling §10).
const AFTER_NOTHING: SignedDuration = SignedDuration::from_secs(10);
/// A node takes a minute or two; what waits for longer than this is counted for an alarm.
const WAITS_LONG: SignedDuration = SignedDuration::from_mins(10);
/// Pods that wait for the account's cap are looked at so often: other clusters may have made room.
const ROOM_ELSEWHERE: SignedDuration = SignedDuration::from_mins(2);
/// What the checker refused is planned again after this: it may have been about to change.
const AFTER_REFUSAL: SignedDuration = SignedDuration::from_mins(1);
/// A turn that lost every race for the generation tries again after this.
const AFTER_LOSING: SignedDuration = SignedDuration::from_secs(5);
/// A NodeClaim that should have registered is deleted within this, which is told, unless something refuses.
const ENDED_WITHIN: SignedDuration = SignedDuration::from_mins(1);

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<Done, TurnError> {
    let mut report = turn.report();
    let mut observed = look(turn).await?;
    let builder = turn
        .world
        .launches
        .prepare(turn.cluster, &turn.meta.registry)
        .await?;
    // C4: what was left, and pods that wait, are seen to when a pause is over.
    let paused = turn.meta.paused(PauseLevel::All, turn.now);
    if let Some(end) = Pause::next_end(&observed.snapshot.pauses, turn.now) {
        report.look_again(end);
    }
    if turn.may_act()
        && paused.is_none()
        && take_over(turn, &observed, &*builder, &mut report).await?
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

/// Goes on with launches that a turn left. Says whether there were any.
async fn take_over(
    turn: &Turn<'_>,
    observed: &Observed,
    builder: &dyn LaunchBuilder,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let executor = turn.executor();
    let mut intents = observed.snapshot.intents.iter();
    let facts = LaunchFacts {
        builder,
        classes: &observed.classes,
        overlaid: planner::overlaid_types(&observed.snapshot),
        free_addresses: if intents.any(Intent::is_in_flight) {
            addresses::free(turn, observed, report).await?
        } else {
            FreeAddresses::default()
        },
        existing: BTreeMap::new(),
    };
    let (intents, pauses) = (&observed.snapshot.intents, &observed.snapshot.pauses);
    let held = Pause::node_pools(pauses, PauseLevel::All, turn.now);
    let outcome = executor.resume(intents, &held, &facts).await?;
    let any = !(outcome.launched.is_empty()
        && outcome.failed.is_empty()
        && outcome.unfinished.is_empty());
    finish(turn, &outcome, report).await?;
    events::post(turn, &outcome.events, report).await;
    if let Some(lease) = next_lapse(&observed.snapshot, turn) {
        report.look_again(lease);
    }
    if !outcome.problems.is_empty() {
        // What could not be finished is held by this turn until then.
        report.look_again(executor.lease().until);
    }
    Ok(any)
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
    describe(observed, &checked, report);
    if report.waiting.is_some() {
        report.metrics.push(metrics::of_planning(turn.lane, took));
    }
    report.shadowed = shadow::launches(snapshot, turn.world.share);
    if !checked.refused.is_empty() {
        report.look_again(turn.now + AFTER_REFUSAL);
    }
    let mut plan = checked.plan;
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
    let approval = approval::launches(turn, observed, &mut plan, report).await?;
    let recheck = |snapshot: &Snapshot, plan: Plan| plancheck::filter(snapshot, plan).plan;
    let executor = turn.executor();
    let planned = plan.clone();
    let commitment = executor.commit(snapshot, plan, None, &recheck).await?;
    if !matches!(commitment, Commitment::Made(_))
        && let Some(approval) = approval
    {
        approval::give_back(turn, approval).await?;
    }
    // Committing gives NodeClaims their names.
    report.plan(match &commitment {
        Commitment::Made(made) => &made.plan.actions,
        Commitment::Nothing | Commitment::Stopped(_) | Commitment::Lost => &planned.actions,
    });
    let (plan, outcome) = match commitment {
        Commitment::Nothing => (planned, executor::Outcome::default()),
        Commitment::Stopped(stop) => {
            report.stopped = Some(stop.to_string());
            if let Stop::Paused { .. } = stop {
                // It began after this turn had looked, and says only now until when.
                report.look_again(turn.world.clock.now());
                let waits = Plan {
                    unplaced: planned.unplaced,
                    ..Plan::default()
                };
                let said = events::of_plan(&waits, &snapshot.node_pools, turn.now);
                events::post(turn, &said, report).await;
            }
            return Ok(false);
        }
        Commitment::Lost => {
            report
                .problems
                .push("every race for the generation was lost".into());
            report.look_again(turn.world.clock.now() + AFTER_LOSING);
            return Ok(false);
        }
        Commitment::Made(made) => {
            report.committed = Some(made.generation);
            let counted = metrics::of_launches(&made.plan, metrics::PROVISIONED);
            report.metrics.extend(counted);
            if !made.plan.postponed.is_empty() {
                report.look_again(turn.world.clock.now());
            }
            let facts = LaunchFacts {
                builder,
                classes: &observed.classes,
                overlaid: planner::overlaid_types(snapshot),
                free_addresses: if made.intents.is_empty() {
                    FreeAddresses::default()
                } else {
                    addresses::free(turn, observed, report).await?
                },
                existing: BTreeMap::new(),
            };
            (made.plan, executor.launch(made.intents, &facts).await)
        }
    };
    finish(turn, &outcome, report).await?;
    let said: Vec<_> = events::of_plan(&plan, &snapshot.node_pools, turn.now)
        .into_iter()
        .chain(outcome.events.clone())
        .collect();
    events::post(turn, &said, report).await;
    Ok(outcome.failed.iter().any(|failed| !failed.pods.is_empty()))
}

/// Reports what came of launching, and sees to what is left of it.
async fn finish(
    turn: &Turn<'_>,
    outcome: &executor::Outcome,
    report: &mut Report,
) -> Result<(), TurnError> {
    report.take(outcome);
    if !outcome.unfinished.is_empty() {
        report.look_again(turn.executor().lease().until);
    }
    if !outcome.launched.is_empty() {
        turn.wake(Lane::Lifecycle, "launched").await?;
    }
    Ok(())
}

/// When the next lease on a launch under way lapses.
fn next_lapse(snapshot: &Snapshot, turn: &Turn<'_>) -> Option<Timestamp> {
    let leases = snapshot
        .intents
        .iter()
        .filter(|intent| intent.is_in_flight())
        .filter_map(|intent| intent.lease.as_ref());
    leases
        .map(|lease| lease.until)
        .filter(|until| *until > turn.now)
        .min()
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

fn describe(observed: &Observed, checked: &plancheck::Checked, report: &mut Report) {
    seen(observed, report);
    report.refuse(&checked.refused);
    report.postponed = checked.plan.postponed.len();
    report.troubles.waiting = waiting_long(observed);
    // Of the last round only.
    report.limited.clear();
    for unplaced in &checked.plan.unplaced {
        if unplaced.reasons.iter().any(|refusal| refusal.limited) {
            let why = events::reasons(unplaced);
            let key = &unplaced.pod.key;
            let text = format!("{key}: {why}");
            report
                .limited
                .push(Line::new(text, [Subject::Pod(key.clone())]));
        }
    }
    let plan = &checked.plan;
    if !(plan.unplaced.is_empty() && plan.nominations.is_empty() && plan.actions.is_empty()) {
        report.waiting = Some(Waiting {
            unplaced: plan.unplaced.len(),
            pending: planner::pending_pods(&observed.snapshot),
        });
    }
    report.unplaced = unplaced(&checked.plan).collect();
    report.expected = expected(&checked.plan).collect();
}

/// Pods without a place, a line for those with the same reasons.
fn unplaced(plan: &Plan) -> impl Iterator<Item = Line> {
    let mut alike: BTreeMap<String, Vec<&PodKey>> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        let why = events::reasons(unplaced);
        alike.entry(why).or_default().push(&unplaced.pod.key);
    }
    alike.into_iter().map(|(why, pods)| {
        let text = format!("{}: {why}", names(pods.iter()));
        Line::new(text, pods.into_iter().cloned().map(Subject::Pod))
    })
}

/// Where pods are expected without anything being bought, a line for each node.
fn expected(plan: &Plan) -> impl Iterator<Item = Line> {
    let mut nodes: BTreeMap<Subject, Vec<&PodKey>> = BTreeMap::new();
    for nomination in &plan.nominations {
        let node = Subject::from(&nomination.node);
        nodes.entry(node).or_default().push(&nomination.pod.key);
    }
    nodes.into_iter().map(|(node, pods)| {
        let text = format!("expect {} on {node}", names(pods.iter()));
        let pods = pods.into_iter().cloned().map(Subject::Pod);
        Line::new(text, [node].into_iter().chain(pods))
    })
}

/// Pods that ask for a node and have for so long that somebody should look.
fn waiting_long(observed: &Observed) -> u64 {
    let now = observed.snapshot.now;
    let pods = observed.snapshot.pods.iter();
    let long = pods.filter(|pod| {
        let since = pod.created_at.map(|at| now.duration_since(at));
        planner::is_provisionable(pod) && since.is_some_and(|since| since >= WAITS_LONG)
    });
    u64::try_from(long.count()).unwrap_or(u64::MAX)
}

/// What the snapshot amounted to.
pub(crate) fn seen(observed: &Observed, report: &mut Report) {
    report.generation = observed.snapshot.generation;
    report.pods = observed.snapshot.pods.len();
    report.nodes = observed.snapshot.nodes.len();
    report.node_claims = observed.snapshot.node_claims.len();
    report.reads.pods = observed.view.map_or(PodsFrom::ApiServer, PodsFrom::View);
    report.problems.extend(observed.problems.iter().cloned());
    let of_gates = observed.gated.complaints.iter();
    report.complaints = observed
        .price_complaints
        .iter()
        .chain(&observed.doubt)
        .chain(of_gates)
        .cloned()
        .collect();
}
