use async_trait::async_trait;
use jiff::Timestamp;
use model::budget::{Api, Priority, TokenGrant};
use ports::{LedgerError, ledger::BudgetLedger};

use super::TableLedger;
use crate::budget;

#[async_trait]
impl BudgetLedger for TableLedger {
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
}
