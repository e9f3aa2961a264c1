//! Nodes that are not worth having, under budgets. Here: empty ones. Drift and consolidation are further deciders that fill
//! the same command.

use executor::{Commitment, Executor};
use jiff::SignedDuration;
use model::{
    Lane, NodeClaimName, Plan, Snapshot,
    ledger::{Command, CommandState},
};
use ports::{ClusterError, ledger::Moved};

use crate::{
    Report, TurnError,
    lane::{Done, Turn},
    observe::{Pods, observe},
    provisioner::seen,
};

/// The reason in commands, conditions and metrics (spec/lifecycle §3.2).
const EMPTY: &str = "Empty";
/// A turn that lost every race for the generation tries again after this.
const AFTER_LOSING: SignedDuration = SignedDuration::from_secs(5);

pub(crate) async fn turn(turn: &Turn<'_>) -> Result<Done, TurnError> {
    let mut report = turn.report();
    let observed = observe(turn, Pods::All).await?;
    let counter = observed.counter.clone();
    seen(&observed, &mut report);
    let executor = turn.executor();
    if turn.may_act() {
        for command in observed
            .snapshot
            .commands
            .iter()
            .filter(|command| is_open(command))
        {
            drive(turn, &executor, command, &mut report).await?;
        }
    }
    let decision = planner::empty(&observed.snapshot);
    if let Some(due) = decision.due {
        report.look_again(due);
    }
    let checked = plancheck::filter(&observed.snapshot, decision.plan);
    report.plan(&checked.plan.actions);
    report.refused.extend(
        checked
            .refused
            .iter()
            .flat_map(|refused| refused.offences.iter().cloned()),
    );
    if !turn.may_act() {
        report.stopped = Some("the cluster is not active: nothing was done".into());
        return Ok(Done {
            report,
            full_look: Some(counter),
        });
    }
    let recheck = |snapshot: &Snapshot, plan: Plan| plancheck::filter(snapshot, plan).plan;
    match executor
        .commit(observed.snapshot, checked.plan, EMPTY, &recheck)
        .await?
    {
        Commitment::Nothing => {}
        Commitment::Stopped(stop) => report.stopped = Some(stop.to_string()),
        Commitment::Lost => {
            report
                .problems
                .push("every race for the generation was lost".into());
            report.look_again(turn.world.clock.now() + AFTER_LOSING);
        }
        Commitment::Made(made) => {
            report.committed = Some(made.generation);
            if let Some(command) = &made.command {
                drive(turn, &executor, command, &mut report).await?;
            }
        }
    }
    Ok(Done {
        report,
        full_look: Some(counter),
    })
}

fn is_open(command: &Command) -> bool {
    match command.state {
        CommandState::Replacing | CommandState::Deleting => true,
        CommandState::Done | CommandState::RolledBack => false,
    }
}

/// Takes a command to its end, from wherever it stands (D1).
async fn drive(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    command: &Command,
    report: &mut Report,
) -> Result<(), TurnError> {
    if let Some(stop) = executor.may_act().await? {
        report.stopped = Some(stop.to_string());
        report.look_again(turn.world.clock.now() + AFTER_LOSING);
        return Ok(());
    }
    let deleting = Command {
        state: CommandState::Deleting,
        ..command.clone()
    };
    if turn
        .world
        .ledger
        .move_command(turn.cluster, command, deleting.state)
        .await?
        == Moved::No
    {
        return Ok(());
    }
    let mut deleted = false;
    for target in &command.delete {
        if command.reason == EMPTY && is_occupied(turn, &target.name).await? {
            report
                .problems
                .push(format!("NodeClaim {} is no longer empty", target.name));
            continue;
        }
        match turn.api.delete_node_claim(target).await {
            Ok(()) => deleted = true,
            // Gone, or changed since it was judged: then it is judged again.
            Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    turn.world
        .ledger
        .move_command(turn.cluster, &deleting, CommandState::Done)
        .await?;
    if deleted {
        turn.wake(Lane::Terminator, "disrupted").await?;
    }
    report.look_again(turn.world.clock.now() + AFTER_LOSING);
    Ok(())
}

/// Whether a pod has come to a node since it was judged empty (DESIGN §7.5).
async fn is_occupied(turn: &Turn<'_>, claim: &NodeClaimName) -> Result<bool, TurnError> {
    let Some(claim) = turn.api.node_claim(claim).await? else {
        return Ok(false);
    };
    let Some(node) = claim.status.node_name else {
        return Ok(false);
    };
    let pods = turn.api.pods().await?;
    Ok(pods
        .iter()
        .any(|pod| pod.node_name.as_ref() == Some(&node) && planner::is_reschedulable(pod)))
}
