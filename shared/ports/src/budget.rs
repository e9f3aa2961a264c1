use async_trait::async_trait;
use jiff::Timestamp;
use model::budget::Api;

/// The account's budget of EC2 calls, as one process draws from it: every request passes here before it is sent, pages and
/// repetitions included (docs/design.md#call-budget, docs/design.md#throttling).
#[async_trait]
pub trait Budget: Send + Sync {
    /// Takes one call out of the budget, waiting a little where that helps.
    async fn spend(&self, api: Api) -> Result<(), Spent>;

    /// Has a call of this kind ready for whoever asks, so that what must not be begun in vain can be begun. What is not spent
    /// within seconds is lost.
    async fn hold(&self, api: Api) -> Result<(), Spent>;

    /// EC2 refused a call for there being too many.
    async fn throttled(&self, api: Api);
}

/// Nothing is left for who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// When there may be something again.
    pub until: Timestamp,
}
