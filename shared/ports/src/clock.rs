use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// The time, for the outermost layer only: a turn reads it once and passes it on; the executor uses it for deadlines.
#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Returns after this time. On a clock that stands still nothing is ever late, so that it never returns.
    async fn sleep(&self, _time: SignedDuration) {
        std::future::pending().await
    }
}
