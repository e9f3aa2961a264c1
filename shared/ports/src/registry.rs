use std::sync::Arc;

use async_trait::async_trait;
use model::ClusterName;
use thiserror::Error;

use crate::{Cluster, ClusterError};

/// Where clusters are registered.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Every entry, complete, or an error. An entry that cannot be read carries what is wrong with it.
    async fn entries(&self) -> Result<Vec<RegistryEntry>, RegistryError>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct RegistryEntry {
    pub cluster: ClusterName,
    /// The entry's JSON object, or what is wrong with it, in words for its author.
    pub body: Result<serde_json::Value, String>,
}

#[derive(Clone, Debug, Error)]
pub enum RegistryError {
    #[error("the registry denied {action}: {message}")]
    Denied { action: String, message: String },
    #[error("the registry did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
}

/// Opens the API server of a cluster from its registry entry; `NoCluster` where EKS says that it has none of this name.
#[async_trait]
pub trait Clusters: Send + Sync {
    async fn connect(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Arc<dyn Cluster>, ClusterError>;
}
