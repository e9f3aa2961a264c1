use std::{borrow::Cow, collections::BTreeSet};

use model::{
    Action, Lane, NodePoolName, Plan, Snapshot,
    caps::AccountSpending,
    ledger::{Command, CommandState, Intent, IntentState, PauseLevel},
    node_claim::NodeClaim,
};
use ports::ledger::{Commit, Committed, Record};

use crate::{
    Executor, ExecutorError, StopReason,
    command::{DisruptionOrder, PlanSize},
    naming, rebase,
};

/// The committed plan, or the reason why nothing was committed.
#[derive(Debug)]
pub enum CommitOutcome {
    /// Nothing was left to commit.
    Nothing,
    Committed(Box<CommittedPlan>),
    /// Other turns won too many races: another turn must plan afresh.
    Lost,
    Stopped(StopReason),
}

/// A committed plan, which is part of every snapshot from now on.
#[derive(Debug)]
pub struct CommittedPlan {
    pub generation: u64,
    pub plan: Plan,
    /// Leased to this turn.
    pub intents: Vec<Intent>,
    pub command: Option<Command>,
}

/// Upper bound on races lost to other plans (docs/protocol.md#c2).
const TRIES_MAX: u32 = 3;
/// Upper bound on all lost races, including those lost to unfenced records, which do not count otherwise.
const ROUNDS_MAX: u32 = 10;

impl Executor<'_> {
    /// Commits a plan made from this snapshot; `recheck` drops parts that are no longer valid after the plans of others are applied
    /// to the snapshot. With an order, launches and deletions become one command.
    pub async fn commit(
        &self,
        snapshot: &Snapshot,
        mut plan: Plan,
        order: Option<&DisruptionOrder>,
        recheck: &(dyn Fn(&Snapshot, Plan) -> Plan + Send + Sync),
    ) -> Result<CommitOutcome, ExecutorError> {
        let whole = order
            .filter(|order| !order.is_divisible())
            .map(|_| PlanSize::of(&plan));
        self.drop_moved_pods(snapshot, &mut plan).await?;
        // Borrowed, because most commits meet no race.
        let mut snapshot = Cow::Borrowed(snapshot);
        let pools = pools_whose_pauses_hold(&snapshot, &plan, order);
        let pools: Vec<_> = pools.iter().collect();
        if let Some(stop) = self.may_begin(pause_level(order), &pools).await? {
            return Ok(CommitOutcome::Stopped(stop));
        }
        let mut tries = 0;
        for _ in 0..ROUNDS_MAX {
            if !needs_commit(&plan)
                || whole
                    .as_ref()
                    .is_some_and(|whole| *whole != PlanSize::of(&plan))
            {
                return Ok(CommitOutcome::Nothing);
            }
            let commit = self.proposal(&snapshot, &mut plan, order);
            match self.ledger.commit(self.cluster, &commit).await? {
                Committed::At(generation) => {
                    tracing::info!(generation, plan = %commit.id, launches = commit.intents.len(), "plan committed");
                    return Ok(CommitOutcome::Committed(Box::new(CommittedPlan {
                        generation,
                        plan,
                        intents: commit.intents,
                        command: commit.commands.into_iter().next(),
                    })));
                }
                Committed::NotActive => {
                    let stop = self.may_begin(commit.held_by, &[]).await?;
                    return Ok(CommitOutcome::Stopped(
                        stop.unwrap_or_else(StopReason::changed),
                    ));
                }
                // The row contains the launches of other clusters; this cluster's own share was part of the plan's snapshot.
                Committed::Overtaken { account } => {
                    snapshot.to_mut().account = account;
                    plan = recheck(&snapshot, plan);
                }
                Committed::Raced { generation } => {
                    let records = self
                        .ledger
                        .committed_since(self.cluster, snapshot.generation)
                        .await?;
                    tries += u32::from(
                        records
                            .iter()
                            .any(|record| matches!(record, Record::Plan { .. })),
                    );
                    if tries >= TRIES_MAX {
                        return Ok(CommitOutcome::Lost);
                    }
                    rebase::keep_what_holds(&mut plan, &records);
                    let raced = snapshot.to_mut();
                    rebase::apply(raced, &records);
                    raced.generation = raced.generation.max(generation);
                    plan = recheck(&snapshot, plan);
                }
            }
        }
        Ok(CommitOutcome::Lost)
    }

    fn proposal(
        &self,
        snapshot: &Snapshot,
        plan: &mut Plan,
        order: Option<&DisruptionOrder>,
    ) -> Commit {
        let base = snapshot.generation;
        let now = self.clock.now();
        naming::name_claims(plan, base + 1, self.turn);
        let id = naming::plan_id(plan, base, self.turn);
        let intent = |launch: &model::plan::Launch| Intent {
            plan: id.clone(),
            generation: base + 1,
            launch: launch.clone(),
            state: IntentState::Intended,
            lease: Some(self.lease()),
            committed_at: now,
        };
        let intents: Vec<Intent> = rebase::launches(plan).map(intent).collect();
        let delete: Vec<_> = rebase::deletions(plan).cloned().collect();
        let reboot = rebase::reboots(plan).next().cloned();
        let order = order.filter(|_| !delete.is_empty() || reboot.is_some());
        let command = order.map(|order| Command {
            id: id.0.clone(),
            reason: order.reason.clone(),
            delete,
            reboot,
            replacements: intents.iter().map(|intent| intent.name().clone()).collect(),
            state: CommandState::Replacing,
            committed_at: now,
            choice: Some(order.choice.clone()),
            initialized: Vec::new(),
        });
        // If this turn dies, another one continues once its leases have lapsed (docs/protocol.md#l4).
        let due_at = self.lease().until;
        let mut due = Vec::new();
        if !intents.is_empty() {
            due.push((Lane::Provisioner, due_at));
        }
        if command.is_some() {
            due.push((Lane::Disruption, due_at));
        }
        Commit {
            id: id.clone(),
            turn: self.turn.clone(),
            base,
            plan: plan.clone(),
            intents,
            commands: command.into_iter().collect(),
            due,
            spending: order
                .is_none()
                .then(|| account_with_launches(snapshot, plan))
                .flatten(),
            held_by: pause_level(order),
            now,
        }
    }
}

/// The account's next revision, if the account has caps and this plan launches. Replacements do not count: they take the place of
/// other nodes.
fn account_with_launches(snapshot: &Snapshot, plan: &Plan) -> Option<AccountSpending> {
    let account = &snapshot.account;
    let mut launches = rebase::launches(plan).peekable();
    if account.caps.is_unlimited() || launches.peek().is_none() {
        return None;
    }
    let mut own = account.of(&snapshot.cluster);
    launches.for_each(|launch| own.add(launch.cheapest.price));
    Some(account.with(&snapshot.cluster, own))
}

/// The NodePools whose pauses of that level hold a plan back: those that are disrupted, or else those that nodes are launched
/// of. Replacements may be launched in a NodePool whose disruption is paused.
fn pools_whose_pauses_hold(
    snapshot: &Snapshot,
    plan: &Plan,
    order: Option<&DisruptionOrder>,
) -> BTreeSet<NodePoolName> {
    if order.is_none() {
        let launches = rebase::launches(plan);
        return launches.map(|launch| launch.node_pool.clone()).collect();
    }
    let taken = rebase::deletions(plan).chain(rebase::reboots(plan));
    let go = taken.filter_map(|target| {
        let mut claims = snapshot.node_claims.iter();
        let claim = claims.find(|claim| claim.name == target.name);
        claim.and_then(NodeClaim::node_pool)
    });
    go.collect()
}

/// Level of the pauses that hold a plan back: every disruption is voluntary, launches for waiting pods are not.
fn pause_level(order: Option<&DisruptionOrder>) -> PauseLevel {
    match order {
        Some(_) => PauseLevel::Voluntary,
        None => PauseLevel::All,
    }
}

/// Whether a plan must be committed: other actions are executed in the same turn or not at all.
fn needs_commit(plan: &Plan) -> bool {
    plan.actions.iter().any(|planned| {
        matches!(
            planned.action,
            Action::Launch(_) | Action::DeleteNodeClaim(_) | Action::Reboot(_)
        )
    })
}
