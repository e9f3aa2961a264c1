use async_trait::async_trait;
use model::{ClusterName, InstanceId, ledger::Notice};
use ports::{LedgerError, ledger::NoticeLedger};

use super::TableLedger;
use crate::commands;

#[async_trait]
impl NoticeLedger for TableLedger {
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
}
