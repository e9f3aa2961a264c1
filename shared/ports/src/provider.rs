use std::{collections::BTreeSet, sync::Arc};

use api::{EC2NodeClass, LaunchBuilder, karpenter::EC2NodeClassStatus};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Experience, FreeAddresses, InstanceType, NanosPerHour, Warning,
    experience::ZonalShift, launch::Instance, node_claim::NodeClaim, node_pool::NodePool,
};

use crate::CloudError;

/// Instance types that can be launched through a NodeClass.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Instance types that the NodeClass allows, with prices and offerings in its zones, corrected by shared
    /// experience. `settings` is the object of that name in the registry entry (`vmMemoryOverheadPercent`,
    /// `reservedENIs` …).
    async fn instance_types(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        settings: &serde_json::Value,
        experience: &Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError>;

    /// Hourly price of the volumes that the NodeClass attaches to each node; zero if the provider does not bill them.
    fn volume_price(&self, _node_class: &EC2NodeClass) -> NanosPerHour {
        NanosPerHour(0)
    }

    /// Zones that a zonal shift currently moves the cluster's traffic away from. `entry` is the cluster's registry
    /// entry.
    async fn zonal_shifts(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Vec<ZonalShift>, CloudError>;

    /// Warnings about previous results, such as outdated prices. They are shown to people and stop nothing.
    async fn price_warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Resolves the resources that a NodeClass selects.
#[async_trait]
pub trait NodeClassResolver: Send + Sync {
    /// Resolves the NodeClass's complete status: subnets, security groups, AMIs, instance profile, and a condition for
    /// each, including those that could not be resolved. Fails only if nothing could be determined. `node_pools`
    /// determine the dry runs of launches.
    async fn resolve(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        node_pools: &[NodePool],
        now: Timestamp,
    ) -> Result<Resolved, CloudError>;

    /// Describes the first difference between a node and its NodeClass, if there is one; pure. `types` are resolved
    /// through the NodeClass. The error says why drift cannot be determined, which is the case without the instance,
    /// unless the objects alone show a difference.
    fn drift(
        &self,
        node_class: &EC2NodeClass,
        types: &[InstanceType],
        claim: &NodeClaim,
        instance: Option<&Instance>,
    ) -> Result<Option<String>, String>;

    /// Deletes the resources that were created for a NodeClass that is being deleted.
    async fn release(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
    ) -> Result<(), CloudError>;
}

/// Status, static hash and warnings of a resolved NodeClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    pub status: EC2NodeClassStatus,
    /// Hash of the fields that nodes are launched with; `None` if the spec cannot be hashed.
    pub hash: Option<StaticHash>,
    /// Warnings that no condition reports.
    pub warnings: Vec<Warning>,
}

/// Hash of a NodeClass's static fields. Only hashes of one version are comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticHash {
    pub hash: String,
    pub version: &'static str,
}

/// Prepares launches: reads the facts that requests depend on besides the NodeClaim and its NodeClass.
#[async_trait]
pub trait Launches: Send + Sync {
    /// Reads the facts for all launches of one turn. `entry` is the cluster's registry entry.
    async fn prepare(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Box<dyn LaunchBuilder>, CloudError>;

    /// Free addresses of these subnets, as EC2 reports them.
    async fn free_addresses(&self, subnets: &BTreeSet<String>)
    -> Result<FreeAddresses, CloudError>;
}
