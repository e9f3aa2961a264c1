//! Drift: whether a node still matches its EC2NodeClass (docs/spec/aws.md#drift).

use std::{collections::BTreeSet, fmt};

use api::{
    karpenter::EC2NodeClass,
    names::{annotation, label},
};
use model::{InstanceType, launch::Instance, node_claim::NodeClaim};
use thiserror::Error;

use crate::ami;

/// The instance as EC2 shows it now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceFacts {
    pub security_groups: BTreeSet<String>,
    pub subnet: String,
    /// The reservation that the launch targeted; an open reservation in which the instance happens to run does not count.
    pub reservation: Option<String>,
}

impl From<&Instance> for InstanceFacts {
    fn from(instance: &Instance) -> Self {
        Self {
            security_groups: instance.security_groups.clone(),
            subnet: instance.subnet.clone().unwrap_or_default(),
            reservation: instance.reservation.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drift {
    NodeClass,
    Ami,
    SecurityGroup,
    Subnet,
    CapacityReservation,
    PlacementGroup,
}

/// Writes the reason of the NodeClaim's condition.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeClass => "NodeClassDrift",
            Self::Ami => "AMIDrift",
            Self::SecurityGroup => "SecurityGroupDrift",
            Self::Subnet => "SubnetDrift",
            Self::CapacityReservation => "CapacityReservationDrift",
            Self::PlacementGroup => "PlacementGroupDrift",
        })
    }
}

/// Why drift cannot be judged. The node does not count as drifted then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DriftUnknown {
    #[error("the status of EC2NodeClass {0} has no AMI for the node's instance type")]
    NoAmi(String),
    #[error("the status of NodeClaim {0} has no imageID")]
    NoImage(String),
    #[error("the status of EC2NodeClass {0} has no security groups")]
    NoSecurityGroups(String),
    #[error("the status of EC2NodeClass {0} has no subnets")]
    NoSubnets(String),
    #[error(
        "the instance of NodeClaim {0} was not read from EC2, or its description is incomplete"
    )]
    NoInstance(String),
}

/// The first difference between a node and its NodeClass. `instance_type` is the node's type as resolved through the NodeClass,
/// `placement_group` the id of the group that the NodeClass selects.
pub fn drift(
    class: &EC2NodeClass,
    placement_group: Option<&str>,
    claim: &NodeClaim,
    instance: Option<&InstanceFacts>,
    instance_type: Option<&InstanceType>,
) -> Result<Option<Drift>, DriftUnknown> {
    if is_static_drift(class, claim) {
        return Ok(Some(Drift::NodeClass));
    }
    let name = || class.metadata.name.clone();
    let status = class.status.as_ref();
    let images = status
        .and_then(|status| status.amis.as_deref())
        .unwrap_or_default();
    let image = instance_type.and_then(|instance_type| ami::first_that_fits(images, instance_type));
    let image = image.ok_or_else(|| DriftUnknown::NoAmi(name()))?;
    if claim.status.image_id.is_empty() {
        return Err(DriftUnknown::NoImage(claim.name.to_string()));
    }
    let groups = status
        .and_then(|status| status.security_groups.as_deref())
        .unwrap_or_default();
    if groups.is_empty() {
        return Err(DriftUnknown::NoSecurityGroups(name()));
    }
    let subnets = status
        .and_then(|status| status.subnets.as_deref())
        .unwrap_or_default();
    if subnets.is_empty() {
        return Err(DriftUnknown::NoSubnets(name()));
    }
    let groups: BTreeSet<_> = groups.iter().map(|group| group.id.clone()).collect();
    let reservations = status.and_then(|status| status.capacity_reservations.as_deref());
    let mut reservations = reservations.unwrap_or_default().iter();
    let lost_reservation = |id: &String| !reservations.any(|reservation| reservation.id == *id);
    let label = claim
        .labels
        .get(label::PLACEMENT_GROUP_ID)
        .map(String::as_str);
    if image.id != claim.status.image_id {
        return Ok(Some(Drift::Ami));
    }
    let instance = instance.ok_or_else(|| DriftUnknown::NoInstance(claim.name.to_string()))?;
    Ok(if groups != instance.security_groups {
        Some(Drift::SecurityGroup)
    } else if !subnets.iter().any(|subnet| subnet.id == instance.subnet) {
        Some(Drift::Subnet)
    } else if instance.reservation.as_ref().is_some_and(lost_reservation) {
        Some(Drift::CapacityReservation)
    } else if label.unwrap_or_default() != placement_group.unwrap_or_default() {
        Some(Drift::PlacementGroup)
    } else {
        None
    })
}

/// [`drift`] of an instance as EC2 describes it, as the reason for the NodeClaim's condition. `types` are resolved through the NodeClass.
pub fn drift_of_instance(
    class: &EC2NodeClass,
    types: &[InstanceType],
    claim: &NodeClaim,
    instance: Option<&Instance>,
) -> Result<Option<String>, DriftUnknown> {
    let name = claim.labels.get(label::INSTANCE_TYPE);
    let instance_type = types.iter().find(|known| Some(&known.name) == name);
    let group = instance_type
        .and_then(|known| known.requirements.get(label::PLACEMENT_GROUP_ID))
        .and_then(|group| group.values.first());
    // Every instance has a security group: an instance without one is not described in full.
    let instance = instance.filter(|instance| !instance.security_groups.is_empty());
    let facts = instance.map(InstanceFacts::from);
    let found = drift(
        class,
        group.map(String::as_str),
        claim,
        facts.as_ref(),
        instance_type,
    )?;
    Ok(found.map(|found| found.to_string()))
}

/// Whether the static hashes differ. Only hashes of the same version are compared, and only if both sides have one.
fn is_static_drift(class: &EC2NodeClass, claim: &NodeClaim) -> bool {
    let of_class = |key: &str| class.metadata.annotations.get(key);
    let of_claim = |key: &str| claim.annotations.get(key);
    let version = annotation::EC2_NODE_CLASS_HASH_VERSION;
    let hash = annotation::EC2_NODE_CLASS_HASH;
    let same_version = of_class(version).is_some() && of_class(version) == of_claim(version);
    same_version
        && matches!((of_class(hash), of_claim(hash)), (Some(now), Some(then)) if now != then)
}

/// The instance that a NodeClaim's `providerID` names: `aws:///<zone>/<instance>`.
pub fn instance_of(provider_id: &str) -> Option<&str> {
    let (zone, instance) = provider_id.strip_prefix("aws:///")?.split_once('/')?;
    (!zone.is_empty() && instance.starts_with("i-") && !instance.contains('/')).then_some(instance)
}
