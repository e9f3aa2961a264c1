use async_trait::async_trait;
use model::{
    ClusterName,
    caps::AccountSpending,
    ledger::{Pause, Request},
};
use ports::{
    LedgerError,
    ledger::{ControlLedger, Moved},
};

use super::TableLedger;
use crate::{pauses, requests, spending};

#[async_trait]
impl ControlLedger for TableLedger {
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
}
