//! Committing and carrying out plans of launches, and resuming launches that another turn left.

use std::collections::BTreeMap;

use executor::{CommitOutcome, LaunchInputs, StopReason};
use jiff::Timestamp;
use model::{
    FreeAddresses, Lane, Plan, Snapshot,
    ledger::{Intent, Pause, PauseLevel},
};
use ports::LaunchBuilder;

use crate::{
    Report, TurnError,
    act::{addresses, approval},
    context::Turn,
    lanes::RETRY_AFTER_LOST_RACE,
    observe::Observed,
    report::{Step, events, metrics},
};

/// Commits a plan, unless it waits for approval, and carries it out. Returns whether to plan again.
pub(super) async fn commit(
    turn: &Turn<'_>,
    observed: &Observed,
    mut plan: Plan,
    builder: &dyn LaunchBuilder,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let snapshot = &observed.snapshot;
    let approval = approval::hold_unapproved_launches(turn, observed, &mut plan, report).await?;
    let recheck = |snapshot: &Snapshot, plan: Plan| plancheck::filter(snapshot, plan).plan;
    let executor = turn.executor();
    let planned = plan.clone();
    let commitment = executor.commit(snapshot, plan, None, &recheck).await?;
    if !matches!(commitment, CommitOutcome::Committed(_))
        && let Some(approval) = approval
    {
        approval::return_approval(turn, approval).await?;
    }
    // Committing gives NodeClaims their names.
    report.plan(match &commitment {
        CommitOutcome::Committed(committed) => &committed.plan.actions,
        CommitOutcome::Nothing | CommitOutcome::Stopped(_) | CommitOutcome::Lost => {
            &planned.actions
        }
    });
    let (plan, outcome) = match commitment {
        CommitOutcome::Nothing => (planned, executor::ExecutionOutcome::default()),
        CommitOutcome::Stopped(stop) => {
            report.stopped = Some(stop.to_string());
            if let StopReason::Paused { .. } = stop {
                // The pause began after this turn had read the cluster; the next turn reads its end.
                report.run_again_at(turn.world.clock.now());
                let waits = Plan {
                    unplaced: planned.unplaced,
                    ..Plan::default()
                };
                let emitted = events::of_plan(&waits, &snapshot.node_pools, turn.now);
                events::post(turn, &emitted, report).await;
            }
            return Ok(false);
        }
        CommitOutcome::Lost => {
            report
                .problems
                .push("other turns committed plans first at every attempt".into());
            report.run_again_at(turn.world.clock.now() + RETRY_AFTER_LOST_RACE);
            return Ok(false);
        }
        CommitOutcome::Committed(committed) => {
            report.committed = Some(committed.generation);
            report.end_step(Step::Committed, turn.world.clock.now());
            let counted = metrics::of_launches(&committed.plan, metrics::PROVISIONED);
            report.metrics.extend(counted);
            if !committed.plan.postponed.is_empty() {
                report.run_again_at(turn.world.clock.now());
            }
            let facts = LaunchInputs {
                builder,
                classes: &observed.classes,
                overlaid: planner::overlaid_types(snapshot),
                free_addresses: if committed.intents.is_empty() {
                    FreeAddresses::default()
                } else {
                    addresses::free(turn, observed, report).await?
                },
                existing: BTreeMap::new(),
            };
            let outcome = executor.launch(committed.intents, &facts).await;
            report.end_step(Step::Launched, turn.world.clock.now());
            (committed.plan, outcome)
        }
    };
    report_outcome(turn, &outcome, report).await?;
    let emitted: Vec<_> = events::of_plan(&plan, &snapshot.node_pools, turn.now)
        .into_iter()
        .chain(outcome.events.clone())
        .collect();
    events::post(turn, &emitted, report).await;
    Ok(outcome.failed.iter().any(|failed| !failed.pods.is_empty()))
}

/// Resumes launches that another turn left. Returns whether there were any.
pub(super) async fn take_over(
    turn: &Turn<'_>,
    observed: &Observed,
    builder: &dyn LaunchBuilder,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let executor = turn.executor();
    let mut intents = observed.snapshot.intents.iter();
    let facts = LaunchInputs {
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
    report_outcome(turn, &outcome, report).await?;
    events::post(turn, &outcome.events, report).await;
    if let Some(lease) = next_lease_lapse(&observed.snapshot, turn) {
        report.run_again_at(lease);
    }
    if !outcome.problems.is_empty() {
        // This turn holds unfinished launches until then.
        report.run_again_at(executor.lease().until);
    }
    Ok(any)
}

/// Reports the outcome of launches, and schedules a turn for unfinished ones.
async fn report_outcome(
    turn: &Turn<'_>,
    outcome: &executor::ExecutionOutcome,
    report: &mut Report,
) -> Result<(), TurnError> {
    report.take_outcome(outcome);
    if !outcome.unfinished.is_empty() {
        report.run_again_at(turn.executor().lease().until);
    }
    if !outcome.launched.is_empty() {
        turn.wake(Lane::Lifecycle, "launched").await?;
    }
    Ok(())
}

/// Time at which the next lease on a launch under way lapses.
fn next_lease_lapse(snapshot: &Snapshot, turn: &Turn<'_>) -> Option<Timestamp> {
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
