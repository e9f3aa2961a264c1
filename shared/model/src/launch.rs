//! A CreateFleet call as data, complete enough to be frozen in the ledger and resumed by another turn
//! (docs/protocol.md#a2, docs/protocol.md#a3).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    catalog::CapacityType,
    ids::{ClusterName, InstanceId, LaunchToken, NodeClassName},
    ledger::OfferingKey,
    resources::Resources,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRequest {
    pub cluster: ClusterName,
    /// ClientToken, and the value of the `whittle.sh/launch` tag on every instance.
    pub token: LaunchToken,
    pub node_class: NodeClassName,
    pub capacity_type: CapacityType,
    pub target_capacity: u32,
    /// `None` for capacity blocks and interruptible reservations, which do not support a strategy.
    pub allocation: Option<AllocationStrategy>,
    /// CreateFleet's `Context`, passed through from the EC2NodeClass.
    pub context: Option<String>,
    pub templates: Vec<TemplateOverrides>,
    /// Tags on instances, volumes and the fleet.
    pub tags: BTreeMap<String, String>,
    /// Annotations of NodeClaims that get an instance: the NodeClass hash and similar values at the time of the launch.
    #[serde(default)]
    pub claim_annotations: BTreeMap<String, String>,
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
    /// The offering's price in billionths of a dollar per hour; EC2's prioritized strategies prefer the lowest.
    pub priority: i64,
}

/// Content of a launch template. The name is a digest of the other fields, so equal content is created once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchTemplate {
    pub name: String,
    pub image: String,
    /// Plain text or MIME, not base64-encoded.
    pub user_data: String,
    pub instance_profile: String,
    /// Applied to every network interface.
    pub security_groups: Vec<String>,
    /// Empty keeps the AMI's own.
    pub block_devices: Vec<BlockDevice>,
    pub metadata: MetadataOptions,
    pub detailed_monitoring: bool,
    /// At least one.
    pub network_interfaces: Vec<NetworkInterface>,
    pub reservation: ReservationUse,
    /// `default` or `dedicated`.
    pub tenancy: String,
    pub placement_group: Option<PlacementGroup>,
    pub nested_virtualization: Option<bool>,
    pub enclaves: bool,
    /// Tags on the launch template, on network interfaces and on spot requests.
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
#[serde(default)]
pub struct MetadataOptions {
    pub http_endpoint: Option<String>,
    pub http_protocol_ipv6: Option<String>,
    pub http_put_response_hop_limit: Option<i64>,
    pub http_tokens: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkInterface {
    /// `None` lets EC2 choose, as for the only interface of an instance.
    pub network_card_index: Option<i32>,
    pub device_index: i32,
    /// `interface`, `efa` or `efa-only`; `None` is EC2's default.
    pub interface_type: Option<String>,
    /// `None` uses the subnet's setting.
    pub associate_public_ip: Option<bool>,
    pub ipv4_prefixes: Option<i32>,
    pub ipv6: Option<Ipv6>,
    pub connection_tracking: Option<ConnectionTracking>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ipv6 {
    /// Whether the first IPv6 address is the instance's primary one.
    pub primary: bool,
    pub addresses: i32,
    pub prefixes: Option<i32>,
}

/// Timeouts of idle connections, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionTracking {
    pub tcp_established: Option<i32>,
    pub udp_stream: Option<i32>,
    pub udp: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementGroup {
    pub id: String,
    pub partition: Option<i32>,
}

/// How instances of a template use capacity reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationUse {
    /// EC2's default: any open reservation that matches.
    #[default]
    Unspecified,
    None,
    Only {
        id: String,
        kind: ReservationKind,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationKind {
    #[default]
    Default,
    CapacityBlock,
    /// EC2 may reclaim the instances.
    Interruptible,
}

/// CreateFleet's response: instances launched and offerings that failed, possibly both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetResponse {
    pub instances: Vec<Launched>,
    pub failures: Vec<OfferingFailure>,
}

/// An instance that CreateFleet launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    pub instance: InstanceId,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: CapacityType,
    pub image: String,
    pub subnet: Option<String>,
}

/// Labels, capacity and status of a NodeClaim whose instance exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchedClaim {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub provider_id: String,
    pub image_id: String,
    pub capacity: Resources,
    pub allocatable: Resources,
}

/// An offering that CreateFleet could not launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferingFailure {
    pub instance_type: String,
    pub zone: String,
    pub subnet: Option<String>,
    /// EC2's error code, such as `InsufficientInstanceCapacity`.
    pub code: String,
    pub message: String,
}

/// Interpretation of CreateFleet's response for its NodeClaims (docs/spec/aws.md#create-fleet-answer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetOutcome {
    /// Offerings that no cluster of the account tries again for a while.
    pub unavailable: BTreeSet<OfferingKey>,
    /// Subnets without a free address, avoided for a while.
    pub full_subnets: BTreeSet<String>,
    /// Reason for the NodeClaims that got no instance.
    pub refusal: LaunchRefusal,
    /// Event for the users of those NodeClaims, in addition to the refusal.
    pub warning: Option<LaunchWarning>,
}

/// A problem of the account that only its owner can solve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchWarning {
    /// Reason of the Kubernetes event.
    pub reason: &'static str,
    pub message: &'static str,
}

/// An EC2 instance with Whittle's tags, as DescribeInstances returns it.
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
    pub security_groups: BTreeSet<String>,
    /// The capacity reservation that the instance was launched into explicitly; `None` for one that uses an open
    /// reservation by chance.
    pub reservation: Option<String>,
    pub private_dns: Option<String>,
    pub launched_at: Option<Timestamp>,
    pub tags: BTreeMap<String, String>,
    /// EC2's state reason as `code: message`, once the instance has stopped or terminated.
    pub state_reason: Option<String>,
}

impl Instance {
    /// The reason why the instance ended, unless its shutdown was requested. EC2 reports it here only, not in
    /// CreateFleet's response.
    pub fn failure(&self) -> Option<&str> {
        const ASKED_FOR: [&str; 3] = [
            "Client.UserInitiatedShutdown",
            "Client.UserInitiatedHibernate",
            "Client.InstanceInitiatedShutdown",
        ];
        let reason = self.state_reason.as_deref()?;
        let code = reason.split(':').next().unwrap_or_default();
        (!self.state.is_alive() && !ASKED_FOR.contains(&code)).then_some(reason)
    }
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
    /// Whether the instance can still run a node.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// Reason why a NodeClaim cannot be launched now, by its consequence (docs/spec/aws.md#launch-preconditions).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchRefusal {
    /// No compatible offering has capacity: the NodeClaim is deleted, and its pods are planned again.
    #[error("{message}")]
    InsufficientCapacity { message: String },
    /// The NodeClass cannot be used: the NodeClaim is deleted.
    #[error("{message}")]
    NodeClassNotReady { message: String },
    /// The launch is retried until the launch timeout. The NodeClaim is kept, with this reason in its Launched
    /// condition.
    #[error("{message}")]
    Create {
        reason: &'static str,
        message: String,
    },
}
