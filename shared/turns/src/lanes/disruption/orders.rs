//! From a decided command to a row in the ledger, and from there to launches.

use std::collections::BTreeMap;

use executor::{CommitOutcome, CommittedPlan, DisruptionOrder, Executor, ProposalOutcome};
use jiff::SignedDuration;
use model::{
    Action, Lane, Plan, Snapshot,
    journal::Line,
    ledger::{Choice, CommandState, Method},
    plan::Planned,
};
use planner::Command;

use super::{commands, messages};
use crate::{
    Report, TurnError,
    act::{adopt, launching::launch, nominate::nominate, refusals},
    context::Turn,
    lanes::RETRY_AFTER_LOST_RACE,
    observe::Observed,
    report::{events, metrics, subjects::subjects},
};

/// Reason for rolling back a command whose nodes cannot be tainted: pods would be scheduled to them until they go, and their
/// replacements would run beside them until then.
const MARKS_REFUSED: &str =
    "the API server refuses the taint or the condition of a node to be disrupted";

/// Upper bound on the time an executor acts. An evaluation may take minutes; the work that it begins is released to other turns as
/// soon as if the provisioner had begun it.
const ACTING_TIME_MAX: SignedDuration = SignedDuration::from_secs(50);

pub(super) fn bounded_executor<'a>(turn: &'a Turn<'_>) -> Executor<'a> {
    let executor = turn.executor();
    let latest = turn.world.clock.now() + ACTING_TIME_MAX;
    Executor {
        deadline: executor.deadline.min(latest),
        ..executor
    }
}

/// The command as a plan that passes the independent check. Emptiness may lose some of its nodes; every other command passes as
/// a whole or not at all.
pub(super) fn checked(observed: &Observed, command: &Command, report: &mut Report) -> Option<Plan> {
    let mut plan = command.plan();
    for planned in &mut plan.actions {
        if let Action::Launch(launch) = &mut planned.action {
            // A static NodePool names no instance types: all types that its NodeClass and its template allow count.
            let class = observed.classes.get(&launch.spec.node_class.name);
            if let Some(class) = class.filter(|_| launch.instance_types.is_empty()) {
                let surcharge = observed.snapshot.surcharge_of(Some(&launch.node_pool));
                (launch.instance_types, launch.cheapest) =
                    adopt::instance_type_options(&launch.spec, class, surcharge);
            }
        }
    }
    let checked = plancheck::filter(&observed.snapshot, plan);
    report.refuse(&checked.refused);
    let whole = checked.refused.is_empty();
    let some = command.method == Method::Emptiness && !checked.plan.actions.is_empty();
    (whole || some).then_some(checked.plan)
}

/// Records a proposal that is validated later.
pub(super) async fn propose(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    command: &Command,
    plan: &Plan,
    report: &mut Report,
) -> Result<(), TurnError> {
    let executor = Executor {
        deadline: bounded_executor(turn).deadline,
        ..*executor
    };
    let now = turn.world.clock.now();
    let validate_at = now + planner::validation_wait(&observed.snapshot, command);
    let order = order(command, Some(validate_at));
    let actions = plan.actions.iter();
    let delete = actions.filter_map(|planned| planned.action.deletion().cloned());
    let generation = observed.snapshot.generation;
    match executor
        .propose(&order, delete.collect(), generation)
        .await?
    {
        ProposalOutcome::Recorded(proposal) => {
            report.committed = Some(generation + 1);
            let names = messages::names_of(&proposal.delete);
            let text = format!(
                "{} of {names}, to be validated at {validate_at:.0}: {}",
                proposal.reason, command.because
            );
            report
                .proposed
                .push(messages::journal_line(text, &proposal.delete));
            report.run_again_at(validate_at);
        }
        ProposalOutcome::Lost => report.run_again_at(now + RETRY_AFTER_LOST_RACE),
        ProposalOutcome::Stopped(stop) => {
            report.stopped = Some(stop.to_string());
            report.run_again_at(now + RETRY_AFTER_LOST_RACE);
        }
    }
    Ok(())
}

/// Commits a command, marks its nodes and launches their replacements. Returns whether it was committed.
pub(super) async fn commit_and_start(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    command: &Command,
    plan: Plan,
    report: &mut Report,
) -> Result<bool, TurnError> {
    // The time limit counts from now, because the evaluation may have taken long.
    let executor = Executor {
        deadline: bounded_executor(turn).deadline,
        ..*executor
    };
    let recheck = |snapshot: &Snapshot, plan: Plan| plancheck::filter(snapshot, plan).plan;
    let order = order(command, None);
    let commitment = executor
        .commit(&observed.snapshot, plan, Some(&order), &recheck)
        .await?;
    let retry_at = turn.world.clock.now() + RETRY_AFTER_LOST_RACE;
    match commitment {
        CommitOutcome::Nothing => {
            let problem = format!(
                "{}: not started: its plan is no longer valid",
                command.because
            );
            report
                .proposed
                .push(messages::journal_line(problem, command.targets()));
            report.run_again_at(retry_at);
            Ok(false)
        }
        CommitOutcome::Stopped(stop) => {
            report.stopped = Some(stop.to_string());
            report.run_again_at(retry_at);
            Ok(false)
        }
        CommitOutcome::Lost => {
            let problem = "other turns committed plans first at every attempt";
            report.problems.push(problem.into());
            report.run_again_at(retry_at);
            Ok(false)
        }
        CommitOutcome::Committed(committed) => {
            report.committed = Some(committed.generation);
            let about = subjects(command);
            let decided = committed.command.iter();
            let decided =
                decided.flat_map(|command| metrics::of_decision(&observed.snapshot, command));
            let decided: Vec<_> = decided.collect();
            let text = format!("{} is committed", command.because);
            report.proposed.push(Line::new(text, about.clone()));
            // Deletions are reported when they are done.
            let launches = committed.plan.actions.iter();
            let launches = launches.filter(|planned| matches!(planned.action, Action::Launch(_)));
            report.plan(&launches.cloned().collect::<Vec<_>>());
            if start_command(turn, &executor, observed, *committed, report).await? {
                let because = command.because.clone();
                report.disrupted.push(Line::new(because, about));
                report.metrics.extend(decided);
            }
            Ok(true)
        }
    }
}

/// Carries out the first steps of a command that was just committed: its nodes are marked before anything is launched. Returns
/// whether it continues; a command whose nodes refuse their marks is rolled back.
async fn start_command(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    committed: CommittedPlan,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let now = turn.world.clock.now();
    nominate(turn, &committed.plan).await?;
    let snapshot = &mut observed.snapshot;
    snapshot.intents.extend(committed.intents.iter().cloned());
    snapshot.commands.extend(committed.command.iter().cloned());
    let id = committed.command.as_ref().map(|command| &command.id);
    let steps = planner::advance(&observed.snapshot);
    for (command, step) in steps.iter().filter(|(command, _)| Some(&command.id) == id) {
        let result = commands::advance(turn, executor, observed, command, step, report).await?;
        let refused = result.refused.iter();
        let refused: Vec<&Planned> = refused.filter_map(|at| step.actions.get(*at)).collect();
        let only_marks = step.state == CommandState::Replacing && command.reboot.is_none();
        if only_marks && !refused.is_empty() {
            // Launches are withdrawn first: a turn that ends in between leaves a command whose replacements never come.
            executor.withdraw(&committed.intents, MARKS_REFUSED).await?;
            commands::roll_back(turn, command, MARKS_REFUSED, report).await?;
            refusals::record_refused_marks(turn, &observed.snapshot, command, &refused).await?;
            report.run_again_at(turn.world.clock.now());
            return Ok(false);
        }
    }
    let reason = committed
        .command
        .iter()
        .map(|command| command.reason.to_lowercase());
    for reason in reason {
        let created = metrics::of_launches(&committed.plan, &reason);
        report.metrics.extend(created);
    }
    let mut emitted = events::of_plan(&committed.plan, &observed.snapshot.node_pools, turn.now);
    if committed.intents.is_empty() {
        report.run_again_at(now);
    } else {
        let existing = BTreeMap::new();
        let outcome = launch(
            turn,
            executor,
            observed,
            committed.intents,
            existing,
            report,
        )
        .await?;
        emitted.extend(outcome.events.iter().cloned());
        if !outcome.failed.is_empty() {
            // Nodes that cannot be replaced stay.
            report.run_again_at(turn.world.clock.now());
        }
        if !outcome.unfinished.is_empty() {
            report.run_again_at(executor.lease().until);
        }
        if !outcome.launched.is_empty() {
            turn.wake(Lane::Lifecycle, "launched").await?;
        }
    }
    events::post(turn, &emitted, report).await;
    Ok(true)
}

fn order(command: &Command, validate_at: Option<jiff::Timestamp>) -> DisruptionOrder {
    let replacements = command.replacements.iter();
    let mut types = replacements.map(|replacement| replacement.instance_types.clone());
    DisruptionOrder {
        reason: command.reason.as_str().to_owned(),
        choice: Choice {
            method: command.method,
            validate_at,
            instance_types: types.next().unwrap_or_default(),
            others: types.collect(),
            wanted: command.wanted.clone(),
            evicts: command.evicts.clone(),
            repair: command.repair.clone(),
            terminate_first: command.terminate_first,
            freed: command.freed.clone(),
        },
    }
}
