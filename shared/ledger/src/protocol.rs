use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Evidence, Experience, InstanceId, Lane, NodeClaimName, Notification, Uid,
    budget::{Api, Priority, TokenGrant},
    caps::AccountSpending,
    experience::{MeasuredMemory, ZonalShift},
    ids::{LaunchToken, TurnId},
    ledger::{
        Call, ClaimRow, Command, CommandState, InstanceOwner, Intent, IntentState, LaneRow, Lease,
        Meta, Mode, Notice, OfferingKey, Pause, RelayBeat, Request, SweepMemory,
    },
    plan::Expected,
};
use ports::{
    Ledger, LedgerError,
    ledger::{ClusterSummary, Commit, Committed, Ended, LaneEnd, Moved, Record, Taken, Unfenced},
};

use crate::{
    budget, cluster_summaries, commands, commit, experience, key, lanes, launches, memory,
    ownership, pauses, requests, spending, store::Store, table::Table,
};

/// The ledger of one account and Region, in one table.
pub struct TableLedger {
    table: Store,
    account: key::Account,
}

impl TableLedger {
    pub fn new(table: Arc<dyn Table>, account: &str, region: &str) -> Self {
        Self {
            table: Store::new(table),
            account: key::Account::new(account, region),
        }
    }

    /// Writes rows with another schema version than [`model::ledger::SCHEMA`], as a newer build would.
    #[must_use]
    pub fn with_schema_version(self, schema: u32) -> Self {
        Self {
            table: self.table.with_schema_version(schema),
            ..self
        }
    }

    pub(crate) fn store_and_account(&self) -> (&Store, &key::Account) {
        (&self.table, &self.account)
    }
}

#[async_trait]
impl Ledger for TableLedger {
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError> {
        lanes::take(&self.table, cluster, lane, lease, now).await
    }

    async fn end_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        turn: &TurnId,
        end: &LaneEnd,
    ) -> Result<Ended, LedgerError> {
        lanes::end(&self.table, cluster, lane, turn, end).await
    }

    async fn lanes(&self, cluster: &ClusterName) -> Result<Vec<(Lane, LaneRow)>, LedgerError> {
        lanes::all(&self.table, cluster).await
    }

    async fn make_due(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        when: Timestamp,
    ) -> Result<(), LedgerError> {
        lanes::make_due(&self.table, cluster, lane, when).await
    }

    async fn clusters(&self) -> Result<Vec<ClusterName>, LedgerError> {
        let rows = self.table.query(key::CLUSTERS, "").await?;
        Ok(rows.iter().map(|row| row.sort_key().into()).collect())
    }

    async fn meta(&self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError> {
        let (meta, (of_account, account)) = futures::try_join!(
            commit::meta(&self.table, cluster),
            pauses::of_account(&self.table, &self.account),
        )?;
        Ok(meta.map(|mut meta| {
            meta.pauses.extend(of_account);
            meta.account = account;
            meta
        }))
    }

    async fn mirror_registry(
        &self,
        cluster: &ClusterName,
        registry: &serde_json::Value,
        mode: &Mode,
    ) -> Result<(), LedgerError> {
        commit::mirror_registry(&self.table, cluster, registry, mode).await
    }

    async fn identify(&self, cluster: &ClusterName, uid: &Uid) -> Result<(), LedgerError> {
        commit::identify(&self.table, cluster, uid).await
    }

    async fn pauses(&self, of: Option<&ClusterName>) -> Result<Vec<Pause>, LedgerError> {
        pauses::pauses(&self.table, &self.account, of).await
    }

    async fn store_pauses(
        &self,
        of: Option<&ClusterName>,
        from: &[Pause],
        to: &[Pause],
    ) -> Result<Moved, LedgerError> {
        pauses::store(&self.table, &self.account, of, from, to).await
    }

    async fn store_requests(
        &self,
        cluster: &ClusterName,
        from: &[Request],
        to: &[Request],
    ) -> Result<Moved, LedgerError> {
        requests::store(&self.table, cluster, from, to).await
    }

    async fn spending(&self) -> Result<AccountSpending, LedgerError> {
        spending::spending(&self.table, &self.account).await
    }

    async fn store_spending(&self, next: &AccountSpending) -> Result<Moved, LedgerError> {
        spending::store(&self.table, &self.account, next).await
    }

    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError> {
        memory::relay_beat(&self.table, cluster).await
    }

    async fn commit(
        &self,
        cluster: &ClusterName,
        commit: &Commit,
    ) -> Result<Committed, LedgerError> {
        commit::commit(&self.table, &self.account, cluster, commit).await
    }

    async fn committed_since(
        &self,
        cluster: &ClusterName,
        generation: u64,
    ) -> Result<Vec<Record>, LedgerError> {
        commit::since(&self.table, cluster, generation).await
    }

    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError> {
        launches::intents(&self.table, cluster).await
    }

    async fn launched(&self, cluster: &ClusterName) -> Result<Vec<NodeClaimName>, LedgerError> {
        launches::launched(&self.table, cluster).await
    }

    async fn intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<Intent>, LedgerError> {
        launches::intent(&self.table, cluster, claim).await
    }

    async fn lease_intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Intent>, LedgerError> {
        launches::lease_intent(&self.table, cluster, claim, lease, now).await
    }

    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &IntentState,
    ) -> Result<Moved, LedgerError> {
        launches::move_intent(&self.table, cluster, turn, from, to).await
    }

    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
        lane: Lane,
        due: Timestamp,
    ) -> Result<Moved, LedgerError> {
        launches::adopt(&self.table, cluster, intent, lane, due).await
    }

    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        ownership::forget(&self.table, cluster, claim, now).await
    }

    async fn freeze(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        call: &Call,
    ) -> Result<Moved, LedgerError> {
        launches::freeze(&self.table, cluster, turn, call).await
    }

    async fn call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Option<Call>, LedgerError> {
        launches::call(&self.table, cluster, token).await
    }

    async fn open_calls(&self, cluster: &ClusterName) -> Result<Vec<Call>, LedgerError> {
        launches::open_calls(&self.table, cluster).await
    }

    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError> {
        launches::lease_call(&self.table, cluster, token, lease, now).await
    }

    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError> {
        launches::close_call(&self.table, cluster, token, turn).await
    }

    async fn own(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        instance: &InstanceId,
        token: &LaunchToken,
    ) -> Result<Moved, LedgerError> {
        ownership::own(&self.table, cluster, claim, instance, token).await
    }

    async fn owner(&self, instance: &InstanceId) -> Result<Option<InstanceOwner>, LedgerError> {
        ownership::owner(&self.table, instance).await
    }

    async fn claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<ClaimRow>, LedgerError> {
        ownership::claim(&self.table, cluster, claim).await
    }

    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError> {
        ownership::close(&self.table, cluster, claim).await
    }

    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<Moved, LedgerError> {
        ownership::collect(&self.table, cluster, instance, now).await
    }

    async fn record_unfenced(
        &self,
        cluster: &ClusterName,
        acts: &Unfenced,
    ) -> Result<u64, LedgerError> {
        commit::record_unfenced(&self.table, cluster, acts).await
    }

    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError> {
        commands::commands(&self.table, cluster).await
    }

    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: CommandState,
    ) -> Result<Moved, LedgerError> {
        commands::move_command(&self.table, cluster, from, to).await
    }

    async fn note_initialized(
        &self,
        cluster: &ClusterName,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Result<Moved, LedgerError> {
        commands::note_initialized(&self.table, cluster, command, replacements).await
    }

    async fn forget_command(
        &self,
        cluster: &ClusterName,
        command: &Command,
    ) -> Result<(), LedgerError> {
        commands::forget(&self.table, cluster, command).await
    }

    async fn notices(&self, cluster: &ClusterName) -> Result<Vec<Notice>, LedgerError> {
        commands::notices(&self.table, cluster).await
    }

    async fn finish_notice(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        kind: &str,
    ) -> Result<(), LedgerError> {
        commands::finish_notice(&self.table, cluster, instance, kind).await
    }

    async fn put_notifications(
        &self,
        cluster: &ClusterName,
        notifications: &[Notification],
    ) -> Result<(), LedgerError> {
        memory::put_notifications(&self.table, cluster, notifications).await
    }

    async fn notifications(&self, cluster: &ClusterName) -> Result<Vec<Notification>, LedgerError> {
        memory::notifications(&self.table, cluster).await
    }

    async fn finish_notification(
        &self,
        cluster: &ClusterName,
        notification: &Notification,
    ) -> Result<(), LedgerError> {
        memory::finish_notification(&self.table, cluster, notification).await
    }

    async fn experience(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<Experience, LedgerError> {
        experience::all(&self.table, &self.account, cluster, now).await
    }

    async fn mark_unavailable(
        &self,
        offering: &OfferingKey,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        experience::mark_unavailable(&self.table, &self.account, offering, now).await
    }

    async fn mark_full(&self, subnet: &str, now: Timestamp) -> Result<(), LedgerError> {
        experience::mark_full(&self.table, &self.account, subnet, now).await
    }

    async fn measure_memory(
        &self,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let key = self.account.measured(instance_type, image);
        experience::measure_memory(&self.table, &key, |before| {
            MeasuredMemory::after(before, instance_type, image, bytes, now)
        })
        .await
    }

    async fn evidence(&self) -> Result<Vec<Evidence>, LedgerError> {
        experience::evidence(&self.table, &self.account).await
    }

    async fn store_evidence(&self, evidence: &Evidence) -> Result<(), LedgerError> {
        experience::store_evidence(&self.table, &self.account, evidence).await
    }

    async fn store_zonal_shifts(
        &self,
        cluster: &ClusterName,
        shifts: &[ZonalShift],
    ) -> Result<(), LedgerError> {
        experience::store_zonal_shifts(&self.table, cluster, shifts).await
    }

    async fn zonal_shifts(&self, cluster: &ClusterName) -> Result<Vec<ZonalShift>, LedgerError> {
        experience::zonal_shifts(&self.table, cluster).await
    }

    async fn draw(
        &self,
        api: Api,
        wanted: u32,
        priority: Priority,
        now: Timestamp,
    ) -> Result<TokenGrant, LedgerError> {
        budget::draw(&self.table, &self.account, api, wanted, priority, now).await
    }

    async fn throttled(&self, api: Api, now: Timestamp) -> Result<(), LedgerError> {
        budget::throttled(&self.table, &self.account, api, now).await
    }

    async fn nominate(
        &self,
        cluster: &ClusterName,
        expected: &BTreeMap<Expected, Timestamp>,
        _now: Timestamp,
    ) -> Result<(), LedgerError> {
        memory::nominate(&self.table, cluster, expected).await
    }

    async fn nominations(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<BTreeMap<Expected, Timestamp>, LedgerError> {
        memory::nominations(&self.table, cluster, now).await
    }

    async fn once(
        &self,
        cluster: &ClusterName,
        key: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, LedgerError> {
        memory::once(&self.table, cluster, key, now, until).await
    }

    async fn set_timer(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<bool, LedgerError> {
        memory::set_timer(&self.table, cluster, lane, now, due).await
    }

    async fn said(
        &self,
        cluster: &ClusterName,
        prefix: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, LedgerError> {
        memory::said(&self.table, cluster, prefix, now).await
    }

    async fn remember_unmanaged(
        &self,
        instance: &InstanceId,
        until: Timestamp,
    ) -> Result<(), LedgerError> {
        ownership::remember_unmanaged(&self.table, instance, until).await
    }

    async fn is_unmanaged(
        &self,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<bool, LedgerError> {
        ownership::is_unmanaged(&self.table, instance, now).await
    }

    async fn sweep_memory(&self, cluster: &ClusterName) -> Result<SweepMemory, LedgerError> {
        memory::sweep_memory(&self.table, cluster).await
    }

    async fn store_sweep_memory(
        &self,
        cluster: &ClusterName,
        memory: &SweepMemory,
    ) -> Result<(), LedgerError> {
        memory::store_sweep_memory(&self.table, cluster, memory).await
    }

    async fn cluster_summaries(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>, LedgerError> {
        cluster_summaries::cluster_summaries(&self.table, &self.account, clusters).await
    }
}
