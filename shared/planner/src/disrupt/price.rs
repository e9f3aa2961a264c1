//! Prices of nodes, and upper bounds on those of replacements: the price of the offering and the NodePool's surcharge per node
//! (docs/spec/lifecycle.md#launch-prices, docs/spec/lifecycle.md#candidate-price).

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, Snapshot,
    labels::{CAPACITY_TYPE, ZONE, ZONE_ID},
    node_pool::NodePool,
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::Settings,
};

/// Capacity types in the order in which a launch tries them.
const CAPACITY_TYPES: [CapacityType; 3] = [
    CapacityType::Reserved,
    CapacityType::Spot,
    CapacityType::OnDemand,
];

/// Price of a node with these labels, even if its offering is unavailable now; zero if unknown.
pub(crate) fn of_node(
    instance_type: &InstanceType,
    labels: &BTreeMap<String, String>,
    surcharge: NanosPerHour,
) -> NanosPerHour {
    let (zone, capacity_type) = (labels.get(ZONE), labels.get(CAPACITY_TYPE));
    let own = instance_type.offerings.iter().find(|offering| {
        Some(&offering.zone) == zone
            && capacity_type.is_some_and(|text| text == offering.capacity_type.as_str())
    });
    own.map_or(NanosPerHour(0), |offering| offering.price.plus(surcharge))
}

/// Lowest price of an offering that matches these labels; zero if there is none.
pub(super) fn least_with(
    instance_type: &InstanceType,
    labels: &BTreeMap<String, String>,
    settings: &Settings,
    surcharge: NanosPerHour,
) -> NanosPerHour {
    let labels = Requirements::from_labels(labels);
    let own = instance_type.offerings.iter();
    let own = own.filter(|offering| is_open_to(offering, &labels, settings));
    own.map(|offering| offering.price.plus(surcharge))
        .min()
        .unwrap_or_default()
}

/// Highest price that a launch of this type may pay: that of the most expensive offering of the preferred available capacity
/// type. `None` if no offering is available.
pub(super) fn worst(
    instance_type: &InstanceType,
    wanted: &Requirements,
    settings: &Settings,
    surcharge: NanosPerHour,
) -> Option<NanosPerHour> {
    CAPACITY_TYPES.into_iter().find_map(|capacity_type| {
        let open = instance_type.offerings.iter().filter(|offering| {
            offering.capacity_type == capacity_type
                && offering.available
                && is_open_to(offering, wanted, settings)
        });
        open.map(|offering| offering.price.plus(surcharge)).max()
    })
}

/// Cheapest available offering that a launch may use, with its index in the instance type's list.
pub(super) fn cheapest(
    instance_type: &InstanceType,
    wanted: &Requirements,
    settings: &Settings,
    surcharge: NanosPerHour,
) -> Option<(NanosPerHour, usize)> {
    let offerings = instance_type.offerings.iter().enumerate();
    let open = offerings
        .filter(|(_, offering)| offering.available && is_open_to(offering, wanted, settings));
    open.map(|(at, offering)| (offering.price.plus(surcharge), at))
        .min()
}

/// Lowest price of a node from the NodePool's template. `None` if no offering of these types can be launched.
pub(crate) fn of_template(
    pool: &NodePool,
    types: &[InstanceType],
    snapshot: &Snapshot,
) -> Option<NanosPerHour> {
    let wanted = Requirements::from_selector(&pool.template.requirements);
    let surcharge = snapshot.surcharge(pool).total();
    let suits = |instance_type: &InstanceType| {
        let mut own = instance_type.requirements.0.values();
        own.all(|own| {
            let wanted = wanted.get(&own.key);
            wanted.is_none_or(|wanted| wanted.intersects(own))
        })
    };
    let prices = types
        .iter()
        .filter(|instance_type| suits(instance_type))
        .filter_map(|instance_type| {
            cheapest(instance_type, &wanted, &snapshot.settings, surcharge)
        });
    prices.map(|(price, _)| price).min()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| (*value).to_owned());
        Requirement::new(key, operator, values)
    }

    fn requirements_of(requirement: Requirement) -> Requirements {
        let mut requirements = Requirements::default();
        requirements.add(requirement);
        requirements
    }

    fn offering(requirements: Requirements) -> Offering {
        Offering {
            unpriced: false,
            capacity_type: CapacityType::OnDemand,
            zone: "a".to_owned(),
            zone_id: "id-a".to_owned(),
            price: NanosPerHour(1),
            available: true,
            reservation: None,
            requirements,
            capacity_override: None,
            overhead_override: None,
        }
    }

    fn settings(well_known: &[&str]) -> Settings {
        let mut settings = crate::fixtures::snapshot().settings;
        settings.well_known_labels = well_known.iter().map(|key| (*key).to_owned()).collect();
        settings
    }

    #[test]
    fn zone_id_must_match_if_known() {
        let knows = settings(&["other", ZONE_ID]);
        let ignores = settings(&["other"]);
        let mut nameless = offering(Requirements::default());
        nameless.zone_id.clear();
        let plain = offering(Requirements::default());
        for (offering, settings, id, is_open) in [
            (&plain, &knows, "id-a", true),
            (&plain, &knows, "id-b", false),
            (&plain, &ignores, "id-b", true),
            (&nameless, &knows, "id-b", true),
        ] {
            let wanted = requirements_of(of(ZONE_ID, Operator::In, &[id]));
            assert_eq!(is_open_to(offering, &wanted, settings), is_open, "{id}");
        }
    }

    #[test]
    fn offering_requirements_must_intersect_or_both_exclude() {
        use Operator::{DoesNotExist, In, NotIn};
        for (own, wanted, is_open) in [
            (of("k", In, &["x"]), of("k", In, &["x"]), true),
            (of("k", In, &["x"]), of("k", In, &["y"]), false),
            (of("k", In, &["x"]), of("k", NotIn, &["x"]), false),
            (of("k", DoesNotExist, &[]), of("k", DoesNotExist, &[]), true),
            (of("k", DoesNotExist, &[]), of("k", In, &["x"]), false),
            (of("k", In, &["x"]), of("l", In, &["y"]), true),
        ] {
            let text = format!("{own:?} {wanted:?}");
            let offering = offering(requirements_of(own));
            let is_so = is_open_to(&offering, &requirements_of(wanted), &settings(&[]));
            assert_eq!(is_so, is_open, "{text}");
        }
    }
}
