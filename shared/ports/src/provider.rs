use std::{collections::BTreeMap, sync::Arc};

use api::{EC2NodeClass, karpenter::EC2NodeClassStatus};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceType,
    launch::{FleetAnswer, FleetRequest, LaunchReading, LaunchRefusal},
    ledger::UnavailableOffering,
    node_pool::NodePool,
    plan::Launch,
};

use crate::CloudError;

/// What can be launched through a NodeClass.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// The types that the NodeClass allows, with prices and offerings in its zones; those that lately had no capacity are not
    /// available. `settings` is that object of the registry entry (`vmMemoryOverheadPercent`, `reservedENIs` …).
    async fn instance_types(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        settings: &serde_json::Value,
        unavailable: &[UnavailableOffering],
    ) -> Result<Arc<Vec<InstanceType>>, CloudError>;
}

/// Resolves what a NodeClass selects.
#[async_trait]
pub trait NodeClassResolver: Send + Sync {
    /// The whole status as it should be: subnets, security groups, images, instance profile, and a condition for each,
    /// also for what could not be resolved. An error only if nothing can be said. `node_pools` say what launches are tried
    /// with.
    async fn resolve(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        node_pools: &[NodePool],
        now: Timestamp,
    ) -> Result<EC2NodeClassStatus, CloudError>;

    /// Removes what was made for a NodeClass that is being deleted.
    async fn release(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
    ) -> Result<(), CloudError>;
}

/// Prepares launches: gathers what requests depend on besides the NodeClaim and its NodeClass.
#[async_trait]
pub trait Launches: Send + Sync {
    /// Facts for all launches of one turn; `entry` is the cluster's registry entry.
    async fn prepare(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Box<dyn LaunchBuilder>, CloudError>;
}

/// Makes launch requests from prepared facts; pure.
pub trait LaunchBuilder: Send + Sync {
    /// The request for one instance of this launch, without a token. Launches with equal requests may share a call.
    fn request(
        &self,
        launch: &Launch,
        node_class: &EC2NodeClass,
        instance_types: &[InstanceType],
    ) -> Result<FleetRequest, LaunchRefusal>;

    /// What CreateFleet's answer means. `zone_ids` knows zones by name.
    fn read(
        &self,
        request: &FleetRequest,
        answer: &FleetAnswer,
        zone_ids: &BTreeMap<&str, &str>,
    ) -> LaunchReading;

    /// Why a call that EC2 refused as a whole gave its NodeClaims nothing.
    fn refused(&self, error: &CloudError) -> LaunchRefusal;
}
