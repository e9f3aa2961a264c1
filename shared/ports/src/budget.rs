use async_trait::async_trait;
use jiff::Timestamp;
use model::budget::Api;

/// One process's access to the account's budget of EC2 calls. Every request, including pages and retries, draws from it
/// before it is sent (docs/design.md#call-budget, docs/design.md#throttling).
#[async_trait]
pub trait Budget: Send + Sync {
    /// Draws one call, waiting briefly if that helps.
    async fn spend(&self, api: Api) -> Result<(), BudgetExhausted>;

    /// Reserves one call for a following `spend`, so that work is not started that could not send its request. The
    /// reservation lapses within seconds.
    async fn hold(&self, api: Api) -> Result<(), BudgetExhausted>;

    /// Records that EC2 throttled a call.
    async fn throttled(&self, api: Api);
}

/// The budget has no call left for the caller's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetExhausted {
    /// Earliest time at which a call may be available.
    pub until: Timestamp,
}
