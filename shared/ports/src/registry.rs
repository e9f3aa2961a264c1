use std::sync::Arc;

use async_trait::async_trait;
use model::ClusterName;
use thiserror::Error;

use crate::{Cluster, ClusterError};

/// Registry of clusters.
#[async_trait]
pub trait Registry: Send + Sync {
    /// All entries, or an error. An entry that cannot be parsed carries its parse error.
    async fn entries(&self) -> Result<Vec<RegistryEntry>, RegistryError>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct RegistryEntry {
    pub cluster: ClusterName,
    /// The entry's JSON object, or a message for its author that explains why it cannot be parsed.
    pub body: Result<serde_json::Value, String>,
}

#[derive(Clone, Debug, Error)]
pub enum RegistryError {
    #[error("the registry denied {action}: {message}")]
    Denied { action: String, message: String },
    #[error("the registry did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
}

/// Connects to a cluster's API server by its registry entry. `NoCluster` if EKS has no cluster of this name.
#[async_trait]
pub trait Clusters: Send + Sync {
    async fn connect(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Arc<dyn Cluster>, ClusterError>;
}
