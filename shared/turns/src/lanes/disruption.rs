//! Disruption of nodes under budgets: a command is decided, validated, its replacements are launched, then its nodes are
//! deleted. Every step is a row in the ledger with a due time; no turn waits for anything
//! (docs/spec/lifecycle.md#disruption-loop, docs/spec/lifecycle.md#orchestration).

mod commands;
mod deletion_costs;
mod evidence;
mod messages;
mod orders;

use std::collections::BTreeSet;

use executor::Executor;
use jiff::SignedDuration;
use model::{
    NodeClaimName, Plan,
    journal::{Line, Subject},
    ledger::{Command, CommandState, Cursor, Method},
    snapshot::Optimize,
};
use planner::DisruptionResult;

use crate::{
    Report, TurnError,
    act::{approval, refusals},
    context::Turn,
    lanes::{RETRY_AFTER_LOST_RACE, TurnResult, record_snapshot, shadow},
    observe::{Observed, PodScope, observe},
    report::{events, metrics},
};

/// Delay after a rejected validation before the next evaluation, as in Karpenter's loop.
const RETRY_AFTER_REJECTION: SignedDuration = SignedDuration::from_secs(10);
/// Age of the oldest waiting proposal from which no further one is added: each is older than that when the oldest is validated, so
/// that all end within two validation periods, and the next search comes to repair, drift and consolidation. The relay's wakes
/// are up to five seconds apart.
const ADDED_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Most proposals of empty nodes that wait for their validation at the same time: each is a row that every turn reads.
const PROPOSALS_MAX: usize = 8;
/// Upper bound on evaluations in one turn, if the check refuses commands.
const EVALUATIONS_MAX: usize = 4;

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<TurnResult, TurnError> {
    let mut report = turn.report();
    let Evaluation {
        mut observed,
        result,
    } = observe_and_evaluate(turn, &mut report).await?;
    // An evaluation that continues from a cursor does not revisit the nodes evaluated before it: later changes are left
    // to the evaluation that starts afresh.
    let began = !turn.cursor.as_ref().is_some_and(Cursor::is_unfinished);
    let mut cursor = turn.cursor.clone();
    let counter = observed.counter.clone();
    let (intents, commands) = (
        observed.snapshot.intents.len(),
        observed.snapshot.commands.len(),
    );
    record_snapshot(&observed, &mut report);
    let executor = orders::bounded_executor(turn);
    let stop = match turn.may_act() {
        true => executor.may_act().await?.map(|stop| stop.to_string()),
        false => Some("the cluster is not active: nothing was done".to_owned()),
    };
    if let Some(stop) = stop {
        let result = result.unwrap_or_else(|| evaluate(turn, &observed, &BTreeSet::new()));
        for command in &result.commands {
            report.plan(&command.plan().actions);
        }
        report.stopped = Some(stop);
        if turn.may_act() {
            report.run_again_at(turn.world.clock.now() + RETRY_AFTER_LOST_RACE);
        }
        cursor = schedule_continuation(turn, &result, &mut report);
    } else if commands::drive(turn, &executor, &observed, &mut report).await? {
        // The evaluated snapshot is outdated: the next turn observes afresh.
        report.run_again_at(turn.world.clock.now());
    } else {
        validate_or_search(
            turn,
            &executor,
            &mut observed,
            result,
            &mut cursor,
            &mut report,
        )
        .await?;
        deletion_costs::write(turn, &observed.snapshot, &mut report).await?;
    }
    // The evaluation did not see commands that were begun since.
    let mut snapshot = observed.snapshot;
    snapshot.intents.truncate(intents);
    snapshot.commands.truncate(commands);
    Ok(TurnResult {
        report,
        full_look: began.then_some(counter),
        snapshot: Some(snapshot),
        cursor,
    })
}

/// An observed cluster, and the result of its evaluation if that was computed already.
struct Evaluation {
    observed: Observed,
    result: Option<DisruptionResult>,
}

/// Observes the cluster. The relay's view suffices to find that there is nothing to do; commands are begun and continued only
/// on what the API server itself returns.
async fn observe_and_evaluate(
    turn: &Turn<'_>,
    report: &mut Report,
) -> Result<Evaluation, TurnError> {
    let observed = observe_with_cursor(turn, PodScope::AsPublished, report).await?;
    if observed.view.is_none() {
        return Ok(Evaluation {
            observed,
            result: None,
        });
    }
    if observed.snapshot.commands.is_empty() {
        let result = evaluate(turn, &observed, &BTreeSet::new());
        if result.commands.is_empty() {
            return Ok(Evaluation {
                observed,
                result: Some(result),
            });
        }
    }
    let observed = observe_with_cursor(turn, PodScope::All, report).await?;
    Ok(Evaluation {
        observed,
        result: None,
    })
}

/// Observes the cluster and adds the cursor of the lane's last evaluation.
async fn observe_with_cursor(
    turn: &Turn<'_>,
    pods: PodScope,
    report: &mut Report,
) -> Result<Observed, TurnError> {
    let mut observed = observe(turn, pods).await?;
    evidence::exchange_failures(turn, &mut observed, report).await?;
    observed.snapshot.cursor.clone_from(&turn.cursor);
    Ok(observed)
}

/// Evaluates which nodes to disrupt, except these NodeClaims.
fn evaluate(
    turn: &Turn<'_>,
    observed: &Observed,
    excluded: &BTreeSet<NodeClaimName>,
) -> DisruptionResult {
    planner::disrupt_within(&observed.snapshot, turn.world.share, excluded)
}

/// Validates the proposal that is due first, or searches for a new command. While a proposal waits, nothing else is begun than the
/// removal of nodes that become empty.
async fn validate_or_search(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    result: Option<DisruptionResult>,
    cursor: &mut Option<Cursor>,
    report: &mut Report,
) -> Result<(), TurnError> {
    let proposals = observed.snapshot.commands.iter();
    let proposals = proposals.filter(|command| command.state == CommandState::Proposed);
    let due_of = |command: &Command| command.choice.as_ref()?.validate_at;
    let first =
        proposals.min_by_key(|command| (due_of(command), command.committed_at, &command.id));
    let Some(proposal) = first.cloned() else {
        *cursor = search_commands(turn, executor, observed, result, report).await?;
        return Ok(());
    };
    match due_of(&proposal).filter(|due| *due > observed.snapshot.now) {
        Some(due) => {
            report.run_again_at(due);
            propose_newly_empty(turn, executor, observed, report).await
        }
        None => {
            let commands = observed.snapshot.commands.iter();
            let others = commands.filter(|command| {
                command.state == CommandState::Proposed && command.id != proposal.id
            });
            if let Some(next) = others.filter_map(due_of).min() {
                report.run_again_at(next);
            }
            validate(turn, executor, observed, &proposal, report).await
        }
    }
}

/// Proposes nodes that became empty while others wait for their validation. With `optimize: upstream`, they wait for those.
async fn propose_newly_empty(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    let commands = observed.snapshot.commands.iter();
    let proposals: Vec<&Command> = commands
        .filter(|command| command.state == CommandState::Proposed)
        .collect();
    let is_emptiness = |proposal: &&Command| {
        let choice = proposal.choice.as_ref();
        choice.is_some_and(|choice| choice.method == Method::Emptiness)
    };
    let oldest = proposals.iter().map(|proposal| proposal.committed_at).min();
    let is_late = oldest.is_none_or(|at| observed.snapshot.now.duration_since(at) >= ADDED_WITHIN);
    if is_late
        || observed.snapshot.settings.optimize == Optimize::Upstream
        || proposals.len() >= PROPOSALS_MAX
        || !proposals.iter().all(is_emptiness)
    {
        return Ok(());
    }
    let targets = proposals.iter().flat_map(|proposal| &proposal.delete);
    let proposed: BTreeSet<NodeClaimName> = targets.map(|target| target.name.clone()).collect();
    let refusing = refusals::refusing_node_claims(turn, &observed.snapshot).await?;
    for command in planner::newly_empty(&observed.snapshot, &proposed, &refusing.claims) {
        if approval::holds_disruption(turn, observed, &command, report).await? {
            continue;
        }
        if let Some(plan) = orders::checked(observed, &command, report) {
            orders::propose(turn, executor, observed, &command, &plan, report).await?;
        }
    }
    Ok(())
}

/// Validates a proposal: commits its remaining nodes, or rolls it back.
async fn validate(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    proposal: &Command,
    report: &mut Report,
) -> Result<(), TurnError> {
    let begun_at = turn.world.clock.now();
    let validated = planner::validate(&observed.snapshot, proposal);
    let took = turn.world.clock.now().duration_since(begun_at);
    report.metrics.push(metrics::of_planning(turn.lane, took));
    let (state, emitted) = match validated {
        Ok(command) => match orders::checked(observed, &command, report) {
            Some(plan) => {
                let started =
                    orders::commit_and_start(turn, executor, observed, &command, plan, report);
                match started.await? {
                    true => (CommandState::Done, Vec::new()),
                    false => (CommandState::RolledBack, Vec::new()),
                }
            }
            None => (CommandState::RolledBack, Vec::new()),
        },
        Err(rejection) => {
            let text = format!(
                "command for {} of {} rolled back: {} ({})",
                proposal.reason,
                messages::names_of(&proposal.delete),
                rejection.message,
                rejection.class
            );
            report
                .proposed
                .push(messages::journal_line(text, &proposal.delete));
            let method = proposal.choice.as_ref().map(|choice| choice.method);
            let counted = method.map(metrics::of_failed_validation);
            report.metrics.extend(counted);
            let emitted = messages::rejection_events(&observed.snapshot, proposal, &rejection);
            (CommandState::RolledBack, emitted)
        }
    };
    let ledger = &turn.world.ledger;
    ledger.move_command(turn.cluster, proposal, state).await?;
    if state == CommandState::RolledBack {
        report.run_again_at(turn.world.clock.now() + RETRY_AFTER_REJECTION);
    }
    events::post(turn, &emitted, report).await;
    Ok(())
}

/// Searches for commands and begins them. Returns the cursor of the next evaluation.
async fn search_commands(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    mut result: Option<DisruptionResult>,
    report: &mut Report,
) -> Result<Option<Cursor>, TurnError> {
    let refusing = refusals::refusing_node_claims(turn, &observed.snapshot).await?;
    if let Some(until) = refusing.until {
        report.run_again_at(until);
    }
    let mut excluded = refusing.claims;
    let mut cursor = None;
    for round in 0..EVALUATIONS_MAX {
        let begun_at = turn.world.clock.now();
        let result = match result.take() {
            Some(result) => result,
            None => evaluate(turn, observed, &excluded),
        };
        let took = turn.world.clock.now().duration_since(begun_at);
        // A cluster in which nothing happens publishes no series, because each costs.
        if let Some(first) = result.commands.first() {
            report.metrics.push(metrics::of_search(took, first));
            report.metrics.push(metrics::of_planning(turn.lane, took));
        }
        if round == 0 {
            if !result.commands.is_empty() {
                report.metrics.extend(metrics::of_judged(&result.judged));
            }
            let held = result.exhausted.iter();
            let held = held.map(|(pool, why)| {
                let about = Subject::NodePool(pool.clone());
                Line::new(format!("NodePool {pool}: {why}"), [about])
            });
            report.held_back.extend(held);
            report.shadowed = shadow::disruptions(&observed.snapshot, turn.world.share);
            let emitted = messages::evaluation_events(&observed.snapshot, &result);
            events::post(turn, &emitted, report).await;
            if let Some(due) = result.due {
                report.run_again_at(due);
            }
        }
        cursor = schedule_continuation(turn, &result, report);
        let (mut begun, mut refused) = (false, false);
        for command in &result.commands {
            if approval::holds_disruption(turn, observed, command, report).await? {
                refused = true;
                excluded.extend(command.targets().map(|target| target.name.clone()));
                continue;
            }
            match orders::checked(observed, command, report) {
                Some(plan) => {
                    begun = true;
                    begin_command(turn, executor, observed, command, plan, report).await?;
                }
                None => {
                    refused = true;
                    excluded.extend(command.targets().map(|target| target.name.clone()));
                }
            }
        }
        if begun || !refused {
            break;
        }
    }
    Ok(cursor)
}

/// Requests another turn immediately if this evaluation found no command and its cursor has not reached the end. Returns the cursor.
fn schedule_continuation(
    turn: &Turn<'_>,
    result: &DisruptionResult,
    report: &mut Report,
) -> Option<Cursor> {
    report.unconsidered = result.left;
    if result.commands.is_empty() && result.cursor.as_ref().is_some_and(Cursor::is_unfinished) {
        report.run_again_at(turn.world.clock.now());
    }
    result.cursor.clone()
}

/// Begins a command: consolidations are proposed and validated after a delay; repair and drift start immediately.
async fn begin_command(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    command: &planner::Command,
    plan: Plan,
    report: &mut Report,
) -> Result<(), TurnError> {
    match command.method {
        Method::Emptiness | Method::MultiNode | Method::SingleNode => {
            orders::propose(turn, executor, observed, command, &plan, report).await
        }
        Method::Repair | Method::StaticDrift | Method::Drift => {
            let started = orders::commit_and_start(turn, executor, observed, command, plan, report);
            started.await.map(drop)
        }
    }
}
