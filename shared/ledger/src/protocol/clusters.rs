use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use model::{
    ClusterName, Uid,
    ledger::{Meta, Mode, RelayBeat, SweepMemory},
};
use ports::{
    LedgerError,
    ledger::{ClusterLedger, ClusterSummary},
};

use super::TableLedger;
use crate::{cluster_summaries, commit, key, memory, pauses};

#[async_trait]
impl ClusterLedger for TableLedger {
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

    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError> {
        memory::relay_beat(&self.table, cluster).await
    }

    async fn cluster_summaries(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>, LedgerError> {
        cluster_summaries::cluster_summaries(&self.table, &self.account, clusters).await
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
}
