//! Prices and capacity of NodePools' instance types with NodeOverlays applied (docs/spec/scheduling.md#node-overlay).

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{
    InstanceType, NanosPerHour, NodePoolName, Offering, Snapshot,
    labels::{CAPACITY_TYPE, NODE_POOL, ZONE},
    node_pool::NodePool,
    quantity::Quantity,
    requirement::Requirements,
    snapshot::NodeOverlay,
};

use crate::{catalog::is_negative, label::overlap};

/// Instance types by NodePool.
pub(crate) type Types = BTreeMap<NodePoolName, Arc<Vec<InstanceType>>>;

/// A value that overlays may set: the price of an offering, or the capacity of a type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum OverlaidValue<'a> {
    Price(&'a NodePoolName, usize, usize),
    Amount(&'a NodePoolName, usize, &'a str),
}

/// The snapshot's instance types with its overlays applied.
pub(crate) fn types(snapshot: &Snapshot) -> Cow<'_, Types> {
    let is_on = snapshot.settings.feature_gates.get("NodeOverlay") == Some(&true);
    if !is_on || snapshot.node_overlays.is_empty() {
        return Cow::Borrowed(&snapshot.instance_types);
    }
    let mut types = snapshot.instance_types.clone();
    for (overlaid, value) in effective_values(snapshot) {
        match overlaid {
            OverlaidValue::Price(pool, at, offering) => {
                let offering = change(&mut types, pool, at)
                    .and_then(|instance_type| instance_type.offerings.get_mut(offering));
                if let Some(offering) = offering {
                    offering.price = NanosPerHour(value);
                }
            }
            OverlaidValue::Amount(pool, at, name) => {
                if let Some(instance_type) = change(&mut types, pool, at) {
                    instance_type.capacity.set(name, value);
                }
            }
        }
    }
    Cow::Owned(types)
}

fn change<'t>(
    types: &'t mut Types,
    pool: &NodePoolName,
    at: usize,
) -> Option<&'t mut InstanceType> {
    Arc::make_mut(types.get_mut(pool)?).get_mut(at)
}

/// Values set by overlays. The highest weight wins. If overlays of one weight conflict, the last one by name applies,
/// and the others are ignored completely.
fn effective_values(snapshot: &Snapshot) -> BTreeMap<OverlaidValue<'_>, i64> {
    let mut overlays: Vec<&NodeOverlay> = snapshot.node_overlays.iter().collect();
    overlays.sort_by_key(|overlay| (Reverse(overlay.weight), Reverse(&overlay.name)));
    let mut taken: BTreeSet<(i32, OverlaidValue<'_>)> = BTreeSet::new();
    let mut effective: BTreeMap<OverlaidValue<'_>, i64> = BTreeMap::new();
    for overlay in overlays {
        let overlay_values = overlay_values(overlay, snapshot);
        let places = || {
            overlay_values
                .iter()
                .map(|(overlaid, _)| (overlay.weight, overlaid.clone()))
        };
        if places().any(|place| taken.contains(&place)) {
            continue;
        }
        taken.extend(places());
        for (overlaid, value) in overlay_values {
            if let Some(value) = value {
                effective.entry(overlaid).or_insert(value);
            }
        }
    }
    effective
}

/// All values that one overlay concerns, each with the overlay's value if it can be parsed.
fn overlay_values<'a>(
    overlay: &'a NodeOverlay,
    snapshot: &'a Snapshot,
) -> Vec<(OverlaidValue<'a>, Option<i64>)> {
    let wanted = Requirements::from_selector(&overlay.requirements);
    let is_priced = overlay.price.is_some() || overlay.price_adjustment.is_some();
    let mut overlay_values = Vec::new();
    let pools = snapshot.node_pools.iter().filter(|pool| is_evaluated(pool));
    for pool in pools {
        let types = snapshot.instance_types.get(&pool.name);
        for (at, instance_type) in types.iter().flat_map(|types| types.iter()).enumerate() {
            if !suits(&wanted, pool, instance_type) {
                continue;
            }
            let offerings = instance_type.offerings.iter().enumerate();
            let offerings: Vec<_> = offerings
                .filter(|(_, offering)| is_about(&wanted, offering))
                .collect();
            if is_priced {
                overlay_values.extend(offerings.iter().map(|(index, offering)| {
                    let overlaid = OverlaidValue::Price(&pool.name, at, *index);
                    (overlaid, price(overlay, offering.price))
                }));
            }
            if !offerings.is_empty() {
                overlay_values.extend(
                    overlay
                        .capacity
                        .iter()
                        .filter(|(name, _)| !pool.refuses(name))
                        .map(|(name, amount)| {
                            (OverlaidValue::Amount(&pool.name, at, name), Some(amount))
                        }),
                );
            }
        }
    }
    overlay_values
}

/// Whether overlays apply to the NodePool: only to those that launch nodes for pods.
fn is_evaluated(pool: &NodePool) -> bool {
    pool.replicas.is_none() && pool.not_ready.is_none() && pool.deleted_at.is_none()
}

/// Whether the type with this NodePool's labels satisfies all requirements, with none left open.
fn suits(wanted: &Requirements, pool: &NodePool, instance_type: &InstanceType) -> bool {
    wanted.0.values().all(|wanted| {
        let key = wanted.key.as_str();
        let label = if key == NODE_POOL {
            Some(pool.name.as_str())
        } else {
            pool.template.labels.get(key).map(String::as_str)
        };
        match (label, instance_type.requirements.get(key)) {
            (Some(value), own) => wanted.has(value) && own.is_none_or(|own| own.has(value)),
            (None, Some(own)) => overlap(own, wanted) || is_negative(own) && is_negative(wanted),
            (None, None) => is_negative(wanted),
        }
    })
}

fn is_about(wanted: &Requirements, offering: &Offering) -> bool {
    wanted.0.values().all(|wanted| match wanted.key.as_str() {
        ZONE => wanted.has(&offering.zone),
        CAPACITY_TYPE => wanted.has(offering.capacity_type.as_str()),
        key => offering
            .requirements
            .get(key)
            .is_none_or(|own| overlap(own, wanted)),
    })
}

/// The offering's price after the overlay: replaced, or adjusted by an amount or a percentage, but never negative.
fn price(overlay: &NodeOverlay, before: NanosPerHour) -> Option<i64> {
    if let Some(price) = &overlay.price {
        return nanos(price);
    }
    let text = overlay.price_adjustment.as_deref()?;
    let Some(rest) = text.strip_prefix(['+', '-']) else {
        return nanos(text);
    };
    let change = match rest.strip_suffix('%') {
        Some(share) => {
            let thousandths: Quantity = share.parse().ok()?;
            let product = i128::from(before.0) * i128::from(thousandths.milli());
            i64::try_from(product / 100_000).ok()?
        }
        None => nanos(rest)?,
    };
    let after = if text.starts_with('-') {
        before.0.saturating_sub(change)
    } else {
        before.0.saturating_add(change)
    };
    Some(after.max(0))
}

/// Parses a decimal number of dollars; digits beyond billionths are cut off.
fn nanos(text: &str) -> Option<i64> {
    let (dollars, rest) = text.split_once('.').unwrap_or((text, ""));
    let mut total: i64 = if dollars.is_empty() {
        0
    } else {
        dollars.parse().ok()?
    };
    for place in 0..9 {
        let digit = match rest.as_bytes().get(place) {
            Some(digit) if digit.is_ascii_digit() => i64::from(digit - b'0'),
            Some(_) => return None,
            None => 0,
        };
        total = total.checked_mul(10)?.checked_add(digit)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use model::{requirement::Requirement, selector::Operator};

    use super::*;

    fn overlay(price: Option<&str>, adjustment: Option<&str>) -> NodeOverlay {
        NodeOverlay {
            price: price.map(str::to_owned),
            price_adjustment: adjustment.map(str::to_owned),
            ..NodeOverlay::default()
        }
    }

    #[test]
    fn prices_are_set_or_adjusted_and_never_negative() {
        let dime = NanosPerHour(100_000_000);
        let after = |adjustment| price(&overlay(None, Some(adjustment)), dime);
        assert_eq!(price(&overlay(Some("0.02"), None), dime), Some(20_000_000));
        assert_eq!(after("+0.05"), Some(150_000_000));
        assert_eq!(after("-.05"), Some(50_000_000));
        assert_eq!(after("-1"), Some(0));
        assert_eq!(after("+12.5%"), Some(112_500_000));
        assert_eq!(after("-100%"), Some(0));
        assert_eq!(price(&overlay(Some("cheap"), None), dime), None);
        assert_eq!(nanos("1.0000000019"), Some(1_000_000_001));
        assert_eq!(nanos("1.0x"), None);
    }

    #[test]
    fn overlays_apply_to_node_pools_that_launch_for_pods() {
        let pool = NodePool::default();
        assert!(is_evaluated(&pool));
        let is_static = NodePool {
            replicas: Some(1),
            ..pool.clone()
        };
        let not_ready = NodePool {
            not_ready: Some("its class is not ready".to_owned()),
            ..pool.clone()
        };
        let deleted = NodePool {
            deleted_at: Some(jiff::Timestamp::UNIX_EPOCH),
            ..pool
        };
        let others = [is_static, not_ready, deleted];
        assert!(others.iter().all(|pool| !is_evaluated(pool)));
    }

    #[test]
    fn overlay_matches_types_that_specify_all_its_labels() {
        let requirement = |operator, value: &str| {
            let mut requirements = Requirements::default();
            requirements.add(Requirement::new("team", operator, [value.to_owned()]));
            requirements
        };
        let of_type = |requirements: Requirements| InstanceType {
            ebs_attach_limit: None,
            devices: Vec::new(),
            name: "m5.large".to_owned(),
            requirements,
            capacity: model::Resources::default(),
            overhead: model::catalog::Overhead::default(),
            offerings: Vec::new(),
        };
        let silent = of_type(Requirements::default());
        let (plain, mut labelled) = (NodePool::default(), NodePool::default());
        let labels = &mut labelled.template.labels;
        labels.insert("team".to_owned(), "a".to_owned());
        let (a, b, not_a) = (
            requirement(Operator::In, "a"),
            requirement(Operator::In, "b"),
            requirement(Operator::NotIn, "a"),
        );
        assert!(suits(&a, &labelled, &silent));
        assert!(!suits(&b, &labelled, &silent), "the label was recreated");
        assert!(!suits(&a, &labelled, &of_type(b.clone())), "the type is");
        assert!(!suits(&a, &plain, &silent), "unspecified");
        assert!(suits(&not_a, &plain, &silent));
        assert!(suits(&not_a, &plain, &of_type(b.clone())));
        assert!(!suits(&not_a, &plain, &of_type(a.clone())));
        assert!(!suits(&a, &plain, &of_type(not_a)));
    }
}
