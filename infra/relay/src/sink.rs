//! Destination of wakes and heartbeats.

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, Wake, view::ViewPointer};
use view::ViewVersion;

use crate::counters::Counters;

/// A heartbeat: proof that the relay is alive, with its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRecord {
    pub cluster: ClusterName,
    /// Identifies the process: counters of different epochs cannot be compared.
    pub epoch: String,
    /// Informational; readers measure staleness by their own clock.
    pub at: Timestamp,
    pub version: &'static str,
    pub api_server: String,
    pub counters: Counters,
    /// The newest view of the cluster's pods, if the relay publishes it.
    pub view: Option<ViewPointer>,
}

/// The queues and the ledger row, or their fake in tests.
#[async_trait]
pub trait Sink: Send + Sync {
    async fn send(&self, wake: &Wake) -> Result<(), SinkError>;
    async fn beat(&self, beat: &HeartbeatRecord) -> Result<(), SinkError>;
    /// Stores a version of the view in the stack's bucket.
    async fn publish(&self, issue: ViewVersion) -> Result<(), SinkError>;
}

/// Error of a wake or heartbeat that did not arrive, or may not have arrived. A retry is always safe.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct SinkError {
    /// The attempted action, naming the queue or table.
    pub what: String,
    /// The complete chain of causes.
    pub cause: String,
}
