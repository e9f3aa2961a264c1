use async_trait::async_trait;
use jiff::SignedDuration;
use model::Wake;
use thiserror::Error;

/// Sends wakes to the queue of their lane.
#[async_trait]
pub trait Wakes: Send + Sync {
    /// Sends a wake with a delay of at most [`DELAY_MAX`]. Longer delays are handled by the lane's due time and the
    /// sweep.
    async fn send(&self, wake: &Wake, delay: SignedDuration) -> Result<(), QueueError>;
}

pub use crate::limits::sqs::DELAY_MAX;

#[derive(Debug, Error)]
pub enum QueueError {
    #[error("the queue for {lane} did not accept the wake: {message}")]
    Unavailable { lane: model::Lane, message: String },
}
