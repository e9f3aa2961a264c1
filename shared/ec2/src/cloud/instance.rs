use aws_sdk_ec2::types::{
    self, CapacityReservationPreference, InstanceLifecycleType, InstanceStateName,
};
use model::{
    CapacityType,
    launch::{Instance, InstanceState},
};

use crate::filters::timestamp;

pub(super) fn instance(described: types::Instance) -> Option<Instance> {
    let capacity_type = capacity_type(&described);
    let placement = described.placement;
    let (zone, zone_id) = placement.map_or((None, None), |placement| {
        (placement.availability_zone, placement.availability_zone_id)
    });
    let reason = described.state_reason.map(|reason| {
        let text = |part: Option<String>| part.unwrap_or_default();
        format!("{}: {}", text(reason.code), text(reason.message))
    });
    let tags = described.tags.unwrap_or_default().into_iter();
    let groups = described.security_groups.unwrap_or_default().into_iter();
    Some(Instance {
        id: described.instance_id?.into(),
        state: described.state?.name.map(state)?,
        instance_type: described.instance_type?.as_str().to_owned(),
        zone: zone.unwrap_or_default(),
        zone_id: zone_id.unwrap_or_default(),
        capacity_type,
        image: described.image_id.unwrap_or_default(),
        subnet: described.subnet_id,
        security_groups: groups.filter_map(|group| group.group_id).collect(),
        reservation: described
            .capacity_reservation_id
            .filter(|_| capacity_type == CapacityType::Reserved),
        private_dns: described.private_dns_name.filter(|name| !name.is_empty()),
        launched_at: described.launch_time.as_ref().and_then(timestamp),
        tags: tags
            .filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default())))
            .collect(),
        state_reason: reason.filter(|reason| reason != ": "),
    })
}

/// An unknown state counts as running: the safe side for an instance that runs pods.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the SDK's enums are not exhaustive"
)]
fn state(name: InstanceStateName) -> InstanceState {
    match name {
        InstanceStateName::Pending => InstanceState::Pending,
        InstanceStateName::Stopping => InstanceState::Stopping,
        InstanceStateName::Stopped => InstanceState::Stopped,
        InstanceStateName::ShuttingDown => InstanceState::ShuttingDown,
        InstanceStateName::Terminated => InstanceState::Terminated,
        _ => InstanceState::Running,
    }
}

/// The capacity type. An instance that happens to run in an open reservation is on-demand (docs/spec/aws.md#instances).
fn capacity_type(described: &types::Instance) -> CapacityType {
    let is_spot = described.spot_instance_request_id.is_some()
        || described.instance_lifecycle == Some(InstanceLifecycleType::Spot);
    let specification = described.capacity_reservation_specification.as_ref();
    let preference = specification.and_then(|s| s.capacity_reservation_preference.as_ref());
    let only_reserved =
        preference == Some(&CapacityReservationPreference::CapacityReservationsOnly);
    if is_spot {
        CapacityType::Spot
    } else if described.capacity_reservation_id.is_some() && only_reserved {
        CapacityType::Reserved
    } else {
        CapacityType::OnDemand
    }
}
