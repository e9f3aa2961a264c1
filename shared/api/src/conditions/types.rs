//! Condition types, and those that determine readiness (docs/spec/lifecycle.md#conditions,
//! docs/spec/lifecycle.md#condition-types, docs/spec/aws.md#ec2-node-class-conditions).

use super::ConditionTypes;

pub const READY: &str = "Ready";
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

pub const LAUNCHED: &str = "Launched";
pub const REGISTERED: &str = "Registered";
pub const INITIALIZED: &str = "Initialized";
pub const CONSOLIDATABLE: &str = "Consolidatable";
pub const DRIFTED: &str = "Drifted";
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// True while a node is rebooted in place; the reasons are [`REBOOT_REQUESTED`] and those below it.
pub const REBOOTING: &str = "Rebooting";
pub const DRAINED: &str = "Drained";
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";

pub const NODE_CLASS_READY: &str = "NodeClassReady";
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
pub const PROVISIONING: &str = "Provisioning";

pub const AMIS_READY: &str = "AMIsReady";
pub const SUBNETS_READY: &str = "SubnetsReady";
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// Reasons of [`REBOOTING`]: pods are leaving, EC2 was called, the node is back, the reboot failed.
pub const REBOOT_REQUESTED: &str = "RebootRequested";
pub const REBOOT_ISSUED: &str = "RebootIssued";
pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
pub const REBOOT_FAILED: &str = "RebootFailed";

pub fn node_claim() -> ConditionTypes {
    ConditionTypes {
        root: READY,
        dependents: vec![LAUNCHED, REGISTERED, INITIALIZED],
    }
}

pub fn node_pool() -> ConditionTypes {
    ConditionTypes {
        root: READY,
        dependents: vec![VALIDATION_SUCCEEDED, NODE_CLASS_READY],
    }
}

pub fn node_overlay() -> ConditionTypes {
    ConditionTypes {
        root: READY,
        dependents: vec![VALIDATION_SUCCEEDED],
    }
}

/// A CapacityBuffer has no dependent conditions: the controller that resolves it sets its condition directly.
pub fn capacity_buffer() -> ConditionTypes {
    ConditionTypes {
        root: READY_FOR_PROVISIONING,
        dependents: Vec::new(),
    }
}

/// CapacityReservationsReady is included only while the feature gate is on.
pub fn ec2_node_class(reserved_capacity: ReservedCapacity) -> ConditionTypes {
    let mut dependents = vec![
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
    ];
    if reserved_capacity == ReservedCapacity::On {
        dependents.push(CAPACITY_RESERVATIONS_READY);
    }
    ConditionTypes {
        root: READY,
        dependents,
    }
}

/// Whether the feature gate `ReservedCapacity` is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedCapacity {
    On,
    Off,
}
