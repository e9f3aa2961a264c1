//! Disruption of nodes under budgets: a command is decided, validated, its replacements are launched, then its nodes are
//! deleted. Every step is a row in the ledger with a due time; no turn waits for anything
//! (docs/spec/lifecycle.md#disruption-loop, docs/spec/lifecycle.md#orchestration).

mod commands;
mod deletion_costs;
mod orders;
mod told;

pub(crate) use self::told::about;

use std::collections::BTreeSet;

use executor::Executor;
use jiff::SignedDuration;
use model::{
    NodeClaimName, Plan,
    journal::{Line, Subject},
    ledger::{Command, CommandState, Cursor, Method},
};
use planner::Pass;

use crate::{
    Report, TurnError, approval, events, evidence,
    lane::{Done, Turn},
    metrics,
    observe::{Observed, Pods, observe},
    provisioner::seen,
    refusals, shadow,
};

/// Delay after which a turn that lost every race for the generation tries again.
const AFTER_LOSING: SignedDuration = SignedDuration::from_secs(5);
/// Delay after a rejected validation before the next evaluation, as in Karpenter's loop.
const AFTER_REJECTING: SignedDuration = SignedDuration::from_secs(10);
/// Upper bound on evaluations in one turn, where the check refuses commands.
const SEARCHES_MAX: usize = 4;

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<Done, TurnError> {
    let mut report = turn.report();
    let Look { mut observed, pass } = look(turn, &mut report).await?;
    // An evaluation that continues from a cursor does not revisit the nodes evaluated before it: what has changed since is left
    // to the evaluation that starts afresh.
    let began = !turn.cursor.as_ref().is_some_and(Cursor::goes_on);
    let mut cursor = turn.cursor.clone();
    let counter = observed.counter.clone();
    let (intents, commands) = (
        observed.snapshot.intents.len(),
        observed.snapshot.commands.len(),
    );
    seen(&observed, &mut report);
    let executor = orders::hands(turn);
    let stop = match turn.may_act() {
        true => executor.may_act().await?.map(|stop| stop.to_string()),
        false => Some("the cluster is not active: nothing was done".to_owned()),
    };
    if let Some(stop) = stop {
        let pass = pass.unwrap_or_else(|| found(turn, &observed, &BTreeSet::new()));
        for command in &pass.commands {
            report.plan(&command.plan().actions);
        }
        report.stopped = Some(stop);
        if turn.may_act() {
            report.look_again(turn.world.clock.now() + AFTER_LOSING);
        }
        cursor = go_on(turn, &pass, &mut report);
    } else if commands::drive(turn, &executor, &observed, &mut report).await? {
        // The evaluated snapshot is outdated: the next turn observes afresh.
        report.look_again(turn.world.clock.now());
    } else {
        decide(
            turn,
            &executor,
            &mut observed,
            pass,
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
    Ok(Done {
        report,
        full_look: began.then_some(counter),
        seen: Some(snapshot),
        cursor,
    })
}

/// An observed cluster, and the result of its evaluation where that was computed already.
struct Look {
    observed: Observed,
    pass: Option<Pass>,
}

/// Observes the cluster. The relay's view suffices to find that there is nothing to do; commands are begun and continued only
/// on what the API server itself returns.
async fn look(turn: &Turn<'_>, report: &mut Report) -> Result<Look, TurnError> {
    let observed = see(turn, Pods::AsPublished, report).await?;
    if observed.view.is_none() {
        return Ok(Look {
            observed,
            pass: None,
        });
    }
    if observed.snapshot.commands.is_empty() {
        let pass = found(turn, &observed, &BTreeSet::new());
        if pass.commands.is_empty() {
            return Ok(Look {
                observed,
                pass: Some(pass),
            });
        }
    }
    let observed = see(turn, Pods::All, report).await?;
    Ok(Look {
        observed,
        pass: None,
    })
}

/// Observes the cluster and adds the cursor of the lane's last evaluation.
async fn see(turn: &Turn<'_>, pods: Pods, report: &mut Report) -> Result<Observed, TurnError> {
    let mut observed = observe(turn, pods).await?;
    evidence::exchange(turn, &mut observed, report).await?;
    observed.snapshot.cursor.clone_from(&turn.cursor);
    Ok(observed)
}

/// Evaluates which nodes to disrupt, except these NodeClaims.
fn found(turn: &Turn<'_>, observed: &Observed, spared: &BTreeSet<NodeClaimName>) -> Pass {
    planner::disrupt_within(&observed.snapshot, turn.world.share, spared)
}

/// Validates the proposal that waits, or searches for a new command. One proposal waits at a time, and nothing else is begun
/// meanwhile.
async fn decide(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    pass: Option<Pass>,
    cursor: &mut Option<Cursor>,
    report: &mut Report,
) -> Result<(), TurnError> {
    let proposals = observed.snapshot.commands.iter();
    let proposals = proposals.filter(|command| command.state == CommandState::Proposed);
    let first = proposals.min_by_key(|command| (command.committed_at, &command.id));
    let Some(proposal) = first.cloned() else {
        *cursor = search(turn, executor, observed, pass, report).await?;
        return Ok(());
    };
    let due = proposal
        .choice
        .as_ref()
        .and_then(|choice| choice.validate_at);
    match due.filter(|due| *due > observed.snapshot.now) {
        Some(due) => {
            report.look_again(due);
            Ok(())
        }
        None => judge(turn, executor, observed, &proposal, report).await,
    }
}

/// Validates a proposal: commits what is left of it, or drops it.
async fn judge(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    proposal: &Command,
    report: &mut Report,
) -> Result<(), TurnError> {
    let begun_at = turn.world.clock.now();
    let judged = planner::validate(&observed.snapshot, proposal);
    let took = turn.world.clock.now().duration_since(begun_at);
    report.metrics.push(metrics::of_planning(turn.lane, took));
    let (state, said) = match judged {
        Ok(command) => match orders::checked(observed, &command, report) {
            Some(plan) => {
                let placed = orders::place(turn, executor, observed, &command, plan, report);
                match placed.await? {
                    true => (CommandState::Done, Vec::new()),
                    false => (CommandState::RolledBack, Vec::new()),
                }
            }
            None => (CommandState::RolledBack, Vec::new()),
        },
        Err(rejection) => {
            let text = format!(
                "{} of {} is dropped: {} ({})",
                proposal.reason,
                told::names(&proposal.delete),
                rejection.message,
                rejection.class
            );
            report.proposed.push(told::line(text, &proposal.delete));
            let method = proposal.choice.as_ref().map(|choice| choice.method);
            let counted = method.map(metrics::of_failed_validation);
            report.metrics.extend(counted);
            let said = told::of_rejection(&observed.snapshot, proposal, &rejection);
            (CommandState::RolledBack, said)
        }
    };
    let ledger = &turn.world.ledger;
    ledger.move_command(turn.cluster, proposal, state).await?;
    if state == CommandState::RolledBack {
        report.look_again(turn.world.clock.now() + AFTER_REJECTING);
    }
    events::post(turn, &said, report).await;
    Ok(())
}

/// Searches for commands and begins them. Returns the cursor of the next evaluation.
async fn search(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &mut Observed,
    mut pass: Option<Pass>,
    report: &mut Report,
) -> Result<Option<Cursor>, TurnError> {
    let resting = refusals::resting(turn, &observed.snapshot).await?;
    if let Some(until) = resting.until {
        report.look_again(until);
    }
    let mut spared = resting.claims;
    let mut cursor = None;
    for round in 0..SEARCHES_MAX {
        let begun_at = turn.world.clock.now();
        let pass = match pass.take() {
            Some(pass) => pass,
            None => found(turn, observed, &spared),
        };
        let took = turn.world.clock.now().duration_since(begun_at);
        // A cluster in which nothing happens publishes no series, because each costs.
        if let Some(found) = pass.commands.first() {
            report.metrics.push(metrics::of_search(took, found));
            report.metrics.push(metrics::of_planning(turn.lane, took));
        }
        if round == 0 {
            if !pass.commands.is_empty() {
                report.metrics.extend(metrics::of_judged(&pass.judged));
            }
            let held = pass.exhausted.iter();
            let held = held.map(|(pool, why)| {
                let about = Subject::NodePool(pool.clone());
                Line::new(format!("NodePool {pool}: {why}"), [about])
            });
            report.held_back.extend(held);
            report.shadowed = shadow::disruptions(&observed.snapshot, turn.world.share);
            let said = told::of_pass(&observed.snapshot, &pass);
            events::post(turn, &said, report).await;
            if let Some(due) = pass.due {
                report.look_again(due);
            }
        }
        cursor = go_on(turn, &pass, report);
        let (mut begun, mut refused) = (false, false);
        for command in &pass.commands {
            if approval::holds_disruption(turn, observed, command, report).await? {
                refused = true;
                spared.extend(command.targets().map(|target| target.name.clone()));
                continue;
            }
            match orders::checked(observed, command, report) {
                Some(plan) => {
                    begun = true;
                    begin(turn, executor, observed, command, plan, report).await?;
                }
                None => {
                    refused = true;
                    spared.extend(command.targets().map(|target| target.name.clone()));
                }
            }
        }
        if begun || !refused {
            break;
        }
    }
    Ok(cursor)
}

/// Continues with nodes that did not fit this evaluation in another turn at once.
fn go_on(turn: &Turn<'_>, pass: &Pass, report: &mut Report) -> Option<Cursor> {
    report.unconsidered = pass.left;
    if pass.commands.is_empty() && pass.cursor.as_ref().is_some_and(Cursor::goes_on) {
        report.look_again(turn.world.clock.now());
    }
    pass.cursor.clone()
}

/// Begins a command: consolidations are proposed and validated after a delay; repair and drift start at once.
async fn begin(
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
            let placed = orders::place(turn, executor, observed, command, plan, report);
            placed.await.map(drop)
        }
    }
}
