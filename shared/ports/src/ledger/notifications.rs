use async_trait::async_trait;
use model::{ClusterName, Notification};

use super::LedgerError;

/// The outbox of notifications.
#[async_trait]
pub trait NotificationLedger: Send + Sync {
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
