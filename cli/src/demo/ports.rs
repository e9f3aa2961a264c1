//! The smaller ports of turns in the demo: clock, registry, metrics, and the connection to the cluster.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, ledger::Mode};
use ports::{
    Clock, Cluster, ClusterError, Clusters, Metric, Metrics, Registry, RegistryError,
    registry::RegistryEntry,
};
use sandbox::WorldClock;
use serde_json::Value;

use super::names::CLUSTER;

pub(super) struct SharedClock(pub(super) WorldClock);

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A registry with one entry.
pub(super) struct OneCluster(Mutex<Value>);

impl OneCluster {
    pub(super) fn new(entry: Value) -> Self {
        Self(Mutex::new(entry))
    }

    /// Sets the entry's mode, as `whittle activate` and `whittle deactivate` do.
    pub(super) fn set_mode(&self, mode: Mode) {
        let mut entry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entry.as_object_mut() {
            let mode = match mode {
                Mode::Active => "active",
                Mode::Shadow => "shadow",
            };
            entry.insert("mode".to_owned(), mode.into());
        }
    }
}

#[async_trait]
impl Registry for OneCluster {
    async fn entries(&self) -> Result<Vec<RegistryEntry>, RegistryError> {
        let entry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(vec![RegistryEntry {
            cluster: CLUSTER.into(),
            body: Ok(entry.clone()),
        }])
    }
}

/// Metrics that are dropped: the demo shows events instead.
pub(super) struct DroppedMetrics;

impl Metrics for DroppedMetrics {
    fn publish(&self, _: Option<&ClusterName>, _: Timestamp, _: &[Metric]) {}
}

/// A cluster with an open connection. Turns that connect read the cluster's identity, as deployed functions do.
pub(super) struct Connected(pub(super) Arc<dyn Cluster>);

#[async_trait]
impl Clusters for Connected {
    async fn connect(&self, _: &ClusterName, _: &Value) -> Result<Arc<dyn Cluster>, ClusterError> {
        self.0.identity().await?;
        Ok(self.0.clone())
    }
}
