use async_trait::async_trait;
use model::{ClusterName, InstanceId, ledger::Notice};

use super::LedgerError;

/// Notices of interruptions.
#[async_trait]
pub trait NoticeLedger: Send + Sync {
    /// Notices that are not done.
    async fn notices(&self, cluster: &ClusterName) -> Result<Vec<Notice>, LedgerError>;
    async fn finish_notice(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        kind: &str,
    ) -> Result<(), LedgerError>;
}
