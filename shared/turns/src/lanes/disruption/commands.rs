//! Open commands, each advanced by one step from the state that the ledger holds (docs/protocol.md#d1).

use std::collections::BTreeSet;

use executor::Executor;
use model::{
    Lane,
    ledger::{Command, CommandState},
};
use planner::Advance;
use ports::ledger::Moved;

use super::messages;
use crate::{
    Report, TurnError,
    act::{apply::apply, refusals},
    context::Turn,
    lanes::RETRY_AFTER_LOST_RACE,
    observe::Observed,
    report::{events, metrics},
};

/// Upper bound on commands forgotten per turn: each costs a call. Later turns forget the rest.
const FORGOTTEN_MAX: usize = 100;

/// Advances every open command by one step, removes marks without a command, and forgets completed commands. Returns
/// whether anything changed.
pub(super) async fn drive(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let marks = planner::forgotten_marks(&observed.snapshot);
    report.plan(&marks);
    let applied = apply(turn, executor, observed, &marks, report).await?;
    events::post(turn, &applied.events, report).await;
    let mut changed = applied.acted;
    let mut steps = planner::advance(&observed.snapshot);
    for (_, step) in &mut steps {
        let retry_at =
            refusals::drop_refused_deletions(turn, &observed.snapshot, &mut step.actions);
        if let Some(retry_at) = retry_at.await? {
            step.due = Some(retry_at);
        }
    }
    for (command, step) in steps {
        let result = advance(turn, executor, observed, command, &step, report).await?;
        changed |= result.changed;
    }
    for command in planner::spent(&observed.snapshot).take(FORGOTTEN_MAX) {
        let ledger = &turn.world.ledger;
        ledger.forget_command(turn.cluster, command).await?;
    }
    Ok(changed)
}

#[derive(Default)]
pub(super) struct StepResult {
    pub(super) changed: bool,
    /// Indexes of the step's actions that an object refused.
    pub(super) refused: BTreeSet<usize>,
}

/// Records the new state first, then carries out its actions: a later turn finds the remaining actions in the ledger or on the
/// nodes.
pub(super) async fn advance(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    command: &Command,
    step: &Advance,
    report: &mut Report,
) -> Result<StepResult, TurnError> {
    let mut changed = false;
    if step.state != command.state {
        let ledger = &turn.world.ledger;
        let moved = ledger
            .move_command(turn.cluster, command, step.state)
            .await?;
        if moved == Moved::No {
            // Another turn advances the command.
            report.run_again_at(turn.world.clock.now() + RETRY_AFTER_LOST_RACE);
            return Ok(StepResult::default());
        }
        changed = true;
        if step.state == CommandState::RolledBack {
            report.metrics.extend(metrics::of_rollback(command));
        }
    }
    if !step.initialized.is_empty() {
        let ledger = &turn.world.ledger;
        ledger
            .note_initialized(turn.cluster, command, &step.initialized)
            .await?;
    }
    let about = messages::names_of(command.targets());
    let problems = step.problems.iter();
    let problems = problems.map(|problem| {
        let text = format!("{} of {about}: {problem}", command.reason);
        messages::journal_line(text, command.targets())
    });
    if step.state == CommandState::RolledBack {
        report.failed.extend(problems);
    } else {
        report.proposed.extend(problems);
    }
    report.plan(&step.actions);
    let applied = apply(turn, executor, observed, &step.actions, report).await?;
    refusals::record_refused_deletions(turn, &observed.snapshot, &step.actions, &applied).await?;
    let deleted = applied.done.iter().filter_map(|index| {
        let name = &step.actions.get(*index)?.action.deletion()?.name;
        let mut claims = observed.snapshot.node_claims.iter();
        claims.find(|claim| claim.name == *name)
    });
    let counted = deleted.flat_map(|claim| metrics::of_command(&observed.snapshot, command, claim));
    report.metrics.extend(counted);
    if applied.deleted_claims || command.reboot.is_some() && applied.acted {
        turn.wake(Lane::Terminator, "disrupted").await?;
    }
    // An object that refuses is tried again when its own backoff ends.
    if let Some(due) = step.due.filter(|_| applied.refused.is_empty()) {
        report.run_again_at(due);
    }
    let emitted = events::of_notes(&step.notes, turn.now);
    let emitted: Vec<_> = emitted.into_iter().chain(applied.events).collect();
    events::post(turn, &emitted, report).await;
    Ok(StepResult {
        changed: changed || applied.acted,
        refused: applied.refused,
    })
}

/// Rolls back a command that has begun nothing yet. The next turn removes the marks that it left.
pub(super) async fn roll_back(
    turn: &Turn<'_>,
    command: &Command,
    why: &str,
    report: &mut Report,
) -> Result<(), TurnError> {
    let ledger = &turn.world.ledger;
    let state = CommandState::RolledBack;
    let moved = ledger.move_command(turn.cluster, command, state).await?;
    if moved == Moved::Yes {
        report.metrics.extend(metrics::of_rollback(command));
        let about = messages::names_of(command.targets());
        let text = format!("{} of {about}: {why}", command.reason);
        report
            .failed
            .push(messages::journal_line(text, command.targets()));
    }
    Ok(())
}
