use std::collections::{BTreeMap, BTreeSet};

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
    Archive, ArchiveError, Journal, JournalEntry, LedgerError, MakeObject,
    journal::JournalQuery,
    ledger::{
        BudgetLedger, ClusterLedger, ClusterSummary, CommandLedger, Commit, Committed,
        ControlLedger, Ended, ExperienceLedger, LaneEnd, LaneLedger, LaunchLedger, MarkerLedger,
        Moved, NoticeLedger, NotificationLedger, OwnershipLedger, PlanLedger, Record, Taken,
        Unfenced,
    },
};

use super::{CheckedPorts, delegate};
use crate::{act::Act, planted::Bug};

delegate! {
    LaneLedger for CheckedPorts, LedgerError {
        async fn take_lane(&self, cluster: &ClusterName, lane: Lane, lease: &Lease, now: Timestamp) -> Result<Taken, LedgerError> {
            let mut taken = self.sim.take_lane(cluster, lane, lease, now).await?;
            if self.has(Bug::IgnoreLease) && taken == Taken::Held {
                taken = Taken::Mine(Box::default());
            }
            if let Taken::Mine(_) = taken {
                self.check_before(cluster, &Act::Take { lane, lease });
            }
            Ok(taken)
        }

        async fn end_lane(&self, cluster: &ClusterName, lane: Lane, turn: &TurnId, end: &LaneEnd) -> Result<Ended, LedgerError> {
            self.check_before(cluster, &Act::End { lane, turn });
            let mut end = end.clone();
            if self.has(Bug::SwallowFailures) && end.error.take().is_some() {
                let beat = self.sim.with(|world| world.ledger.of(cluster).beat.clone());
                end.due = None;
                end.full_look = Some(beat.unwrap_or_default().counter(lane));
            }
            if self.has(Bug::ForgetDue) {
                end.due = None;
            }
            self.sim.end_lane(cluster, lane, turn, &end).await
        }
    }
    fn lanes(cluster: &ClusterName) -> Vec<(Lane, LaneRow)>;
    fn make_due(cluster: &ClusterName, lane: Lane, when: Timestamp) -> ();
    fn set_timer(cluster: &ClusterName, lane: Lane, now: Timestamp, due: Timestamp) -> bool;
}

delegate! {
    ClusterLedger for CheckedPorts, LedgerError {
        async fn meta(&self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError> {
            let mut meta = self.sim.meta(cluster).await?;
            if let Some(meta) = &mut meta {
                if self.has(Bug::IgnoreMode) {
                    meta.mode = Mode::Active;
                }
                if self.has(Bug::IgnorePauses) {
                    meta.pauses.clear();
                }
                if self.has(Bug::NoBrake) {
                    let forever = serde_json::json!({"collectUntil": "2099-01-01T00:00:00Z"});
                    if let Some(entry) = meta.registry.as_object_mut() {
                        entry.insert("approvals".to_owned(), forever);
                    }
                }
            }
            Ok(meta)
        }
    }
    fn clusters() -> Vec<ClusterName>;
    fn mirror_registry(cluster: &ClusterName, registry: &serde_json::Value, mode: &Mode) -> ();
    fn identify(cluster: &ClusterName, uid: &Uid) -> ();
    fn relay_beat(cluster: &ClusterName) -> Option<RelayBeat>;
    fn cluster_summaries(clusters: &BTreeSet<ClusterName>) -> BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>;
    fn sweep_memory(cluster: &ClusterName) -> SweepMemory;
    fn store_sweep_memory(cluster: &ClusterName, memory: &SweepMemory) -> ();
}

delegate! {
    ControlLedger for CheckedPorts, LedgerError {}
    fn pauses(of: Option<&ClusterName>) -> Vec<Pause>;
    fn store_pauses(of: Option<&ClusterName>, from: &[Pause], to: &[Pause]) -> Moved;
    fn store_requests(cluster: &ClusterName, from: &[Request], to: &[Request]) -> Moved;
    fn spending() -> AccountSpending;
    fn store_spending(next: &AccountSpending) -> Moved;
}

delegate! {
    PlanLedger for CheckedPorts, LedgerError {
        async fn commit(&self, cluster: &ClusterName, commit: &Commit) -> Result<Committed, LedgerError> {
            let mut commit = commit.clone();
            if self.has(Bug::NoFence) {
                let base = self.sim.with(|world| world.ledger.of(cluster).meta.as_ref().map(|meta| meta.generation));
                commit.base = base.unwrap_or(commit.base);
            }
            if self.has(Bug::ForgetIntents) {
                commit.intents.clear();
            }
            self.check_before(cluster, &Act::Commit(&commit));
            let committed = self.sim.commit(cluster, &commit).await?;
            if let Committed::Raced { generation } = committed {
                self.laws.with(cluster, |laws| laws.raced(self.process, generation));
            }
            Ok(committed)
        }

        async fn committed_since(&self, cluster: &ClusterName, generation: u64) -> Result<Vec<Record>, LedgerError> {
            let records = self.sim.committed_since(cluster, generation).await?;
            self.reads();
            Ok(records)
        }

        async fn record_unfenced(&self, cluster: &ClusterName, acts: &Unfenced) -> Result<u64, LedgerError> {
            let mut acts = acts.clone();
            if self.has(Bug::ForgetNotices) {
                acts.notices.clear();
            }
            self.sim.record_unfenced(cluster, &acts).await
        }
    }
}

delegate! {
    LaunchLedger for CheckedPorts, LedgerError {
        async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError> {
            self.reads();
            let intents = self.sim.intents(cluster).await?;
            Ok(if self.has(Bug::ForgetInFlight) { Vec::new() } else { intents })
        }

        async fn freeze(&self, cluster: &ClusterName, turn: &TurnId, call: &Call) -> Result<Moved, LedgerError> {
            if self.has(Bug::NeverFreeze) {
                return Ok(Moved::Yes);
            }
            self.sim.freeze(cluster, turn, call).await
        }

        async fn lease_call(&self, cluster: &ClusterName, token: &LaunchToken, lease: &Lease, now: Timestamp) -> Result<Option<Call>, LedgerError> {
            if self.has(Bug::NeverResume) {
                return Ok(None);
            }
            self.sim.lease_call(cluster, token, lease, now).await
        }
    }
    fn launched(cluster: &ClusterName) -> Vec<NodeClaimName>;
    fn intent(cluster: &ClusterName, claim: &NodeClaimName) -> Option<Intent>;
    fn lease_intent(cluster: &ClusterName, claim: &NodeClaimName, lease: &Lease, now: Timestamp) -> Option<Intent>;
    fn move_intent(cluster: &ClusterName, turn: &TurnId, from: &Intent, to: &IntentState) -> Moved;
    fn adopt_intent(cluster: &ClusterName, intent: &Intent, lane: Lane, due: Timestamp) -> Moved;
    fn call(cluster: &ClusterName, token: &LaunchToken) -> Option<Call>;
    fn open_calls(cluster: &ClusterName) -> Vec<Call>;
    fn close_call(cluster: &ClusterName, token: &LaunchToken, turn: &TurnId) -> Moved;
}

delegate! {
    OwnershipLedger for CheckedPorts, LedgerError {
        async fn own(&self, cluster: &ClusterName, claim: &NodeClaimName, instance: &InstanceId, token: &LaunchToken) -> Result<Moved, LedgerError> {
            if self.has(Bug::NeverOwn) {
                return Ok(Moved::Yes);
            }
            self.sim.own(cluster, claim, instance, token).await
        }

        async fn close_claim(&self, cluster: &ClusterName, claim: &NodeClaimName) -> Result<(), LedgerError> {
            if self.has(Bug::NeverClose) {
                return Ok(());
            }
            self.sim.close_claim(cluster, claim).await
        }

        async fn forget_claim(&self, cluster: &ClusterName, claim: &NodeClaimName, now: Timestamp) -> Result<(), LedgerError> {
            if self.has(Bug::NeverForget) {
                return Ok(());
            }
            self.sim.forget_claim(cluster, claim, now).await
        }
    }
    fn owner(instance: &InstanceId) -> Option<InstanceOwner>;
    fn claim(cluster: &ClusterName, claim: &NodeClaimName) -> Option<ClaimRow>;
    fn collect(cluster: &ClusterName, instance: &InstanceId, now: Timestamp) -> Moved;
    fn remember_unmanaged(instance: &InstanceId, until: Timestamp) -> ();
    fn is_unmanaged(instance: &InstanceId, now: Timestamp) -> bool;
}

delegate! {
    CommandLedger for CheckedPorts, LedgerError {}
    fn commands(cluster: &ClusterName) -> Vec<Command>;
    fn move_command(cluster: &ClusterName, from: &Command, to: CommandState) -> Moved;
    fn note_initialized(cluster: &ClusterName, command: &Command, replacements: &[NodeClaimName]) -> Moved;
    fn forget_command(cluster: &ClusterName, command: &Command) -> ();
}

delegate! {
    NoticeLedger for CheckedPorts, LedgerError {
        async fn finish_notice(&self, cluster: &ClusterName, instance: &InstanceId, kind: &str) -> Result<(), LedgerError> {
            if self.has(Bug::NeverFinishNotices) {
                return Ok(());
            }
            self.sim.finish_notice(cluster, instance, kind).await
        }
    }
    fn notices(cluster: &ClusterName) -> Vec<Notice>;
}

delegate! {
    ExperienceLedger for CheckedPorts, LedgerError {
        async fn mark_unavailable(&self, offering: &OfferingKey, now: Timestamp) -> Result<(), LedgerError> {
            if self.has(Bug::IgnoreMissingCapacity) {
                return Ok(());
            }
            self.sim.mark_unavailable(offering, now).await
        }
    }
    fn experience(cluster: &ClusterName, now: Timestamp) -> Experience;
    fn mark_full(subnet: &str, now: Timestamp) -> ();
    fn measure_memory(instance_type: &str, image: &str, bytes: i64, now: Timestamp) -> ();
    fn evidence() -> Vec<Evidence>;
    fn store_evidence(evidence: &Evidence) -> ();
    fn store_zonal_shifts(cluster: &ClusterName, shifts: &[ZonalShift]) -> ();
    fn zonal_shifts(cluster: &ClusterName) -> Vec<ZonalShift>;
}

delegate! {
    BudgetLedger for CheckedPorts, LedgerError {}
    fn draw(api: Api, wanted: u32, priority: Priority, now: Timestamp) -> TokenGrant;
    fn throttled(api: Api, now: Timestamp) -> ();
}

delegate! {
    MarkerLedger for CheckedPorts, LedgerError {}
    fn nominate(cluster: &ClusterName, expected: &BTreeMap<Expected, Timestamp>, now: Timestamp) -> ();
    fn nominations(cluster: &ClusterName, now: Timestamp) -> BTreeMap<Expected, Timestamp>;
    fn once(cluster: &ClusterName, key: &str, now: Timestamp, until: Timestamp) -> bool;
    fn said(cluster: &ClusterName, prefix: &str, now: Timestamp) -> BTreeSet<String>;
}

delegate! {
    NotificationLedger for CheckedPorts, LedgerError {}
    fn put_notifications(cluster: &ClusterName, notifications: &[Notification]) -> ();
    fn notifications(cluster: &ClusterName) -> Vec<Notification>;
    fn finish_notification(cluster: &ClusterName, notification: &Notification) -> ();
}

delegate! {
    Journal for CheckedPorts, LedgerError {
        async fn record(&self, cluster: &ClusterName, entry: &JournalEntry) -> Result<(), LedgerError> {
            if self.has(Bug::NoJournal) {
                return Ok(());
            }
            self.sim.record(cluster, entry).await
        }
    }
    fn latest(cluster: &ClusterName, wanted: &JournalQuery) -> Vec<JournalEntry>;
    fn of_turn(cluster: &ClusterName, turn: &TurnId) -> Vec<JournalEntry>;
}

/// Snapshots are not even made: the simulation never reads them.
#[async_trait::async_trait]
impl Archive for CheckedPorts {
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ArchiveError> {
        self.sim.put(name, object).await
    }

    async fn put_lazily(&self, name: &str, _: MakeObject) -> Result<(), ArchiveError> {
        self.put(name, Vec::new()).await
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        Archive::get(&self.sim, name).await
    }
}
