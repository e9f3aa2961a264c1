use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// The system clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

#[async_trait]
impl ports::Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where time enters a function"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, time: SignedDuration) {
        tokio::time::sleep(Duration::try_from(time).unwrap_or_default()).await;
    }
}
