use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Lane, NodeClaimName,
    ids::{LaunchToken, PlanId, TurnId},
    ledger::{
        Call, ClaimRow, Command, InstanceOwner, Intent, LaneRow, Lease, Meta, Notice, RelayBeat,
        UnavailableOffering,
    },
    plan::Plan,
};
use thiserror::Error;

/// The ledger: every write is conditional or idempotent, every read strongly consistent (PROTOCOL).
///
/// A conditional write whose answer was lost is read back by the implementation: finding one's own id means success.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// L1: takes the lane, or sets `again` on the lease that holds it.
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError>;
    /// L2: removes my lease and records the outcome; says whether another wake was asked for meanwhile.
    async fn end_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        turn: &TurnId,
        end: &LaneEnd,
    ) -> Result<Ended, LedgerError>;
    async fn lanes(&self, cluster: &ClusterName) -> Result<Vec<(Lane, LaneRow)>, LedgerError>;
    /// L3: `due = min(due, when)`.
    async fn make_due(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        when: Timestamp,
    ) -> Result<(), LedgerError>;

    async fn clusters(&self) -> Result<Vec<ClusterName>, LedgerError>;
    async fn meta(&self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError>;
    /// Creates META or replaces its mirror of the registry and mode; never moves the generation.
    async fn mirror_registry(
        &self,
        cluster: &ClusterName,
        registry: &serde_json::Value,
    ) -> Result<(), LedgerError>;
    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError>;

    /// C1: bodies first, then one transaction from `plan.base` to the next generation while the mode is active.
    async fn commit(
        &self,
        cluster: &ClusterName,
        commit: &Commit,
    ) -> Result<Committed, LedgerError>;
    /// The plans and unfenced records committed after this generation, oldest first (C2).
    async fn committed_since(
        &self,
        cluster: &ClusterName,
        generation: u64,
    ) -> Result<Vec<Record>, LedgerError>;

    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError>;
    async fn intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<Intent>, LedgerError>;
    /// Takes or renews the lease on an intent unless another turn's is live.
    async fn lease_intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Intent>, LedgerError>;
    /// Moves an intent from exactly `from` while my lease is on it; terminal states release the lease.
    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &model::ledger::IntentState,
    ) -> Result<Moved, LedgerError>;
    /// A1: put-if-absent, for a hand-made NodeClaim.
    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
    ) -> Result<Moved, LedgerError>;
    /// Removes the rows of a NodeClaim that is gone: its intent, and its CLAIM row.
    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError>;

    /// A2: one transaction that puts the call and moves its members `claimed → launching`.
    async fn freeze(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        call: &Call,
    ) -> Result<Moved, LedgerError>;
    async fn open_calls(&self, cluster: &ClusterName) -> Result<Vec<Call>, LedgerError>;
    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError>;
    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError>;

    /// A4: OWNER absent-or-same, CLAIM absent-or-same, intent still launching this attempt, in one transaction.
    async fn own(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        instance: &InstanceId,
        token: &LaunchToken,
    ) -> Result<Moved, LedgerError>;
    async fn owner(&self, instance: &InstanceId) -> Result<Option<InstanceOwner>, LedgerError>;
    async fn claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<ClaimRow>, LedgerError>;
    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError>;
    /// G1: takes the instance for collection, so that nobody can adopt it any more.
    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
    ) -> Result<Moved, LedgerError>;

    /// C3: records unfenced acts, bumps the generation and makes `lane` due, in one transaction.
    async fn record_unfenced(
        &self,
        cluster: &ClusterName,
        acts: &Unfenced,
    ) -> Result<u64, LedgerError>;
    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError>;
    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: model::ledger::CommandState,
    ) -> Result<Moved, LedgerError>;
    async fn notices(&self, cluster: &ClusterName) -> Result<Vec<Notice>, LedgerError>;

    /// Account-wide memory of offerings without capacity; `now` decides what has lapsed.
    async fn unavailable_offerings(
        &self,
        now: Timestamp,
    ) -> Result<Vec<UnavailableOffering>, LedgerError>;
    /// Marks an offering, growing its back-off (DESIGN §4).
    async fn mark_unavailable(&self, offering: &UnavailableOffering) -> Result<(), LedgerError>;

    async fn journal(&self, cluster: &ClusterName, entry: &JournalEntry)
    -> Result<(), LedgerError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Mine(LaneRow),
    /// Someone else's turn runs and has been told to look again.
    Held,
}

/// How a turn ended, for its lane's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneEnd {
    pub now: Timestamp,
    /// When the lane must look again by itself, if ever.
    pub due: Option<Timestamp>,
    pub error: Option<String>,
    /// Set by a full look: the relay counter read before its lists (L6).
    pub full_look: Option<model::ledger::RelayCounter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// A wake without hints must be sent.
    pub again: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: PlanId,
    pub turn: TurnId,
    /// The generation the plan was made from.
    pub base: u64,
    pub plan: Plan,
    pub intents: Vec<Intent>,
    pub commands: Vec<Command>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    At(u64),
    /// The generation moved; rebase from this one.
    Raced {
        generation: u64,
    },
    /// The cluster is not active: nothing may be committed.
    NotActive,
}

/// What one generation stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Plan {
        generation: u64,
        plan: Plan,
    },
    Unfenced {
        generation: u64,
        commands: Vec<Command>,
        notices: Vec<Notice>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfenced {
    pub turn: TurnId,
    pub commands: Vec<Command>,
    pub notices: Vec<Notice>,
    pub lane: Lane,
    pub due: Timestamp,
}

/// The answer of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Yes,
    /// The condition no longer held: look again.
    No,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    pub turn: TurnId,
    pub at: Timestamp,
    pub lane: Lane,
    pub body: serde_json::Value,
}

#[derive(Clone, Debug, Error)]
pub enum LedgerError {
    #[error("the ledger throttles {action}")]
    Throttled { action: String },
    #[error("the ledger denied {action}: {message}")]
    Denied { action: String, message: String },
    #[error("the ledger did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
    #[error("row {pk} / {sk} cannot be read: {message}")]
    Corrupt {
        pk: String,
        sk: String,
        message: String,
    },
}
