use async_trait::async_trait;
use model::{ClusterName, Notification};
use ports::{LedgerError, ledger::NotificationLedger};

use super::TableLedger;
use crate::memory;

#[async_trait]
impl NotificationLedger for TableLedger {
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
}
