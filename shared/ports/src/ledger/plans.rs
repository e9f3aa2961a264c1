use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Lane,
    caps::AccountSpending,
    ids::{PlanId, TurnId},
    ledger::{Command, Intent, Notice, PauseLevel},
    plan::Plan,
};

use super::LedgerError;

/// Committed plans and unfenced records, which move a cluster's generation (docs/protocol.md#committing).
#[async_trait]
pub trait PlanLedger: Send + Sync {
    /// Writes the plan's body, then commits it in one transaction that moves the generation from `commit.base` to the
    /// next, provided that the mode is active and no pause of the cluster forbids it (docs/protocol.md#c1). If the
    /// commit includes the account's spending, that must be its next revision. Bodies of plans that lost the race are
    /// never read.
    async fn commit(
        &self,
        cluster: &ClusterName,
        commit: &Commit,
    ) -> Result<Committed, LedgerError>;
    /// Plans and unfenced records committed after this generation, oldest first (docs/protocol.md#c2).
    async fn committed_since(
        &self,
        cluster: &ClusterName,
        generation: u64,
    ) -> Result<Vec<Record>, LedgerError>;
    /// Records unfenced acts, increments the generation once and makes lanes due, in one transaction
    /// (docs/protocol.md#c3). Acts already recorded are kept, except that a finished notice is reopened by a later
    /// fact; if all are already recorded, the generation stays. Returns the generation. More than
    /// [`Unfenced::ACTS_MAX`] acts are split into several transactions with a generation each: an error means that some
    /// piece was not recorded, while others may be.
    async fn record_unfenced(
        &self,
        cluster: &ClusterName,
        acts: &Unfenced,
    ) -> Result<u64, LedgerError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: PlanId,
    pub turn: TurnId,
    /// The generation that the plan is based on.
    pub base: u64,
    pub plan: Plan,
    pub intents: Vec<Intent>,
    pub commands: Vec<Command>,
    /// Lanes that must act on the commit even if this turn dies (docs/protocol.md#l4).
    pub due: Vec<(Lane, Timestamp)>,
    /// The account's next revision including these launches, if the account has caps.
    pub spending: Option<AccountSpending>,
    /// The lowest pause level that forbids the commit.
    pub held_by: PauseLevel,
    pub now: Timestamp,
}

/// New generation after [`PlanLedger::commit`], or the reason why nothing was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    At(u64),
    /// The generation moved; the turn rebases onto this one.
    Raced {
        generation: u64,
    },
    /// The account's spending changed; the turn checks its caps against this one.
    Overtaken {
        account: AccountSpending,
    },
    /// The cluster is not active, or is paused: nothing may be committed.
    NotActive,
}

/// Content of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Plan {
        generation: u64,
        plan: Box<Plan>,
    },
    Unfenced {
        generation: u64,
        commands: Vec<Command>,
        notices: Vec<Notice>,
    },
}

/// Facts and commands that are recorded without a fence on the generation (docs/protocol.md#c3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfenced {
    pub turn: TurnId,
    pub commands: Vec<Command>,
    pub notices: Vec<Notice>,
    /// Lanes that must act on them (docs/protocol.md#l4).
    pub due: Vec<(Lane, Timestamp)>,
}

impl Unfenced {
    /// Upper bound on the acts of one transaction, which holds 100 rows: one per act, and those of the generation, the
    /// record and the lanes. Kept below that, so that an act that cannot be recorded takes few others with it.
    pub const ACTS_MAX: usize = 40;

    /// Splits the acts into pieces that are recorded one by one.
    pub fn pieces(&self) -> impl Iterator<Item = Self> {
        let count = self.commands.len() + self.notices.len();
        (0..count).step_by(Self::ACTS_MAX).map(|from| {
            let commands = self.commands.iter().skip(from).take(Self::ACTS_MAX);
            let commands: Vec<Command> = commands.cloned().collect();
            let notices = self.notices.iter();
            let notices = notices.skip(from.saturating_sub(self.commands.len()));
            let room = Self::ACTS_MAX - commands.len();
            Self {
                turn: self.turn.clone(),
                notices: notices.take(room).cloned().collect(),
                commands,
                due: self.due.clone(),
            }
        })
    }
}
