use std::sync::Arc;

use model::{
    InstanceType, NanosPerHour, Resources, Snapshot,
    catalog::Overhead,
    selector::{NodeSelectorRequirement, Operator},
    snapshot::NodeOverlay,
};

use super::overlays::{changes, conflicting_overlays, overlaid_types};
use crate::fixtures;

/// Two NodePools with one instance type each, and overlays of the price and capacity of `default`'s.
fn world(overlays: &[(&str, i32, Option<&str>)]) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert("NodeOverlay".to_owned(), true);
    for pool in ["default", "other"] {
        snapshot.node_pools.push(fixtures::pool(pool, 0));
        let kind = InstanceType {
            ebs_attach_limit: None,
            devices: Vec::new(),
            name: "small".to_owned(),
            requirements: model::requirement::Requirements::default(),
            capacity: Resources::from([("cpu", 2_000)]),
            overhead: Overhead::default(),
            offerings: vec![model::Offering {
                unpriced: false,
                capacity_type: model::CapacityType::OnDemand,
                zone: "a".to_owned(),
                zone_id: String::new(),
                price: NanosPerHour(100),
                available: true,
                reservation: None,
                requirements: model::requirement::Requirements::default(),
                capacity_override: None,
                overhead_override: None,
            }],
        };
        snapshot
            .instance_types
            .insert(pool.into(), Arc::new(vec![kind]));
    }
    let overlays = overlays.iter().map(|(name, weight, price)| NodeOverlay {
        name: (*name).to_owned(),
        weight: *weight,
        requirements: vec![NodeSelectorRequirement {
            key: "karpenter.sh/nodepool".to_owned(),
            operator: Operator::In,
            values: vec!["default".to_owned()],
            min_values: None,
        }],
        price: price.map(Into::into),
        price_adjustment: None,
        capacity: match price {
            Some(_) => Resources::default(),
            None => Resources::from([("gpu", 1)]),
        },
    });
    snapshot.node_overlays = overlays.collect();
    snapshot
}

#[test]
fn only_node_pools_with_changed_types_are_returned() {
    let of = |snapshot: &Snapshot| {
        let types = overlaid_types(snapshot);
        types.into_keys().map(|pool| pool.0).collect::<Vec<_>>()
    };
    assert_eq!(of(&world(&[])), [""; 0]);
    assert_eq!(of(&world(&[("cheap", 1, Some("0.00000005"))])), ["default"]);
    let mut closed = world(&[("cheap", 1, Some("0.00000005"))]);
    closed.settings.feature_gates.clear();
    assert_eq!(of(&closed), [""; 0]);
}

#[test]
fn price_and_capacity_changes_are_distinguished() {
    let of = |overlays: &[(&str, i32, Option<&str>)]| {
        let snapshot = world(overlays);
        let overlaid = overlaid_types(&snapshot).remove(&"default".into());
        let plain = &snapshot.instance_types[&"default".into()];
        changes(&plain[0], &overlaid.as_ref().unwrap_or(plain)[0])
    };
    assert_eq!(of(&[]), (false, false));
    assert_eq!(of(&[("cheap", 1, Some("0.00000005"))]), (true, false));
    assert_eq!(of(&[("gpu", 1, None)]), (false, true));
    assert_eq!(
        of(&[("cheap", 1, Some("0.00000005")), ("gpu", 2, None)]),
        (true, true)
    );
}

#[test]
fn overlapping_overlays_of_equal_weight_conflict() {
    let of = |overlays: &[(&str, i32, Option<&str>)]| {
        let snapshot = world(overlays);
        let conflicting = conflicting_overlays(&snapshot);
        conflicting
            .into_iter()
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let (one, other) = (Some("0.00000005"), Some("0.00000006"));
    assert_eq!(of(&[("a", 1, one), ("b", 2, other)]), [""; 0]);
    assert_eq!(of(&[("a", 1, one), ("b", 1, other)]), ["a"]);
    assert_eq!(of(&[("a", 1, one), ("b", 1, None)]), [""; 0]);
}

#[test]
fn overlaid_type_without_capacity_stays_unavailable() {
    let mut snapshot = world(&[("cheap", 1, Some("0.00000005")), ("gpu", 2, None)]);
    for types in snapshot.instance_types.values_mut() {
        Arc::make_mut(types)[0].offerings[0].available = false;
    }
    let overlaid = &overlaid_types(&snapshot)[&"default".into()][0];
    assert_eq!(overlaid.offerings[0].price, NanosPerHour(50));
    assert!(!overlaid.offerings[0].available);
}

#[test]
fn overlay_does_not_apply_to_an_excluded_node_pool() {
    let mut snapshot = world(&[("cheap", 1, Some("0.00000005"))]);
    snapshot.node_overlays[0].requirements[0].operator = Operator::NotIn;
    let pools: Vec<String> = overlaid_types(&snapshot).into_keys().map(|p| p.0).collect();
    assert_eq!(pools, ["other"]);
}

#[test]
fn resource_refused_by_the_node_class_is_not_added() {
    let mut snapshot = world(&[("gpu", 1, None)]);
    assert!(!overlaid_types(&snapshot).is_empty());
    snapshot.node_pools[0].refused_resources = ["gpu".to_owned()].into();
    assert!(overlaid_types(&snapshot).is_empty());
}
