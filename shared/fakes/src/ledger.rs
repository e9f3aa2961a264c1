use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Evidence, Experience, InstanceId, Lane, NodeClaimName, Notification, Uid,
    budget::{Api, Draw, Priority},
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
    Ledger, LedgerError,
    ledger::{Commit, Committed, Ended, Glance, LaneEnd, Moved, Record, Taken, Unfenced},
};

use crate::sim::Sim;

/// Each call is the real ledger's, over the table in memory, through [`Sim::port`] or [`Sim::aside`].
macro_rules! ledger_calls {
    ($($kind:ident $name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Ledger for Sim {$(
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
    aside take_lane(cluster: &ClusterName, lane: Lane, lease: &Lease, now: Timestamp) -> Taken;
    aside end_lane(cluster: &ClusterName, lane: Lane, turn: &TurnId, end: &LaneEnd) -> Ended;
    aside lanes(cluster: &ClusterName) -> Vec<(Lane, LaneRow)>;
    aside make_due(cluster: &ClusterName, lane: Lane, when: Timestamp) -> ();
    aside meta(cluster: &ClusterName) -> Option<Meta>;
    port mirror_registry(cluster: &ClusterName, registry: &serde_json::Value, mode: &Mode) -> ();
    port identify(cluster: &ClusterName, uid: &Uid) -> ();
    aside pauses(of: Option<&ClusterName>) -> Vec<Pause>;
    port store_pauses(of: Option<&ClusterName>, from: &[Pause], to: &[Pause]) -> Moved;
    port store_requests(cluster: &ClusterName, from: &[Request], to: &[Request]) -> Moved;
    aside spending() -> AccountSpending;
    port store_spending(next: &AccountSpending) -> Moved;
    aside relay_beat(cluster: &ClusterName) -> Option<RelayBeat>;
    port commit(cluster: &ClusterName, commit: &Commit) -> Committed;
    aside committed_since(cluster: &ClusterName, generation: u64) -> Vec<Record>;
    aside intents(cluster: &ClusterName) -> Vec<Intent>;
    aside launched(cluster: &ClusterName) -> Vec<NodeClaimName>;
    aside intent(cluster: &ClusterName, claim: &NodeClaimName) -> Option<Intent>;
    port lease_intent(cluster: &ClusterName, claim: &NodeClaimName, lease: &Lease, now: Timestamp) -> Option<Intent>;
    port move_intent(cluster: &ClusterName, turn: &TurnId, from: &Intent, to: &IntentState) -> Moved;
    port adopt_intent(cluster: &ClusterName, intent: &Intent, lane: Lane, due: Timestamp) -> Moved;
    port forget_claim(cluster: &ClusterName, claim: &NodeClaimName, now: Timestamp) -> ();
    port freeze(cluster: &ClusterName, turn: &TurnId, call: &Call) -> Moved;
    aside call(cluster: &ClusterName, token: &LaunchToken) -> Option<Call>;
    aside open_calls(cluster: &ClusterName) -> Vec<Call>;
    port lease_call(cluster: &ClusterName, token: &LaunchToken, lease: &Lease, now: Timestamp) -> Option<Call>;
    port close_call(cluster: &ClusterName, token: &LaunchToken, turn: &TurnId) -> Moved;
    aside claim(cluster: &ClusterName, claim: &NodeClaimName) -> Option<ClaimRow>;
    port close_claim(cluster: &ClusterName, claim: &NodeClaimName) -> ();
    port record_unfenced(cluster: &ClusterName, acts: &Unfenced) -> u64;
    aside commands(cluster: &ClusterName) -> Vec<Command>;
    port move_command(cluster: &ClusterName, from: &Command, to: CommandState) -> Moved;
    port note_initialized(cluster: &ClusterName, command: &Command, replacements: &[NodeClaimName]) -> Moved;
    port forget_command(cluster: &ClusterName, command: &Command) -> ();
    aside notices(cluster: &ClusterName) -> Vec<Notice>;
    port finish_notice(cluster: &ClusterName, instance: &InstanceId, kind: &str) -> ();
    aside put_notifications(cluster: &ClusterName, notifications: &[Notification]) -> ();
    aside notifications(cluster: &ClusterName) -> Vec<Notification>;
    aside finish_notification(cluster: &ClusterName, notification: &Notification) -> ();
    aside nominate(cluster: &ClusterName, expected: &BTreeMap<Expected, Timestamp>, now: Timestamp) -> ();
    aside nominations(cluster: &ClusterName, now: Timestamp) -> BTreeMap<Expected, Timestamp>;
    aside once(cluster: &ClusterName, key: &str, now: Timestamp, until: Timestamp) -> bool;
    aside set_timer(cluster: &ClusterName, lane: Lane, now: Timestamp, due: Timestamp) -> bool;
    aside said(cluster: &ClusterName, prefix: &str, now: Timestamp) -> BTreeSet<String>;
    aside sweep_memory(cluster: &ClusterName) -> SweepMemory;
    aside store_sweep_memory(cluster: &ClusterName, memory: &SweepMemory) -> ();
    aside glances(clusters: &BTreeSet<ClusterName>) -> BTreeMap<ClusterName, Result<Glance, LedgerError>>;
    aside clusters() -> Vec<ClusterName>;
    port own(cluster: &ClusterName, claim: &NodeClaimName, instance: &InstanceId, token: &LaunchToken) -> Moved;
    aside owner(instance: &InstanceId) -> Option<InstanceOwner>;
    port collect(cluster: &ClusterName, instance: &InstanceId, now: Timestamp) -> Moved;
    aside experience(cluster: &ClusterName, now: Timestamp) -> Experience;
    port mark_unavailable(offering: &OfferingKey, now: Timestamp) -> ();
    port mark_full(subnet: &str, now: Timestamp) -> ();
    aside measure_memory(instance_type: &str, image: &str, bytes: i64, now: Timestamp) -> ();
    aside draw(api: Api, wanted: u32, priority: Priority, now: Timestamp) -> Draw;
    aside throttled(api: Api, now: Timestamp) -> ();
    aside evidence() -> Vec<Evidence>;
    port store_evidence(evidence: &Evidence) -> ();
    port store_zonal_shifts(cluster: &ClusterName, shifts: &[ZonalShift]) -> ();
    aside zonal_shifts(cluster: &ClusterName) -> Vec<ZonalShift>;
    aside remember_not_ours(instance: &InstanceId, until: Timestamp) -> ();
    aside is_not_ours(instance: &InstanceId, now: Timestamp) -> bool;
}
