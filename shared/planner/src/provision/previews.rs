//! Instance types that AWS lists before they have a price (docs/COMPATIBILITY.md). They are not launched until a NodeOverlay
//! sets one.

use std::{collections::BTreeMap, sync::Arc};

use model::{
    InstanceType, NanosPerHour,
    labels::INSTANCE_TYPE,
    selector::Operator,
    snapshot::{NodeOverlay, Settings},
};

use super::overlays::{Types, dollars};

/// Sets the price of unpriced instance types from the heaviest NodeOverlay that selects them by name alone. The price applies
/// to every NodePool.
pub fn priced_previews(settings: &Settings, overlays: &[NodeOverlay], types: Types) -> Types {
    let is_on = settings.feature_gates.get("NodeOverlay") == Some(&true);
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().filter(|_| is_on).collect();
    ordered.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
    let price = |instance_type: &InstanceType| {
        let is_preview = instance_type
            .offerings
            .iter()
            .any(|offering| offering.unpriced);
        let mut naming = ordered
            .iter()
            .filter(|overlay| names_alone(overlay, &instance_type.name));
        let overlay = naming.next().filter(|_| is_preview)?;
        dollars(overlay.price.as_deref()?)
    };
    let prices: BTreeMap<usize, NanosPerHour> = types
        .iter()
        .enumerate()
        .filter_map(|(at, instance_type)| Some((at, price(instance_type)?)))
        .collect();
    if prices.is_empty() {
        return types;
    }
    let mut priced = (*types).clone();
    for (at, price) in prices {
        let offerings = priced
            .get_mut(at)
            .map(|instance_type| &mut instance_type.offerings);
        for offering in offerings
            .into_iter()
            .flatten()
            .filter(|offering| offering.unpriced)
        {
            offering.price = price;
            offering.available = true;
            offering.unpriced = false;
        }
    }
    Arc::new(priced)
}

/// Whether an overlay sets an absolute price and selects instance types by name alone, this one among them.
fn names_alone(overlay: &NodeOverlay, instance_type: &str) -> bool {
    let [only] = overlay.requirements.as_slice() else {
        return false;
    };
    overlay.price.is_some()
        && only.key == INSTANCE_TYPE
        && only.operator == Operator::In
        && only.values.iter().any(|value| value == instance_type)
}

#[cfg(test)]
mod tests {
    use model::{
        CapacityType, Offering, Resources, catalog::Overhead, requirement::Requirements,
        selector::NodeSelectorRequirement,
    };

    use super::*;
    use crate::fixtures;

    /// Instance type without an on-demand price and with a known spot price.
    fn preview() -> InstanceType {
        let offering = |capacity_type, price: i64| Offering {
            capacity_type,
            zone: "a".to_owned(),
            zone_id: String::new(),
            price: NanosPerHour(price),
            available: price > 0,
            unpriced: price == 0,
            reservation: None,
            requirements: Requirements::default(),
            capacity_override: None,
            overhead_override: None,
        };
        InstanceType {
            devices: Vec::new(),
            ebs_attach_limit: None,
            name: "p9.large".to_owned(),
            requirements: Requirements::default(),
            capacity: Resources::default(),
            overhead: Overhead::default(),
            offerings: vec![
                offering(CapacityType::OnDemand, 0),
                offering(CapacityType::Spot, 7),
            ],
        }
    }

    fn overlay(name: &str, weight: i32, price: &str, values: &[&str]) -> NodeOverlay {
        NodeOverlay {
            name: name.to_owned(),
            weight,
            requirements: vec![NodeSelectorRequirement {
                key: INSTANCE_TYPE.to_owned(),
                operator: Operator::In,
                values: values.iter().map(|value| (*value).to_owned()).collect(),
                min_values: None,
            }],
            price: Some(price.to_owned()),
            ..NodeOverlay::default()
        }
    }

    /// Prices of available offerings, in billionths of a dollar per hour.
    fn launchable(overlays: &[NodeOverlay], gate: bool) -> Vec<i64> {
        let mut settings = fixtures::snapshot().settings;
        settings
            .feature_gates
            .insert("NodeOverlay".to_owned(), gate);
        let types = priced_previews(&settings, overlays, Arc::new(vec![preview()]));
        let offerings = types[0]
            .offerings
            .iter()
            .filter(|offering| offering.available);
        offerings.map(|offering| offering.price.0).collect()
    }

    #[test]
    fn overlay_that_selects_by_name_alone_prices_unpriced_types() {
        let priced = overlay("a", 1, "0.5", &["other.large", "p9.large"]);
        assert_eq!(
            launchable(std::slice::from_ref(&priced), true),
            [500_000_000, 7]
        );
        assert_eq!(launchable(&[priced], false), [7]);
        assert_eq!(launchable(&[], true), [7]);
    }

    #[test]
    fn heaviest_overlay_wins_then_the_last_name() {
        let of = |name, weight, price| overlay(name, weight, price, &["p9.large"]);
        let light = of("z", 10, "1.0");
        assert_eq!(
            launchable(&[of("a", 20, "2.0"), light.clone()], true)[0],
            2_000_000_000
        );
        assert_eq!(
            launchable(&[light, of("a", 10, "2.0")], true)[0],
            1_000_000_000
        );
    }

    #[test]
    fn overlay_with_other_requirements_or_an_adjustment_prices_nothing() {
        let plain = overlay("a", 1, "0.5", &["p9.large"]);
        let mut zonal = plain.clone();
        let mut zone = zonal.requirements[0].clone();
        zone.key = model::labels::ZONE.to_owned();
        zonal.requirements.push(zone);
        let adjusting = NodeOverlay {
            price: None,
            price_adjustment: Some("-5%".to_owned()),
            ..plain.clone()
        };
        let mut excluding = plain.clone();
        excluding.requirements[0].operator = Operator::NotIn;
        let other = overlay("a", 1, "0.5", &["p9.metal"]);
        for overlay in [zonal, adjusting, excluding, other] {
            assert_eq!(
                launchable(std::slice::from_ref(&overlay), true),
                [7],
                "{overlay:?}"
            );
        }
    }
}
