//! What nodes cost, and what their replacements may cost at worst (spec/lifecycle §16.1, §16.2).

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, NanosPerHour, Offering,
    labels::{CAPACITY_TYPE, ZONE, ZONE_ID},
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::Settings,
};

/// In the order in which a launch tries them.
const CAPACITY_TYPES: [CapacityType; 3] = [
    CapacityType::Reserved,
    CapacityType::Spot,
    CapacityType::OnDemand,
];

/// What a node of this type costs where it is, whether or not another could be had; nothing where that is not known.
pub(crate) fn of_node(kind: &InstanceType, labels: &BTreeMap<String, String>) -> NanosPerHour {
    let (zone, capacity_type) = (labels.get(ZONE), labels.get(CAPACITY_TYPE));
    let own = kind.offerings.iter().find(|offering| {
        Some(&offering.zone) == zone
            && capacity_type.is_some_and(|text| text == offering.capacity_type.as_str())
    });
    own.map_or(NanosPerHour(0), |offering| offering.price)
}

/// The least that any offering costs which has what these labels say; nothing if there is none.
pub(super) fn least_with(
    kind: &InstanceType,
    labels: &BTreeMap<String, String>,
    settings: &Settings,
) -> NanosPerHour {
    let labels = Requirements::from_labels(labels);
    let own = kind.offerings.iter();
    let own = own.filter(|offering| is_open_to(offering, &labels, settings));
    own.map(|offering| offering.price).min().unwrap_or_default()
}

/// The most a launch of this type may come to pay: the dearest offering of the capacity type it would take. `None` where it
/// has none to take.
pub(super) fn worst(
    kind: &InstanceType,
    wanted: &Requirements,
    settings: &Settings,
) -> Option<NanosPerHour> {
    CAPACITY_TYPES.into_iter().find_map(|capacity_type| {
        let open = kind.offerings.iter().filter(|offering| {
            offering.capacity_type == capacity_type
                && offering.available
                && is_open_to(offering, wanted, settings)
        });
        open.map(|offering| offering.price).max()
    })
}

/// The cheapest available offering that a launch may take, by its place in the type's list.
pub(super) fn cheapest(
    kind: &InstanceType,
    wanted: &Requirements,
    settings: &Settings,
) -> Option<(NanosPerHour, usize)> {
    let offerings = kind.offerings.iter().enumerate();
    let open = offerings
        .filter(|(_, offering)| offering.available && is_open_to(offering, wanted, settings));
    open.map(|(at, offering)| (offering.price, at)).min()
}

/// Whether a node with these requirements may be launched from the offering.
fn is_open_to(offering: &Offering, wanted: &Requirements, settings: &Settings) -> bool {
    let admits = |key: &str, value: &str| wanted.get(key).is_none_or(|wanted| wanted.has(value));
    let knows_zone_ids = settings.well_known_labels.iter().any(|key| key == ZONE_ID);
    let reservation = &settings.reservation_id_label;
    let of_reservation = || {
        reservation.is_empty()
            || match (&offering.reservation, wanted.get(reservation)) {
                (_, None) => true,
                (Some(own), Some(wanted)) => wanted.has(&own.id),
                (None, Some(wanted)) => excludes(wanted),
            }
    };
    admits(CAPACITY_TYPE, offering.capacity_type.as_str())
        && admits(ZONE, &offering.zone)
        && (!knows_zone_ids || offering.zone_id.is_empty() || admits(ZONE_ID, &offering.zone_id))
        && of_reservation()
        && offering.requirements.0.values().all(|own| {
            let wanted = wanted.get(&own.key);
            wanted.is_none_or(|wanted| wanted.intersects(own) || excludes(wanted) && excludes(own))
        })
}

fn excludes(requirement: &Requirement) -> bool {
    matches!(
        requirement.operator(),
        Operator::NotIn | Operator::DoesNotExist
    )
}
