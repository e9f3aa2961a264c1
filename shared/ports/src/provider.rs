use std::{collections::BTreeSet, sync::Arc};

use api::{EC2NodeClass, LaunchBuilder, karpenter::EC2NodeClassStatus};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Experience, FreeAddresses, InstanceType, NanosPerHour, Warning,
    experience::ZonalShift, launch::Instance, node_claim::NodeClaim, node_pool::NodePool,
};

use crate::CloudError;

/// What can be launched through a NodeClass.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// The types that the NodeClass allows, with prices and offerings in its zones, corrected by experience. `settings` is that object of the registry entry (`vmMemoryOverheadPercent`, `reservedENIs` …).
    async fn instance_types(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
        settings: &serde_json::Value,
        experience: &Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError>;

    /// What the volumes cost that the NodeClass gives each node; nothing where a provider bills none.
    fn volume_price(&self, _node_class: &EC2NodeClass) -> NanosPerHour {
        NanosPerHour(0)
    }

    /// Zones that the cluster's traffic is shifted away from now; `entry` is the cluster's registry entry.
    async fn zonal_shifts(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Vec<ZonalShift>, CloudError>;

    /// What is not as it should be with what was answered, such as prices that could not be read for long: people must see
    /// it, and nothing stops for it.
    async fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
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
    ) -> Result<Resolved, CloudError>;

    /// How a node differs from what its NodeClass asks for, if at all; pure. `types` are resolved through the NodeClass. An
    /// error says why nothing can be said; without the instance, that is so unless the objects alone show a difference.
    fn drift(
        &self,
        node_class: &EC2NodeClass,
        types: &[InstanceType],
        claim: &NodeClaim,
        instance: Option<&Instance>,
    ) -> Result<Option<String>, String>;

    /// Removes what was made for a NodeClass that is being deleted.
    async fn release(
        &self,
        cluster: &ClusterName,
        node_class: &EC2NodeClass,
    ) -> Result<(), CloudError>;
}

/// What is known of a NodeClass by now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    pub status: EC2NodeClassStatus,
    /// Of what nodes are made with; `None` where the spec makes none.
    pub hash: Option<StaticHash>,
    /// What no condition tells.
    pub warnings: Vec<Warning>,
}

/// Hashes of different versions say nothing about each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticHash {
    pub hash: String,
    pub version: &'static str,
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

    /// How many addresses EC2 shows as free in these subnets.
    async fn free_addresses(&self, subnets: &BTreeSet<String>)
    -> Result<FreeAddresses, CloudError>;
}
