use async_trait::async_trait;
use jiff::Timestamp;
use model::budget::{Api, Priority, TokenGrant};

use super::LedgerError;

/// The account's budget of EC2 calls.
#[async_trait]
pub trait BudgetLedger: Send + Sync {
    /// Draws up to `wanted` calls from the account's budget.
    async fn draw(
        &self,
        api: Api,
        wanted: u32,
        priority: Priority,
        now: Timestamp,
    ) -> Result<TokenGrant, LedgerError>;
    /// Records that EC2 throttled a call, which slows down all processes.
    async fn throttled(&self, api: Api, now: Timestamp) -> Result<(), LedgerError>;
}
