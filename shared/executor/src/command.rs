//! Disruption commands: proposed without binding other turns, then committed with replacements for the removed nodes
//! (docs/protocol.md#d1).

use jiff::Timestamp;
use model::{
    Lane, Plan,
    ledger::{Choice, Command, CommandState, Method, PauseLevel},
    plan::Target,
};
use ports::ledger::{Commit, Committed};

use crate::{Executor, ExecutorError, StopReason, naming, rebase};

/// A disruption that was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionOrder {
    pub reason: String,
    pub choice: Choice,
}

/// Whether a proposed command was recorded in the ledger, and why not.
#[derive(Debug)]
pub enum ProposalOutcome {
    Recorded(Box<Command>),
    /// Other turns won too many races.
    Lost,
    Stopped(StopReason),
}

/// Upper bound on tries; each starts from the generation that others have reached.
const TRIES_MAX: u32 = 5;

impl DisruptionOrder {
    /// Whether a part of the plan may be committed: empty nodes are removed one by one; everything else is planned together and is
    /// committed completely or not at all.
    pub(crate) fn is_divisible(&self) -> bool {
        self.choice.method == Method::Emptiness
    }
}

/// PlanSize of a plan, by which the loss of a part is noticed.
#[derive(PartialEq, Eq)]
pub(crate) struct PlanSize {
    actions: usize,
    nominations: usize,
    pods: usize,
}

impl PlanSize {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            actions: plan.actions.len(),
            nominations: plan.nominations.len(),
            pods: rebase::launches(plan).map(|launch| launch.pods.len()).sum(),
        }
    }
}

impl Executor<'_> {
    /// Records a proposal to be validated at the time that the order's choice names, made from generation `base`. It moves the
    /// generation as any commit does, so that of two turns that propose concurrently the second one detects the first.
    pub async fn propose(
        &self,
        order: &DisruptionOrder,
        delete: Vec<Target>,
        base: u64,
    ) -> Result<ProposalOutcome, ExecutorError> {
        if let Some(stop) = self.may_begin(PauseLevel::Voluntary, &[]).await? {
            return Ok(ProposalOutcome::Stopped(stop));
        }
        let now = self.clock.now();
        let due = order.choice.validate_at.unwrap_or(now);
        let mut base = base;
        for _ in 0..TRIES_MAX {
            let commit = self.empty_commit(order, &delete, base, now, due);
            match self.ledger.commit(self.cluster, &commit).await? {
                Committed::At(_) => {
                    let command = commit.commands.into_iter().next();
                    return Ok(command.map_or(ProposalOutcome::Lost, |command| {
                        ProposalOutcome::Recorded(Box::new(command))
                    }));
                }
                // Proposals launch nothing.
                Committed::Overtaken { .. } => {}
                Committed::NotActive => {
                    let stop = self.may_begin(commit.held_by, &[]).await?;
                    return Ok(ProposalOutcome::Stopped(
                        stop.unwrap_or_else(StopReason::changed),
                    ));
                }
                Committed::Raced { generation } => {
                    if self.is_proposed().await? {
                        return Ok(ProposalOutcome::Lost);
                    }
                    base = generation;
                }
            }
        }
        Ok(ProposalOutcome::Lost)
    }

    fn empty_commit(
        &self,
        order: &DisruptionOrder,
        delete: &[Target],
        base: u64,
        now: Timestamp,
        due: Timestamp,
    ) -> Commit {
        let plan = Plan::default();
        let id = naming::plan_id(&plan, base, self.turn);
        Commit {
            commands: vec![Command {
                id: id.0.clone(),
                reason: order.reason.clone(),
                delete: delete.to_vec(),
                reboot: None,
                replacements: Vec::new(),
                state: CommandState::Proposed,
                committed_at: now,
                choice: Some(order.choice.clone()),
                initialized: Vec::new(),
            }],
            id,
            turn: self.turn.clone(),
            base,
            plan,
            intents: Vec::new(),
            due: vec![(Lane::Disruption, due)],
            spending: None,
            held_by: PauseLevel::Voluntary,
            now,
        }
    }

    /// Whether another turn has proposed a command in the meantime: one proposal waits at a time.
    async fn is_proposed(&self) -> Result<bool, ExecutorError> {
        let commands = self.ledger.commands(self.cluster).await?;
        let mut states = commands.iter().map(|command| command.state);
        Ok(states.any(|state| state == CommandState::Proposed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_emptiness_is_divisible() {
        use Method::{Drift, Emptiness, MultiNode, SingleNode, StaticDrift};
        let divisible = [Emptiness, StaticDrift, Drift, MultiNode, SingleNode].map(|method| {
            let order = DisruptionOrder {
                reason: "Empty".into(),
                choice: Choice {
                    method,
                    validate_at: None,
                    instance_types: Vec::new(),
                    others: Vec::new(),
                    wanted: Vec::new(),
                    evicts: std::collections::BTreeMap::new(),
                    repair: None,
                    terminate_first: false,
                    freed: None,
                },
            };
            order.is_divisible()
        });
        assert_eq!(divisible, [true, false, false, false, false]);
    }
}
