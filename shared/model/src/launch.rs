//! One CreateFleet call as data, complete enough to be frozen in the ledger and repeated by another turn (PROTOCOL A2, A3).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    catalog::CapacityType,
    ids::{ClusterName, InstanceId, LaunchToken, NodeClassName},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRequest {
    pub cluster: ClusterName,
    /// ClientToken, and the value of the `whittle.sh/launch` tag of every instance.
    pub token: LaunchToken,
    pub node_class: NodeClassName,
    pub capacity_type: CapacityType,
    pub target_capacity: u32,
    pub allocation: AllocationStrategy,
    /// EC2's fleet `Context`, passed through from the EC2NodeClass.
    pub context: Option<String>,
    pub templates: Vec<TemplateOverrides>,
    /// On instances, volumes and the fleet.
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocationStrategy {
    LowestPrice,
    Prioritized,
    PriceCapacityOptimized,
    CapacityOptimizedPrioritized,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateOverrides {
    pub template: LaunchTemplate,
    pub overrides: Vec<FleetOverride>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetOverride {
    pub instance_type: String,
    pub zone: String,
    pub subnet: Option<String>,
    pub image: String,
    /// The offering's price in nano-dollars per hour; EC2's prioritized strategies prefer the lowest.
    pub priority: i64,
}

/// The content of a launch template; its name is a digest of the rest, so equal content is created once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTemplate {
    pub name: String,
    pub image: String,
    /// Plain text or MIME, not base64.
    pub user_data: String,
    pub instance_profile: String,
    pub security_groups: Vec<String>,
    pub block_devices: Vec<BlockDevice>,
    pub metadata: MetadataOptions,
    pub detailed_monitoring: bool,
    pub associate_public_ip: Option<bool>,
    pub network_interfaces: Vec<NetworkInterface>,
    pub reservation: Option<String>,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    pub device_name: String,
    pub volume_gib: Option<i64>,
    pub volume_type: Option<String>,
    pub iops: Option<i64>,
    pub throughput: Option<i64>,
    pub encrypted: Option<bool>,
    pub kms_key: Option<String>,
    pub snapshot: Option<String>,
    pub delete_on_termination: Option<bool>,
    pub volume_initialization_rate: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataOptions {
    pub http_endpoint: Option<String>,
    pub http_protocol_ipv6: Option<String>,
    pub http_put_response_hop_limit: Option<i64>,
    pub http_tokens: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    pub network_card_index: i32,
    pub device_index: i32,
    /// `interface`, `efa` or `efa-only`.
    pub interface_type: String,
}

/// What CreateFleet answered: instances launched, and offerings that failed, possibly both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetAnswer {
    pub instances: Vec<Launched>,
    pub failures: Vec<OfferingFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    pub instance: InstanceId,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: CapacityType,
    pub image: String,
    pub subnet: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferingFailure {
    pub instance_type: String,
    pub zone: String,
    pub subnet: Option<String>,
    /// EC2's error code, such as `InsufficientInstanceCapacity`.
    pub code: String,
    pub message: String,
}

/// An EC2 instance of ours, as DescribeInstances shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub id: InstanceId,
    pub state: InstanceState,
    pub instance_type: String,
    pub zone: String,
    pub zone_id: String,
    pub capacity_type: CapacityType,
    pub image: String,
    pub subnet: Option<String>,
    pub private_dns: Option<String>,
    pub launched_at: Option<Timestamp>,
    pub tags: BTreeMap<String, String>,
    /// `code: message` of EC2's state reason, where the instance died.
    pub state_reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    Pending,
    Running,
    Stopping,
    Stopped,
    ShuttingDown,
    Terminated,
}

impl InstanceState {
    /// Whether the instance can still carry a node.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}
