use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// The clock, for the outermost layer only: a turn reads it once and passes the time on; the executor checks deadlines
/// by it.
#[async_trait]
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Returns after `time`. Never returns on a clock that stands still.
    async fn sleep(&self, _time: SignedDuration) {
        std::future::pending().await
    }
}
