//! Where wakes and heartbeats go.

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, Wake, view::ViewPointer};
use view::Issue;

use crate::counters::Counters;

/// The proof that the relay is alive and what it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub cluster: ClusterName,
    /// Names the process: counters of two epochs cannot be compared.
    pub epoch: String,
    /// For people; staleness is judged by the reader's own clock.
    pub at: Timestamp,
    pub version: &'static str,
    pub api_server: String,
    pub counters: Counters,
    /// The newest view of the cluster's pods, where they are published.
    pub view: Option<ViewPointer>,
}

/// The queues and the ledger row, or their stand-in in tests.
#[async_trait]
pub trait Sink: Send + Sync {
    async fn send(&self, wake: &Wake) -> Result<(), SinkError>;
    async fn beat(&self, beat: &Beat) -> Result<(), SinkError>;
    /// Puts a version of the view into the stack's bucket.
    async fn publish(&self, issue: Issue) -> Result<(), SinkError>;
}

/// A wake or heartbeat that did not arrive, or whose arrival is unknown. Trying again is always safe.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct SinkError {
    /// What was tried, naming the queue or table.
    pub what: String,
    /// The whole chain of causes, as text.
    pub cause: String,
}
