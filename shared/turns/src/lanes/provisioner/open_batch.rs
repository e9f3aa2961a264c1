//! A turn for pods of an open batch: nodes that are full with the pods that wait already are launched, and everything else
//! waits for the end of the batch (docs/scheduling.md#when-nodes-are-launched).

use model::ledger::PauseLevel;

use super::{launches, observe_with_spending};
use crate::{
    TurnError,
    context::Turn,
    lanes::{TurnResult, record_snapshot},
    report::Step,
};

/// Launches full nodes. The snapshot is not archived: that of the whole batch follows within seconds.
pub(super) async fn turn(turn: &Turn<'_>) -> Result<TurnResult, TurnError> {
    let mut report = turn.report();
    let observed = observe_with_spending(turn).await?;
    record_snapshot(&observed, &mut report);
    let is_paused = turn.meta.paused(PauseLevel::All, turn.now).is_some();
    // People approve whole batches.
    let is_approved = turn.entry.approve_above.is_unlimited();
    if turn.may_act() && !is_paused && is_approved {
        let clock = &turn.world.clock;
        report.end_step(Step::Observed, clock.now());
        let plan = planner::provision_full(&observed.snapshot, turn.world.share);
        let checked = plancheck::filter(&observed.snapshot, plan);
        report.end_step(Step::Planned, clock.now());
        report.refuse(&checked.refused);
        if !checked.plan.actions.is_empty() {
            let registry = &turn.meta.registry;
            let builder = turn.world.launches.prepare(turn.cluster, registry).await?;
            // Missing capacity is planned around at the end of the batch.
            launches::commit(turn, &observed, checked.plan, &*builder, &mut report).await?;
        }
    }
    Ok(TurnResult {
        report,
        full_look: None,
        snapshot: None,
        cursor: turn.cursor.clone(),
    })
}
