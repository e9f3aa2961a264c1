//! Status of an EC2NodeClass: the AWS resources that it resolves to.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selectors::InstanceMatchCriteria;
use crate::conditions::Condition;
use crate::wire::{null_as_default, string_enum};

/// Resources that the selectors resolve to at present, each list in the order of preference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Subnets to launch into, most free addresses first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<Subnet>>,
    /// Security groups of the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroup>>,
    /// Capacity reservations to launch into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservations: Option<Vec<CapacityReservation>>,
    /// Images to launch, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amis: Option<Vec<Ami>>,
    /// Name of the instance profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Conditions of the EC2NodeClass: one per resource that must be resolved; Ready summarizes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subnet {
    /// Id of the subnet.
    pub id: String,
    /// Name of the subnet's availability zone.
    pub zone: String,
    /// Id of the subnet's availability zone.
    #[serde(default, rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroup {
    /// Id of the security group.
    pub id: String,
    /// Name of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ami {
    /// Id of the image.
    pub id: String,
    /// Whether the publisher has deprecated the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Instance types that the image can run on.
    pub requirements: Vec<AmiRequirement>,
}

/// A requirement on the labels of an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AmiRequirement {
    /// Key of the label.
    pub key: String,
    /// Relation of the label's value to `values`: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: String,
    /// Values of the operator.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Option<Vec<String>>", extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Name of the reservation's availability zone.
    pub availability_zone: String,
    /// Time at which the reservation ends. After it, no instance can be launched into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Id of the reservation.
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// Launches that the reservation accepts.
    pub instance_match_criteria: InstanceMatchCriteria,
    /// Instance type of the reservation.
    pub instance_type: String,
    /// Whether EC2 may reclaim the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// Account that owns the reservation.
    #[serde(rename = "ownerID")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// Type of the reservation: `default`, or `capacity-block`.
    #[serde(default)]
    pub reservation_type: CapacityReservationType,
    /// Whether EC2 is about to reclaim the instances, because the reservation ends soon. Only for capacity blocks.
    #[serde(default)]
    pub state: CapacityReservationState,
}

string_enum! {
    /// A kind of capacity reservation.
    #[derive(Default)]
    CapacityReservationType { #[default] Default = "default", CapacityBlock = "capacity-block" }
}

string_enum! {
    /// Whether a capacity reservation is about to end.
    #[derive(Default)]
    CapacityReservationState { #[default] Active = "active", Expiring = "expiring" }
}
