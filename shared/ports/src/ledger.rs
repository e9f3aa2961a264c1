use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Evidence, Experience, InstanceId, Lane, NodeClaimName, Notification, Uid,
    budget::{Api, Priority, TokenGrant},
    caps::AccountSpending,
    experience::ZonalShift,
    ids::{LaunchToken, PlanId, TurnId},
    ledger::{
        Call, ClaimRow, Command, CommandState, Cursor, InstanceOwner, Intent, IntentState, LaneRow,
        Lease, Meta, Mode, Notice, OfferingKey, Pause, PauseLevel, RelayBeat, RelayCounter,
        Request, SweepMemory,
    },
    plan::{Expected, Plan},
};
use thiserror::Error;

/// The ledger. Every write is conditional or idempotent, every read strongly consistent (docs/protocol.md).
///
/// If the response to a conditional write is lost, the implementation reads the row back: finding the caller's id means
/// success. A repeated write is also `Yes` if its result is already in place. `fakes::laws` tests every implementation.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Takes the lane's lease, or sets `again` if another turn holds it (docs/protocol.md#l1). Taking clears the due
    /// time, which the returned row still has (an expired lease counts as due anyway). Due times set later survive the
    /// end of the turn.
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError>;
    /// Releases the turn's lease and records its outcome (docs/protocol.md#l2). Returns whether another wake was
    /// requested meanwhile. The due time becomes the earliest of the turn's own and those set while it ran. Has no
    /// effect if another turn holds the lease.
    async fn end_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        turn: &TurnId,
        end: &LaneEnd,
    ) -> Result<Ended, LedgerError>;
    async fn lanes(&self, cluster: &ClusterName) -> Result<Vec<(Lane, LaneRow)>, LedgerError>;
    /// `due = min(due, when)` (docs/protocol.md#l3).
    async fn make_due(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        when: Timestamp,
    ) -> Result<(), LedgerError>;

    async fn clusters(&self) -> Result<Vec<ClusterName>, LedgerError>;
    async fn meta(&self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError>;
    /// Creates META (generation 0) or replaces its copy of the registry entry and its mode. Keeps the generation and
    /// pauses.
    async fn mirror_registry(
        &self,
        cluster: &ClusterName,
        registry: &serde_json::Value,
        mode: &Mode,
    ) -> Result<(), LedgerError>;
    /// Records in META which cluster the registry entry refers to. Has no effect without META.
    async fn identify(&self, cluster: &ClusterName, uid: &Uid) -> Result<(), LedgerError>;
    /// Pauses of a cluster and its NodePools, or of the account, as stored: including expired ones.
    async fn pauses(&self, of: Option<&ClusterName>) -> Result<Vec<Pause>, LedgerError>;
    /// Replaces the pauses of a cluster and its NodePools, or of the account, if they still equal `from`. A cluster
    /// without META has no pauses.
    async fn store_pauses(
        &self,
        of: Option<&ClusterName>,
        from: &[Pause],
        to: &[Pause],
    ) -> Result<Moved, LedgerError>;
    /// Replaces a cluster's approval requests, which `meta` returns, if they still equal `from`.
    async fn store_requests(
        &self,
        cluster: &ClusterName,
        from: &[Request],
        to: &[Request],
    ) -> Result<Moved, LedgerError>;
    /// Caps and spending of the account. `meta` returns them, too.
    async fn spending(&self) -> Result<AccountSpending, LedgerError>;
    /// Replaces caps and spending of the account, if `next` is the revision after the stored one.
    async fn store_spending(&self, next: &AccountSpending) -> Result<Moved, LedgerError>;
    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError>;

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

    /// All intents that are not `launched`, so that the number of rows read by every turn does not grow with the
    /// cluster.
    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError>;
    /// NodeClaims whose intents are `launched`. Such intents are not leased or moved any more.
    async fn launched(&self, cluster: &ClusterName) -> Result<Vec<NodeClaimName>, LedgerError>;
    /// The intent in any state.
    async fn intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<Intent>, LedgerError>;
    /// Takes or renews the lease on an intent, unless another turn holds it.
    async fn lease_intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Intent>, LedgerError>;
    /// Moves an intent from exactly the state in `from`, while the turn holds its lease. Terminal states release the
    /// lease.
    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &IntentState,
    ) -> Result<Moved, LedgerError>;
    /// Inserts an intent for a NodeClaim that a user created, unless there is one (docs/protocol.md#a1), and makes
    /// `lane` due in the same transaction (docs/protocol.md#l4).
    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
        lane: Lane,
        due: Timestamp,
    ) -> Result<Moved, LedgerError>;
    /// Removes the intent and the CLAIM row of a NodeClaim that is gone. The owner of its instance stays known for a
    /// day, because AWS's events may arrive late.
    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// Inserts the call and moves its members `claimed → launching`, in one transaction (docs/protocol.md#a2).
    async fn freeze(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        call: &Call,
    ) -> Result<Moved, LedgerError>;
    async fn call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Option<Call>, LedgerError>;
    async fn open_calls(&self, cluster: &ClusterName) -> Result<Vec<Call>, LedgerError>;
    /// Takes or renews the lease on an open call, unless another turn holds it.
    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError>;
    /// Closes the call while the turn holds its lease. The row is kept for at least an hour, because it explains the
    /// call's instances (docs/protocol.md#g3).
    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError>;

    /// Records a NodeClaim as the instance's owner in one transaction, if the OWNER and CLAIM rows are absent or equal
    /// and the intent is still launching this attempt (docs/protocol.md#a4).
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
    /// Marks the NodeClaim as finished with its instance. Has no effect without a CLAIM row.
    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError>;
    /// Reserves the instance for garbage collection, so that no NodeClaim can adopt it any more (docs/protocol.md#g1).
    /// Refused while an open CLAIM row holds the instance; a missing CLAIM row counts as closed. The row is kept for a
    /// day, after which no launch refers to the instance.
    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<Moved, LedgerError>;

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
    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError>;
    /// Moves a command from exactly its given state (docs/protocol.md#d1). Rolling back one that was replacing also
    /// moves the generation, as an unfenced record (docs/protocol.md#c3), because plans that assumed its nodes to be
    /// removed must not be committed.
    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: CommandState,
    ) -> Result<Moved, LedgerError>;
    /// Adds to the command's initialized replacements, if the command is still in its given state.
    async fn note_initialized(
        &self,
        cluster: &ClusterName,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Result<Moved, LedgerError>;
    /// Removes a command that is over, so that turns no longer read it. Keeps one that has moved meanwhile.
    async fn forget_command(
        &self,
        cluster: &ClusterName,
        command: &Command,
    ) -> Result<(), LedgerError>;
    /// Notices that are not done.
    async fn notices(&self, cluster: &ClusterName) -> Result<Vec<Notice>, LedgerError>;
    async fn finish_notice(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        kind: &str,
    ) -> Result<(), LedgerError>;

    /// Shared observations of the account's clusters, and those that concern this cluster only, without those that have
    /// lapsed by `now`.
    async fn experience(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<Experience, LedgerError>;
    /// Marks an offering as failed at `now`; [`UnavailableOffering::after`](model::ledger::UnavailableOffering::after)
    /// determines the wait.
    async fn mark_unavailable(
        &self,
        offering: &OfferingKey,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Marks a subnet as without free addresses at `now`.
    async fn mark_full(&self, subnet: &str, now: Timestamp) -> Result<(), LedgerError>;
    /// Records the memory that a node of this instance type and AMI registered;
    /// [`MeasuredMemory::after`](model::experience::MeasuredMemory::after) determines the change.
    async fn measure_memory(
        &self,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Failures reported by the account's clusters, including lapsed ones.
    async fn evidence(&self) -> Result<Vec<Evidence>, LedgerError>;
    /// Replaces the failures that a cluster reports.
    async fn store_evidence(&self, evidence: &Evidence) -> Result<(), LedgerError>;
    /// Replaces the cluster's zonal shifts.
    async fn store_zonal_shifts(
        &self,
        cluster: &ClusterName,
        shifts: &[ZonalShift],
    ) -> Result<(), LedgerError>;
    async fn zonal_shifts(&self, cluster: &ClusterName) -> Result<Vec<ZonalShift>, LedgerError>;

    /// Draws up to `wanted` calls from the account's budget.
    async fn draw(
        &self,
        api: Api,
        wanted: u32,
        priority: Priority,
        now: Timestamp,
    ) -> Result<TokenGrant, LedgerError>;
    /// Records that EC2 throttled a call, which slows down all processes.
    async fn throttled(&self, api: Api, now: Timestamp) -> Result<(), LedgerError>;

    /// Nominates nodes, or NodeClaims without a Node: pods are expected on them, and they must not be removed until the
    /// given times. Later times win.
    async fn nominate(
        &self,
        cluster: &ClusterName,
        expected: &BTreeMap<Expected, Timestamp>,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    async fn nominations(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<BTreeMap<Expected, Timestamp>, LedgerError>;

    /// Returns whether `key` is used for the first time since its last `until` passed. Prevents repeated events and
    /// notifications.
    async fn once(
        &self,
        cluster: &ClusterName,
        key: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, LedgerError>;
    /// Returns whether the lane needs another timer, because none fires between `now` and `due`.
    async fn set_timer(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<bool, LedgerError>;
    /// The keys with this prefix for which [`Ledger::once`] would return false at `now`, in one read.
    async fn said(
        &self,
        cluster: &ClusterName,
        prefix: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, LedgerError>;

    /// Records that EC2 returned this instance without tags of Whittle (docs/protocol.md#g4).
    async fn remember_unmanaged(
        &self,
        instance: &InstanceId,
        until: Timestamp,
    ) -> Result<(), LedgerError>;
    async fn is_unmanaged(
        &self,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<bool, LedgerError>;

    /// The housekeeper's state. Only the housekeeper writes it, one turn at a time.
    async fn sweep_memory(&self, cluster: &ClusterName) -> Result<SweepMemory, LedgerError>;
    async fn store_sweep_memory(
        &self,
        cluster: &ClusterName,
        memory: &SweepMemory,
    ) -> Result<(), LedgerError>;

    /// Returns `meta`, `relay_beat`, `lanes` and `sweep_memory` of each of these clusters, in one batch read. An
    /// unreadable row is an error for its cluster only.
    async fn cluster_summaries(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>, LedgerError>;

    /// Queues notifications with new ids. A sent one is kept for a day.
    async fn put_notifications(
        &self,
        cluster: &ClusterName,
        notifications: &[Notification],
    ) -> Result<(), LedgerError>;
    /// Notifications that are not sent yet, in the order of their ids.
    async fn notifications(&self, cluster: &ClusterName) -> Result<Vec<Notification>, LedgerError>;
    /// Marks a notification as sent or given up.
    async fn finish_notification(
        &self,
        cluster: &ClusterName,
        notification: &Notification,
    ) -> Result<(), LedgerError>;
}

/// Rows by which the sweep decides whether a cluster needs a visit (docs/protocol.md#l5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSummary {
    pub meta: Option<Meta>,
    pub beat: Option<RelayBeat>,
    pub lanes: Vec<(Lane, LaneRow)>,
    pub memory: SweepMemory,
}

/// Whether [`Ledger::take_lane`] acquired the lane's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Mine(Box<LaneRow>),
    /// Another turn holds the lane; `again` is set on its lease.
    Held,
}

/// Changes of a lane's row at the end of a turn: the next due time, an error, and progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneEnd {
    pub now: Timestamp,
    /// Time of the lane's next turn, if it needs one without a wake.
    pub due: Option<Timestamp>,
    pub error: Option<String>,
    /// Whether the turn did only part of the lane's work, so that its success proves nothing about earlier failures.
    pub partial: bool,
    /// The relay counter read before the lists, if this was a full look (docs/protocol.md#l6).
    pub full_look: Option<RelayCounter>,
    /// Position at which the next turn continues.
    pub cursor: Option<Cursor>,
}

/// Whether the lane needs another turn after [`Ledger::end_lane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether a wake without hints must be sent.
    pub again: bool,
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

/// New generation after [`Ledger::commit`], or the reason why nothing was committed.
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

/// Whether the condition of a write held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Yes,
    /// The condition no longer holds; the caller reads again.
    No,
}

#[derive(Clone, Debug, Error)]
pub enum LedgerError {
    #[error("the ledger throttles {action}")]
    Throttled { action: String },
    #[error("the ledger denied {action}: {message}")]
    Denied { action: String, message: String },
    /// The request can never succeed, such as one for a row that exceeds the ledger's limit.
    #[error("the ledger refuses {action}: {message}")]
    Invalid { action: String, message: String },
    #[error("the ledger did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
    /// The row is not touched: functions of the newer version handle it.
    #[error(
        "row {pk} / {sk} was written by a newer version of the functions (schema {schema}, supported is {known}), and is not touched: \
         deploy that version again if it is no longer deployed"
    )]
    Newer {
        pk: String,
        sk: String,
        schema: u64,
        known: u32,
    },
    #[error("row {pk} / {sk} cannot be read: {message}")]
    Corrupt {
        pk: String,
        sk: String,
        message: String,
    },
}
