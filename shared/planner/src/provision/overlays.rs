//! NodeOverlays: user-defined prices and extended resources of instance types (docs/spec/scheduling.md#node-overlay).

mod without_effect;

use std::{collections::BTreeMap, sync::Arc};

use model::{
    InstanceType, NanosPerHour, NodePoolName, Resources, Snapshot,
    labels::{CAPACITY_TYPE, NODE_POOL, ZONE},
    node_pool::NodePool,
    quantity::Quantity,
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::NodeOverlay,
};

use self::without_effect::accepted;
pub use self::without_effect::{OverlayProblem, conflicting_overlays, ineffective_overlays};

pub(super) type Types = Arc<Vec<InstanceType>>;

/// Instance types of each NodePool, with overlays applied if the feature gate is on. Unchanged lists stay shared.
pub(super) fn applied<'a>(
    snapshot: &'a Snapshot,
    pools: &[&'a NodePool],
) -> BTreeMap<&'a NodePoolName, Types> {
    let types = pools.iter().filter_map(|pool| {
        let types = snapshot.instance_types.get(&pool.name)?;
        Some((*pool, Arc::clone(types)))
    });
    let types: Vec<(&NodePool, Types)> = types.collect();
    let enabled = snapshot.settings.feature_gates.get("NodeOverlay") == Some(&true);
    let overlays = if enabled && !snapshot.node_overlays.is_empty() {
        accepted(&snapshot.node_overlays, &types)
    } else {
        Vec::new()
    };
    types
        .into_iter()
        .map(|(pool, types)| (&pool.name, overlaid(pool, types, &overlays)))
        .collect()
}

/// Instance types of the NodePools that NodeOverlays change, for launching the nodes that were planned with them.
pub fn overlaid_types(snapshot: &Snapshot) -> BTreeMap<NodePoolName, Arc<Vec<InstanceType>>> {
    let pools: Vec<&NodePool> = snapshot.node_pools.iter().collect();
    let overlaid = applied(snapshot, &pools).into_iter();
    overlaid
        .filter(|(pool, types)| {
            let plain = snapshot.instance_types.get(*pool);
            plain.is_some_and(|plain| !Arc::ptr_eq(plain, types))
        })
        .map(|(pool, types)| (pool.clone(), types))
        .collect()
}

/// Whether overlays changed any price and any capacity of an instance type.
pub(super) fn changes(plain: &InstanceType, overlaid: &InstanceType) -> (bool, bool) {
    let prices = |instance_type: &InstanceType| -> Vec<NanosPerHour> {
        let offerings = instance_type.offerings.iter();
        offerings.map(|offering| offering.price).collect()
    };
    (
        prices(plain) != prices(overlaid),
        plain.capacity != overlaid.capacity,
    )
}

/// A value that an overlay sets: the price of an offering, or a resource of an instance type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// NodePool, instance type, and index of the offering.
    Price(NodePoolName, String, usize),
    /// NodePool, instance type, and resource.
    Capacity(NodePoolName, String, String),
}

fn targets(overlay: &NodeOverlay, types: &[(&NodePool, Types)]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (pool, types) in types {
        for instance_type in types.iter() {
            let offerings = matching(overlay, pool, instance_type);
            if offerings.is_empty() {
                continue;
            }
            if overlay.price.is_some() || overlay.price_adjustment.is_some() {
                targets.extend(
                    offerings.iter().map(|at| {
                        Target::Price(pool.name.clone(), instance_type.name.clone(), *at)
                    }),
                );
            }
            targets.extend(overlay.capacity.0.keys().map(|name| {
                Target::Capacity(pool.name.clone(), instance_type.name.clone(), name.clone())
            }));
        }
    }
    targets
}

/// Indexes of the offerings that an overlay selects.
fn matching(overlay: &NodeOverlay, pool: &NodePool, instance_type: &InstanceType) -> Vec<usize> {
    let wanted = Requirements::from_selector(&overlay.requirements);
    let mut known = instance_type.requirements.clone();
    for requirement in Requirements::from_labels(&pool.template.labels)
        .0
        .into_values()
    {
        known.add(requirement);
    }
    known.add(single_value(NODE_POOL, pool.name.as_str()));
    if !agrees(&wanted, &known) {
        return Vec::new();
    }
    let offerings = instance_type.offerings.iter().enumerate();
    offerings
        .filter(|(_, offering)| {
            let mut labels = offering.requirements.clone();
            labels.add(single_value(ZONE, &offering.zone));
            labels.add(single_value(CAPACITY_TYPE, offering.capacity_type.as_str()));
            let mut required = wanted.0.values();
            required.all(|wanted| {
                labels
                    .get(&wanted.key)
                    .is_none_or(|known| wanted.intersects(known))
            })
        })
        .map(|(at, _)| at)
        .collect()
}

/// Whether every wanted key is known and intersects. A key that is only excluded may be unknown.
fn agrees(wanted: &Requirements, known: &Requirements) -> bool {
    wanted
        .0
        .values()
        .all(|wanted| match known.get(&wanted.key) {
            Some(known) => {
                let excludes = |r: &Requirement| {
                    matches!(r.operator(), Operator::NotIn | Operator::DoesNotExist)
                };
                known.intersects(wanted) || excludes(known) && excludes(wanted)
            }
            None => matches!(wanted.operator(), Operator::NotIn | Operator::DoesNotExist),
        })
}

fn single_value(key: &str, value: &str) -> Requirement {
    Requirement::new(key, Operator::In, [value.to_owned()])
}

fn overlaid(pool: &NodePool, types: Types, overlays: &[&NodeOverlay]) -> Types {
    let mut changed: Option<Vec<InstanceType>> = None;
    for (at, instance_type) in types.iter().enumerate() {
        if let Some(new) = overlaid_type(pool, instance_type, overlays)
            && let Some(slot) = changed.get_or_insert_with(|| (*types).clone()).get_mut(at)
        {
            *slot = new;
        }
    }
    changed.map_or(types, Arc::new)
}

/// Returns the instance type with overlays applied, if any selects it. The heaviest wins per offering and per resource.
fn overlaid_type(
    pool: &NodePool,
    instance_type: &InstanceType,
    overlays: &[&NodeOverlay],
) -> Option<InstanceType> {
    let mut priced: BTreeMap<usize, NanosPerHour> = BTreeMap::new();
    let mut capacity = Resources::default();
    for overlay in overlays {
        let offerings = matching(overlay, pool, instance_type);
        if offerings.is_empty() {
            continue;
        }
        for at in offerings {
            let before = instance_type
                .offerings
                .get(at)
                .map(|offering| offering.price);
            if let Some(price) = before.and_then(|before| price(before, overlay)) {
                priced.entry(at).or_insert(price);
            }
        }
        for (name, amount) in overlay
            .capacity
            .iter()
            .filter(|(name, _)| !pool.refuses(name))
        {
            capacity.0.entry(name.to_owned()).or_insert(amount);
        }
    }
    if priced.is_empty() && capacity.0.is_empty() {
        return None;
    }
    let mut overlaid = instance_type.clone();
    overlaid.capacity.0.extend(capacity.0);
    for (at, price) in priced {
        if let Some(offering) = overlaid.offerings.get_mut(at) {
            offering.price = price;
        }
    }
    Some(overlaid)
}

/// Price under an overlay: absolute, or adjusted by an amount or a percentage, at least zero.
fn price(before: NanosPerHour, overlay: &NodeOverlay) -> Option<NanosPerHour> {
    if let Some(price) = &overlay.price {
        return dollars(price);
    }
    let text = overlay.price_adjustment.as_deref()?;
    let after = match (text.strip_suffix('%'), text.starts_with(['+', '-'])) {
        (Some(percentage), _) => {
            let change =
                i128::from(before.0) * i128::from(percentage.parse::<Quantity>().ok()?.milli());
            i128::from(before.0) + change / PERCENT_IN_THOUSANDTHS
        }
        (None, true) => {
            let change = dollars(text.trim_start_matches(['+', '-']))?.0;
            let change = if text.starts_with('-') {
                -change
            } else {
                change
            };
            i128::from(before.0) + i128::from(change)
        }
        (None, false) => return dollars(text),
    };
    i64::try_from(after.max(0)).ok().map(NanosPerHour)
}

const PERCENT_IN_THOUSANDTHS: i128 = 100_000;

/// Parses a decimal number of dollars, exact to nine decimals.
pub(super) fn dollars(text: &str) -> Option<NanosPerHour> {
    const PLACES: usize = 9;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.chars().chain(std::iter::repeat('0')).take(PLACES);
    let nanos: String = whole.chars().chain(digits).collect();
    nanos.parse().ok().map(NanosPerHour)
}

#[cfg(test)]
mod tests {
    use model::{CapacityType, Offering, selector::NodeSelectorRequirement};

    use super::*;

    fn overlay(name: &str, weight: i32, adjustment: &str) -> NodeOverlay {
        NodeOverlay {
            name: name.to_owned(),
            weight,
            requirements: vec![NodeSelectorRequirement {
                key: CAPACITY_TYPE.to_owned(),
                operator: Operator::In,
                values: vec!["spot".to_owned()],
                min_values: None,
            }],
            price_adjustment: Some(adjustment.to_owned()),
            ..NodeOverlay::default()
        }
    }

    fn m5_large() -> InstanceType {
        let offering = |capacity_type, price| Offering {
            unpriced: false,
            capacity_type,
            zone: "a".to_owned(),
            zone_id: String::new(),
            price: NanosPerHour(price),
            available: true,
            reservation: None,
            requirements: Requirements::default(),
            capacity_override: None,
            overhead_override: None,
        };
        let mut requirements = Requirements::default();
        requirements.add(Requirement::new(
            CAPACITY_TYPE,
            Operator::In,
            ["spot".to_owned(), "on-demand".to_owned()],
        ));
        InstanceType {
            ebs_attach_limit: None,
            devices: Vec::new(),
            name: "m5.large".to_owned(),
            requirements,
            capacity: Resources::default(),
            overhead: model::catalog::Overhead::default(),
            offerings: vec![
                offering(CapacityType::Spot, 100),
                offering(CapacityType::OnDemand, 300),
            ],
        }
    }

    fn prices(overlays: &[NodeOverlay]) -> Vec<i64> {
        let pool = NodePool::default();
        let types = Arc::new(vec![m5_large()]);
        let accepted = accepted(overlays, &[(&pool, Arc::clone(&types))]);
        let types = overlaid(&pool, types, &accepted);
        types[0]
            .offerings
            .iter()
            .map(|offering| offering.price.0)
            .collect()
    }

    #[test]
    fn heaviest_overlay_sets_the_price_of_selected_offerings() {
        let overlays = [overlay("light", 1, "+50%"), overlay("heavy", 2, "-10%")];
        assert_eq!(prices(&overlays), [90, 300]);
    }

    #[test]
    fn second_overlay_of_equal_weight_is_not_applied() {
        let overlays = [overlay("a", 1, "+50%"), overlay("b", 1, "-10%")];
        assert_eq!(prices(&overlays), [90, 300]);
    }

    #[test]
    fn price_adjustments_are_never_negative() {
        for (text, expected) in [
            ("+0.000000005", 105),
            ("-0.000000005", 95),
            ("-1", 0),
            ("+7.5%", 107),
            ("-100%", 0),
            ("0.5", 500_000_000),
        ] {
            let adjusted = price(NanosPerHour(100), &overlay("x", 0, text));
            assert_eq!(adjusted, Some(NanosPerHour(expected)), "{text}");
        }
    }
}
