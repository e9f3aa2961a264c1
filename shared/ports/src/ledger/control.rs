use async_trait::async_trait;
use model::{
    ClusterName,
    caps::AccountSpending,
    ledger::{Pause, Request},
};

use super::{LedgerError, Moved};

/// Control by users: pauses, approval requests, and the account's caps with its spending.
#[async_trait]
pub trait ControlLedger: Send + Sync {
    /// Pauses of a cluster and its NodePools, or of the account, as stored: including expired ones.
    async fn pauses(&self, of: Option<&ClusterName>) -> Result<Vec<Pause>, LedgerError>;
    /// Replaces the pauses of a cluster and its NodePools, or of the account, if they still equal `from`. A cluster
    /// without META has no pauses.
    async fn store_pauses(
        &self,
        of: Option<&ClusterName>,
        from: &[Pause],
        to: &[Pause],
    ) -> Result<Moved, LedgerError>;
    /// Replaces a cluster's approval requests, which `meta` returns, if they still equal `from`.
    async fn store_requests(
        &self,
        cluster: &ClusterName,
        from: &[Request],
        to: &[Request],
    ) -> Result<Moved, LedgerError>;
    /// Caps and spending of the account. `meta` returns them, too.
    async fn spending(&self) -> Result<AccountSpending, LedgerError>;
    /// Replaces caps and spending of the account, if `next` is the revision after the stored one.
    async fn store_spending(&self, next: &AccountSpending) -> Result<Moved, LedgerError>;
}
