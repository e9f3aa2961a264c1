use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Evidence, Experience, InstanceId, Lane, NodeClaimName, Notification, Uid,
    budget::{Api, Draw, Priority},
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

/// The ledger: every write is conditional or idempotent, every read strongly consistent (docs/protocol.md).
///
/// A conditional write whose answer was lost is read back by the implementation: finding one's own id means success.
/// So is one that is repeated: what stands already as asked for is `Yes`. `fakes::laws` tests every implementation.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Takes the lane, or sets `again` on the lease that holds it (docs/protocol.md#l1). Taking consumes the due time (a lapsed
    /// lease counts as due anyway): the row answered has it, and what others ask for from then on survives the end of the turn.
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError>;
    /// Removes my lease and records the outcome (docs/protocol.md#l2); says whether another wake was asked for meanwhile. The due
    /// time becomes the earliest of the turn's own and those asked for while it ran. A lease that is no longer mine changes
    /// nothing.
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
    /// Creates META (generation 0) or replaces its mirror of the registry and its mode; never moves the generation, and
    /// leaves pauses as they are.
    async fn mirror_registry(
        &self,
        cluster: &ClusterName,
        registry: &serde_json::Value,
        mode: &Mode,
    ) -> Result<(), LedgerError>;
    /// Records in META which cluster the registry entry leads to. Without META there is nothing to do.
    async fn identify(&self, cluster: &ClusterName, uid: &Uid) -> Result<(), LedgerError>;
    /// The pauses of a cluster and its NodePools, or of the account, as they are written: lapsed ones too.
    async fn pauses(&self, of: Option<&ClusterName>) -> Result<Vec<Pause>, LedgerError>;
    /// Replaces the pauses of a cluster and its NodePools, or of the account, if they are still `from`. A cluster that has no
    /// META has no pauses.
    async fn store_pauses(
        &self,
        of: Option<&ClusterName>,
        from: &[Pause],
        to: &[Pause],
    ) -> Result<Moved, LedgerError>;
    /// Replaces what waits for approval in a cluster, which `meta` answers, if it is still `from`.
    async fn store_requests(
        &self,
        cluster: &ClusterName,
        from: &[Request],
        to: &[Request],
    ) -> Result<Moved, LedgerError>;
    /// What the account's clusters come to, and may. `meta` answers it, too.
    async fn spending(&self) -> Result<AccountSpending, LedgerError>;
    /// Replaces it, if `next` is the revision after the one that is there.
    async fn store_spending(&self, next: &AccountSpending) -> Result<Moved, LedgerError>;
    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError>;

    /// Bodies first, then one transaction from `commit.base` to the next generation while the mode is active and no pause of the
    /// cluster holds it back (docs/protocol.md#c1); where the account's spending is given, only as its next revision. Rows of a
    /// plan that lost are never seen by anyone.
    async fn commit(
        &self,
        cluster: &ClusterName,
        commit: &Commit,
    ) -> Result<Committed, LedgerError>;
    /// The plans and unfenced records committed after this generation, oldest first (docs/protocol.md#c2).
    async fn committed_since(
        &self,
        cluster: &ClusterName,
        generation: u64,
    ) -> Result<Vec<Record>, LedgerError>;

    /// All but those that are `launched`: what every turn reads does not grow with the cluster.
    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError>;
    /// The NodeClaims whose intents are `launched`; nobody leases or moves one of these any more.
    async fn launched(&self, cluster: &ClusterName) -> Result<Vec<NodeClaimName>, LedgerError>;
    /// In whichever state.
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
    /// Moves an intent from exactly the state `from` has while my lease is on it; terminal states release the lease.
    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &IntentState,
    ) -> Result<Moved, LedgerError>;
    /// Put-if-absent, for a hand-made NodeClaim (docs/protocol.md#a1); makes `lane` due in the same transaction
    /// (docs/protocol.md#l4).
    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
        lane: Lane,
        due: Timestamp,
    ) -> Result<Moved, LedgerError>;
    /// Removes the rows of a NodeClaim that is gone: its intent, and its CLAIM row. Who owned its instance stays known for a
    /// day: AWS tells of instances late.
    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        now: Timestamp,
    ) -> Result<(), LedgerError>;

    /// One transaction that puts the call and moves its members `claimed → launching` (docs/protocol.md#a2).
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
    /// Takes or renews the lease on an open call unless another turn's is live.
    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError>;
    /// Marks the call as over while my lease is on it. The row stays for an hour at least: it explains its instances
    /// (docs/protocol.md#g3).
    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError>;

    /// OWNER absent-or-same, CLAIM absent-or-same, intent still launching this attempt, in one transaction (docs/protocol.md#a4).
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
    /// The NodeClaim is finished with its instance; without a row there is nothing to do.
    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError>;
    /// Takes the instance for collection, so that nobody can adopt it any more (docs/protocol.md#g1). Refused while a claim that
    /// is not closed holds it; a claim whose row is gone counts as closed. The row is kept for a day: by then nobody's launch
    /// asks for it.
    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<Moved, LedgerError>;

    /// Records unfenced acts, bumps the generation once and makes lanes due, in one transaction (docs/protocol.md#c3). Acts that
    /// are recorded already are left as they are, but for notices that are done and of which a later fact tells; if all are, the
    /// generation stays. Answers the generation. More than [`Unfenced::TOGETHER`] acts take a transaction and a generation for
    /// each of their pieces: an error says that some piece was not recorded, and others may be.
    async fn record_unfenced(
        &self,
        cluster: &ClusterName,
        acts: &Unfenced,
    ) -> Result<u64, LedgerError>;
    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError>;
    /// From exactly the state that it has here (docs/protocol.md#d1). Giving up one that was replacing moves the generation, as
    /// an unfenced record (docs/protocol.md#c3): plans that counted on its nodes to leave must not be committed.
    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: CommandState,
    ) -> Result<Moved, LedgerError>;
    /// Adds replacements that were seen in service to what a command remembers of them, if it is still in the state it has
    /// here.
    async fn note_initialized(
        &self,
        cluster: &ClusterName,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Result<Moved, LedgerError>;
    /// Removes a command that is over, so that turns do not read it for ever; one that has moved meanwhile stays.
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

    /// What the account's clusters have learned, and what concerns this one alone; `now` decides what has lapsed.
    async fn experience(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<Experience, LedgerError>;
    /// Marks an offering as failed at `now`; its wait grows as [`UnavailableOffering::after`] says.
    async fn mark_unavailable(
        &self,
        offering: &OfferingKey,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Marks a subnet as without free addresses at `now`.
    async fn mark_full(&self, subnet: &str, now: Timestamp) -> Result<(), LedgerError>;
    /// A node of this type and image registered with so much memory: [`MeasuredMemory::after`](model::experience::MeasuredMemory::after) says what that changes.
    async fn measure_memory(
        &self,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Failures that the account's clusters have told of, also those that have lapsed.
    async fn evidence(&self) -> Result<Vec<Evidence>, LedgerError>;
    /// Replaces what a cluster has told of.
    async fn store_evidence(&self, evidence: &Evidence) -> Result<(), LedgerError>;
    /// Replaces what is known of the zones that a cluster's traffic is shifted away from.
    async fn store_zonal_shifts(
        &self,
        cluster: &ClusterName,
        shifts: &[ZonalShift],
    ) -> Result<(), LedgerError>;
    async fn zonal_shifts(&self, cluster: &ClusterName) -> Result<Vec<ZonalShift>, LedgerError>;

    /// Takes as many of `wanted` calls out of the account's budget as may be made now.
    async fn draw(
        &self,
        api: Api,
        wanted: u32,
        priority: Priority,
        now: Timestamp,
    ) -> Result<Draw, LedgerError>;
    /// EC2 refused a call for there being too many: everybody slows down.
    async fn throttled(&self, api: Api, now: Timestamp) -> Result<(), LedgerError>;

    /// Pods are expected on these nodes until then, or on the nodes of these NodeClaims: they must not be removed. Later times win.
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

    /// Whether this is the first time for `key` since the last `until` given lapsed; used to say things once.
    async fn once(
        &self,
        cluster: &ClusterName,
        key: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, LedgerError>;
    /// Whether the lane needs another timer: none is due between `now` and `due`.
    async fn set_timer(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<bool, LedgerError>;
    /// The keys that begin with `prefix` and for which [`Ledger::once`] would answer no at `now`: one question about many.
    async fn said(
        &self,
        cluster: &ClusterName,
        prefix: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, LedgerError>;

    /// EC2 showed this instance with its tags, and none are ours (docs/protocol.md#g4).
    async fn remember_not_ours(
        &self,
        instance: &InstanceId,
        until: Timestamp,
    ) -> Result<(), LedgerError>;
    async fn is_not_ours(&self, instance: &InstanceId, now: Timestamp)
    -> Result<bool, LedgerError>;

    /// The housekeeper's own notes; only it writes them, one turn at a time.
    async fn sweep_memory(&self, cluster: &ClusterName) -> Result<SweepMemory, LedgerError>;
    async fn store_sweep_memory(
        &self,
        cluster: &ClusterName,
        memory: &SweepMemory,
    ) -> Result<(), LedgerError>;

    /// What `meta`, `relay_beat`, `lanes` and `sweep_memory` answer for each of these clusters, in one read of many rows. A row that
    /// cannot be read is its cluster's answer, and hides no other cluster.
    async fn glances(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, Result<Glance, LedgerError>>, LedgerError>;

    /// Puts what is to be told, where its id is new; one that is told stays for a day.
    async fn put_notifications(
        &self,
        cluster: &ClusterName,
        notifications: &[Notification],
    ) -> Result<(), LedgerError>;
    /// Those that are not told, in the order of their ids.
    async fn notifications(&self, cluster: &ClusterName) -> Result<Vec<Notification>, LedgerError>;
    /// It is told, or given up.
    async fn finish_notification(
        &self,
        cluster: &ClusterName,
        notification: &Notification,
    ) -> Result<(), LedgerError>;
}

/// Facts that the sweep must know of a cluster to leave it alone (docs/protocol.md#l5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    pub meta: Option<Meta>,
    pub beat: Option<RelayBeat>,
    pub lanes: Vec<(Lane, LaneRow)>,
    pub memory: SweepMemory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Mine(Box<LaneRow>),
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
    /// Set by a full look: the relay counter read before its lists (docs/protocol.md#l6).
    pub full_look: Option<RelayCounter>,
    /// Where the next look goes on; in the row from now on.
    pub cursor: Option<Cursor>,
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
    /// Lanes that must see to what is committed, whatever becomes of this turn (docs/protocol.md#l4).
    pub due: Vec<(Lane, Timestamp)>,
    /// Where the account has caps that launches count against: its next revision, with these launches in it.
    pub spending: Option<AccountSpending>,
    /// The least pause that holds it back.
    pub held_by: PauseLevel,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    At(u64),
    /// The generation moved; rebase from this one.
    Raced {
        generation: u64,
    },
    /// What the account's clusters come to has changed; judge again from this.
    Overtaken {
        account: AccountSpending,
    },
    /// The cluster is not active, or paused: nothing may be committed.
    NotActive,
}

/// What one generation stands for.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfenced {
    pub turn: TurnId,
    pub commands: Vec<Command>,
    pub notices: Vec<Notice>,
    /// Lanes that must act on them (docs/protocol.md#l4).
    pub due: Vec<(Lane, Timestamp)>,
}

impl Unfenced {
    /// Most acts of one transaction, which has a row for each besides the generation's, the record's and the lanes', and holds a
    /// hundred: those that cannot be recorded take no more than this many others with them.
    pub const TOGETHER: usize = 40;

    /// Splits the acts into pieces that are recorded one by one.
    pub fn pieces(&self) -> impl Iterator<Item = Self> {
        let count = self.commands.len() + self.notices.len();
        (0..count).step_by(Self::TOGETHER).map(|from| {
            let commands = self.commands.iter().skip(from).take(Self::TOGETHER);
            let commands: Vec<Command> = commands.cloned().collect();
            let notices = self.notices.iter();
            let notices = notices.skip(from.saturating_sub(self.commands.len()));
            let room = Self::TOGETHER - commands.len();
            Self {
                turn: self.turn.clone(),
                notices: notices.take(room).cloned().collect(),
                commands,
                due: self.due.clone(),
            }
        })
    }
}

/// The answer of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Yes,
    /// The condition no longer held: look again.
    No,
}

#[derive(Clone, Debug, Error)]
pub enum LedgerError {
    #[error("the ledger throttles {action}")]
    Throttled { action: String },
    #[error("the ledger denied {action}: {message}")]
    Denied { action: String, message: String },
    /// The request can never succeed as it is, such as one for a row larger than the ledger keeps.
    #[error("the ledger refuses {action}: {message}")]
    Invalid { action: String, message: String },
    #[error("the ledger did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
    /// Left alone: functions of the newer version see to it.
    #[error(
        "row {pk} / {sk} was written by a newer version of the functions (schema {schema}, known here is {known}), and is left to them: \
         deploy that version again if it is not there any more"
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
