//! Offerings of an instance type: zones, capacity types, reservations and prices (docs/spec/aws.md#offerings, docs/spec/aws.md#prices).

use std::collections::BTreeMap;

use api::{
    karpenter::{CapacityReservation, CapacityReservationState},
    names::label,
};
use model::{
    CapacityType, NanosPerHour,
    catalog::{Offering, Reservation},
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use super::{
    ResolveInput,
    facts::{InstanceTypeInfo, RegionCatalog},
};
use crate::placement::PlacementGroupFact;

/// Divisor of the on-demand price that gives the price of a reserved offering. Reserved capacity is paid for already; its price only keeps
/// the order of the types.
const RESERVED_PRICE_DIVISOR: i64 = 10_000_000;

/// The zones, reservations and placement group in which a type can be launched through a NodeClass.
pub(super) struct LaunchLocations<'a> {
    pub(super) region: &'a str,
    /// Zone → zone id (empty if unknown) of the NodeClass's subnets.
    pub(super) zones: BTreeMap<&'a str, &'a str>,
    /// The NodeClass's reservations for this type.
    pub(super) reservations: Vec<&'a CapacityReservation>,
    /// Whether reservations may be used.
    pub(super) uses_reservations: bool,
    /// The placement group that everything is launched into.
    pub(super) group: Option<&'a PlacementGroupFact>,
    offered: Option<&'a std::collections::BTreeSet<String>>,
}

impl<'a> LaunchLocations<'a> {
    pub(super) fn of(
        catalog: &'a RegionCatalog,
        info: &InstanceTypeInfo,
        through: ResolveInput<'a>,
    ) -> Self {
        let status = through.node_class.status.as_ref();
        let subnets = status.and_then(|status| status.subnets.as_deref());
        let reservations = status.and_then(|status| status.capacity_reservations.as_deref());
        Self {
            region: &catalog.region,
            zones: subnets
                .unwrap_or_default()
                .iter()
                .map(|subnet| {
                    (
                        subnet.zone.as_str(),
                        subnet.zone_id.as_deref().unwrap_or(""),
                    )
                })
                .collect(),
            reservations: reservations
                .unwrap_or_default()
                .iter()
                .filter(|reservation| reservation.instance_type == info.instance_type)
                .collect(),
            uses_reservations: through.settings.reserved_capacity,
            group: through.placement_group,
            offered: catalog.zones.get(&info.instance_type),
        }
    }

    /// Zones that both the NodeClass and the type have, with their ids.
    pub(super) fn common_zones(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let zones = self.zones.iter().map(|(zone, id)| (*zone, *id));
        zones.filter(|(zone, _)| self.is_offered(zone))
    }

    fn is_offered(&self, zone: &str) -> bool {
        self.offered.is_some_and(|offered| offered.contains(zone))
    }
}

/// The offerings: one for each zone of the NodeClass and capacity type of the type, and one for each reservation. With a partitioned
/// placement group there is one for every partition.
pub(super) fn offerings(
    catalog: &RegionCatalog,
    info: &InstanceTypeInfo,
    place: &LaunchLocations<'_>,
    fits: bool,
) -> Vec<Offering> {
    let mut offerings = Vec::new();
    let supports = |wanted: CapacityType| {
        let mut classes = info.supported_usage_classes.iter();
        classes.any(|class| class == wanted.as_str())
    };
    for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
        if !supports(capacity_type) {
            continue;
        }
        for (zone, zone_id) in &place.zones {
            let price = price(catalog, info, capacity_type, zone);
            let is_offered = fits && place.is_offered(zone);
            offerings.push(Offering {
                capacity_type,
                zone: (*zone).to_owned(),
                zone_id: (*zone_id).to_owned(),
                price: price.unwrap_or_default(),
                available: is_offered && price.is_some(),
                unpriced: is_offered && price.is_none(),
                reservation: None,
                requirements: Requirements::default(),
                capacity_override: None,
                overhead_override: None,
            });
        }
    }
    if place.uses_reservations {
        let reservations = place.reservations.iter();
        offerings.extend(reservations.map(|r| reserved(catalog, info, place, fits, r)));
    }
    let partitions: Vec<i32> = place
        .group
        .iter()
        .flat_map(|group| group.partitions())
        .collect();
    if partitions.is_empty() {
        return offerings;
    }
    let of_each = offerings.iter().flat_map(|offering| {
        partitions.iter().map(|partition| {
            let mut offering = offering.clone();
            offering.requirements.add(Requirement::new(
                label::PLACEMENT_GROUP_PARTITION,
                Operator::In,
                [partition.to_string()],
            ));
            offering
        })
    });
    of_each.collect()
}

fn price(
    catalog: &RegionCatalog,
    info: &InstanceTypeInfo,
    capacity_type: CapacityType,
    zone: &str,
) -> Option<NanosPerHour> {
    let name = &info.instance_type;
    match (&catalog.spot, capacity_type) {
        (Some(spot), CapacityType::Spot) => spot.get(name)?.get(zone).copied(),
        (None, CapacityType::Spot) | (_, CapacityType::OnDemand | CapacityType::Reserved) => {
            catalog.on_demand.get(name).copied()
        }
    }
}

/// The offering of a reservation, available as long as the reservation is active. The number of instances left in it is not known here:
/// launches keep track of it.
fn reserved(
    catalog: &RegionCatalog,
    info: &InstanceTypeInfo,
    place: &LaunchLocations<'_>,
    fits: bool,
    reservation: &CapacityReservation,
) -> Offering {
    let zone = reservation.availability_zone.as_str();
    let on_demand = catalog.on_demand.get(&info.instance_type).copied();
    let mut requirements = Requirements::default();
    for (key, value) in [
        (
            label::CAPACITY_RESERVATION_TYPE,
            reservation.reservation_type.to_string(),
        ),
        (
            label::CAPACITY_RESERVATION_INTERRUPTIBLE,
            super::labels::is_interruptible(reservation).to_string(),
        ),
    ] {
        requirements.add(Requirement::new(key, Operator::In, [value]));
    }
    let is_active = reservation.state != CapacityReservationState::Expiring;
    Offering {
        capacity_type: CapacityType::Reserved,
        zone: zone.to_owned(),
        zone_id: place.zones.get(zone).copied().unwrap_or("").to_owned(),
        price: NanosPerHour(on_demand.unwrap_or_default().0 / RESERVED_PRICE_DIVISOR),
        available: fits && is_active && place.is_offered(zone) && place.zones.contains_key(zone),
        unpriced: false,
        reservation: Some(Reservation {
            id: reservation.id.clone(),
            capacity: 0,
            is_full: false,
        }),
        requirements,
        capacity_override: None,
        overhead_override: None,
    }
}
