use std::sync::Arc;

use api::{EC2NodeClass, karpenter::EC2NodeClassStatus};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, InstanceType};

use crate::CloudError;

/// What can be launched through a NodeClass.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// The types that the NodeClass allows, with prices and offerings in its zones. Memory of missing capacity is the
    /// caller's business. `settings` is that object of the registry entry (`vmMemoryOverheadPercent`, `reservedENIs` …).
    async fn instance_types(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        settings: &serde_json::Value,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError>;
}

/// Resolves what a NodeClass selects.
#[async_trait]
pub trait NodeClassResolver: Send + Sync {
    /// The whole status as it should be: subnets, security groups, images, instance profile, and a condition for each,
    /// also for what could not be resolved. An error only if nothing can be said.
    async fn resolve(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        now: Timestamp,
    ) -> Result<EC2NodeClassStatus, CloudError>;

    /// Removes what was made for a NodeClass that is being deleted.
    async fn release(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
    ) -> Result<(), CloudError>;
}
