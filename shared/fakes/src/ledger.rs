use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Evidence, Experience, InstanceId, Lane, NodeClaimName, Notification, Uid,
    budget::{Api, Priority, TokenGrant},
    caps::AccountSpending,
    experience::ZonalShift,
    ids::{LaunchToken, TurnId},
    ledger::{
        Call, ClaimRow, Command, CommandState, InstanceOwner, Intent, IntentState, LaneRow, Lease,
        Meta, Mode, Notice, OfferingKey, Pause, RelayBeat, Request, SweepMemory,
    },
    plan::Expected,
};
use ports::{
    LedgerError,
    ledger::{
        BudgetLedger, ClusterLedger, ClusterSummary, CommandLedger, Commit, Committed,
        ControlLedger, Ended, ExperienceLedger, LaneEnd, LaneLedger, LaunchLedger, MarkerLedger,
        Moved, NoticeLedger, NotificationLedger, OwnershipLedger, PlanLedger, Record, Taken,
        Unfenced,
    },
};

use crate::sim::Sim;

/// Forwards each call to the real ledger over the in-memory table, through [`Sim::changing_call`] or [`Sim::neutral_call`].
macro_rules! ledger_calls {
    ($concern:ident: $($kind:ident $name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $concern for Sim {$(
            async fn $name(&self, $($argument: $of),*) -> Result<$answer, LedgerError> {
                let ledger = self.table_ledger();
                self.$kind(stringify!($name), |world| {
                    let now = world.now;
                    world.ledger.act(now, ledger.$name($($argument),*))
                })
                .await
            }
        )*}
    };
}

ledger_calls! {
    LaneLedger:
    neutral_call take_lane(cluster: &ClusterName, lane: Lane, lease: &Lease, now: Timestamp) -> Taken;
    neutral_call end_lane(cluster: &ClusterName, lane: Lane, turn: &TurnId, end: &LaneEnd) -> Ended;
    neutral_call lanes(cluster: &ClusterName) -> Vec<(Lane, LaneRow)>;
    neutral_call make_due(cluster: &ClusterName, lane: Lane, when: Timestamp) -> ();
    neutral_call set_timer(cluster: &ClusterName, lane: Lane, now: Timestamp, due: Timestamp) -> bool;
}

ledger_calls! {
    ClusterLedger:
    neutral_call clusters() -> Vec<ClusterName>;
    neutral_call meta(cluster: &ClusterName) -> Option<Meta>;
    changing_call mirror_registry(cluster: &ClusterName, registry: &serde_json::Value, mode: &Mode) -> ();
    changing_call identify(cluster: &ClusterName, uid: &Uid) -> ();
    neutral_call relay_beat(cluster: &ClusterName) -> Option<RelayBeat>;
    neutral_call cluster_summaries(clusters: &BTreeSet<ClusterName>) -> BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>;
    neutral_call sweep_memory(cluster: &ClusterName) -> SweepMemory;
    neutral_call store_sweep_memory(cluster: &ClusterName, memory: &SweepMemory) -> ();
}

ledger_calls! {
    ControlLedger:
    neutral_call pauses(of: Option<&ClusterName>) -> Vec<Pause>;
    changing_call store_pauses(of: Option<&ClusterName>, from: &[Pause], to: &[Pause]) -> Moved;
    changing_call store_requests(cluster: &ClusterName, from: &[Request], to: &[Request]) -> Moved;
    neutral_call spending() -> AccountSpending;
    changing_call store_spending(next: &AccountSpending) -> Moved;
}

ledger_calls! {
    PlanLedger:
    changing_call commit(cluster: &ClusterName, commit: &Commit) -> Committed;
    neutral_call committed_since(cluster: &ClusterName, generation: u64) -> Vec<Record>;
    changing_call record_unfenced(cluster: &ClusterName, acts: &Unfenced) -> u64;
}

ledger_calls! {
    LaunchLedger:
    neutral_call intents(cluster: &ClusterName) -> Vec<Intent>;
    neutral_call launched(cluster: &ClusterName) -> Vec<NodeClaimName>;
    neutral_call intent(cluster: &ClusterName, claim: &NodeClaimName) -> Option<Intent>;
    changing_call lease_intent(cluster: &ClusterName, claim: &NodeClaimName, lease: &Lease, now: Timestamp) -> Option<Intent>;
    changing_call move_intent(cluster: &ClusterName, turn: &TurnId, from: &Intent, to: &IntentState) -> Moved;
    changing_call adopt_intent(cluster: &ClusterName, intent: &Intent, lane: Lane, due: Timestamp) -> Moved;
    changing_call freeze(cluster: &ClusterName, turn: &TurnId, call: &Call) -> Moved;
    neutral_call call(cluster: &ClusterName, token: &LaunchToken) -> Option<Call>;
    neutral_call open_calls(cluster: &ClusterName) -> Vec<Call>;
    changing_call lease_call(cluster: &ClusterName, token: &LaunchToken, lease: &Lease, now: Timestamp) -> Option<Call>;
    changing_call close_call(cluster: &ClusterName, token: &LaunchToken, turn: &TurnId) -> Moved;
}

ledger_calls! {
    OwnershipLedger:
    changing_call own(cluster: &ClusterName, claim: &NodeClaimName, instance: &InstanceId, token: &LaunchToken) -> Moved;
    neutral_call owner(instance: &InstanceId) -> Option<InstanceOwner>;
    neutral_call claim(cluster: &ClusterName, claim: &NodeClaimName) -> Option<ClaimRow>;
    changing_call close_claim(cluster: &ClusterName, claim: &NodeClaimName) -> ();
    changing_call forget_claim(cluster: &ClusterName, claim: &NodeClaimName, now: Timestamp) -> ();
    changing_call collect(cluster: &ClusterName, instance: &InstanceId, now: Timestamp) -> Moved;
    neutral_call remember_unmanaged(instance: &InstanceId, until: Timestamp) -> ();
    neutral_call is_unmanaged(instance: &InstanceId, now: Timestamp) -> bool;
}

ledger_calls! {
    CommandLedger:
    neutral_call commands(cluster: &ClusterName) -> Vec<Command>;
    changing_call move_command(cluster: &ClusterName, from: &Command, to: CommandState) -> Moved;
    changing_call note_initialized(cluster: &ClusterName, command: &Command, replacements: &[NodeClaimName]) -> Moved;
    changing_call forget_command(cluster: &ClusterName, command: &Command) -> ();
}

ledger_calls! {
    NoticeLedger:
    neutral_call notices(cluster: &ClusterName) -> Vec<Notice>;
    changing_call finish_notice(cluster: &ClusterName, instance: &InstanceId, kind: &str) -> ();
}

ledger_calls! {
    ExperienceLedger:
    neutral_call experience(cluster: &ClusterName, now: Timestamp) -> Experience;
    changing_call mark_unavailable(offering: &OfferingKey, now: Timestamp) -> ();
    changing_call mark_full(subnet: &str, now: Timestamp) -> ();
    neutral_call measure_memory(instance_type: &str, image: &str, bytes: i64, now: Timestamp) -> ();
    neutral_call evidence() -> Vec<Evidence>;
    changing_call store_evidence(evidence: &Evidence) -> ();
    changing_call store_zonal_shifts(cluster: &ClusterName, shifts: &[ZonalShift]) -> ();
    neutral_call zonal_shifts(cluster: &ClusterName) -> Vec<ZonalShift>;
}

ledger_calls! {
    BudgetLedger:
    neutral_call draw(api: Api, wanted: u32, priority: Priority, now: Timestamp) -> TokenGrant;
    neutral_call throttled(api: Api, now: Timestamp) -> ();
}

ledger_calls! {
    MarkerLedger:
    neutral_call nominate(cluster: &ClusterName, expected: &BTreeMap<Expected, Timestamp>, now: Timestamp) -> ();
    neutral_call nominations(cluster: &ClusterName, now: Timestamp) -> BTreeMap<Expected, Timestamp>;
    neutral_call once(cluster: &ClusterName, key: &str, now: Timestamp, until: Timestamp) -> bool;
    neutral_call said(cluster: &ClusterName, prefix: &str, now: Timestamp) -> BTreeSet<String>;
}

ledger_calls! {
    NotificationLedger:
    neutral_call put_notifications(cluster: &ClusterName, notifications: &[Notification]) -> ();
    neutral_call notifications(cluster: &ClusterName) -> Vec<Notification>;
    neutral_call finish_notification(cluster: &ClusterName, notification: &Notification) -> ();
}
