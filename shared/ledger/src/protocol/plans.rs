use async_trait::async_trait;
use model::ClusterName;
use ports::{
    LedgerError,
    ledger::{Commit, Committed, PlanLedger, Record, Unfenced},
};

use super::TableLedger;
use crate::commit;

#[async_trait]
impl PlanLedger for TableLedger {
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

    async fn record_unfenced(
        &self,
        cluster: &ClusterName,
        acts: &Unfenced,
    ) -> Result<u64, LedgerError> {
        commit::record_unfenced(&self.table, cluster, acts).await
    }
}
