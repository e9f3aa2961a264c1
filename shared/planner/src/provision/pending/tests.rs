use std::sync::Arc;

use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, Resources,
    catalog::Overhead,
    pod::{NodeSelectorTerm, PodVolume},
    selector::NodeSelectorRequirement,
    volume::{Volume, VolumeClaim},
};

use super::*;
use crate::fixtures;

fn asks(operator: Operator, zones: &[&str]) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: ZONE.to_owned(),
            operator,
            values: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            min_values: None,
        }],
        match_fields: Vec::new(),
    }
}

/// An instance type offered in two zones.
fn kind() -> InstanceType {
    let offering = |zone: &str| Offering {
        capacity_type: CapacityType::OnDemand,
        zone: zone.to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(1),
        available: true,
        unpriced: false,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    InstanceType {
        name: "small".to_owned(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Overhead::default(),
        offerings: ["a", "b"].map(offering).into(),
        ebs_attach_limit: None,
        devices: Vec::new(),
    }
}

fn pending(change: impl FnOnce(&mut Pod)) -> PendingPods {
    let mut snapshot = fixtures::snapshot();
    let types = Arc::new(vec![kind()]);
    snapshot.instance_types.insert("default".into(), types);
    // One claim, bound to a volume of zone b.
    snapshot.storage.claims = vec![VolumeClaim {
        namespace: "default".to_owned(),
        name: "data".to_owned(),
        volume: Some("pv".to_owned()),
        bind_completed: true,
        ..VolumeClaim::default()
    }];
    snapshot.storage.volumes = vec![Volume {
        name: "pv".to_owned(),
        node_affinity: vec![asks(Operator::In, &["b"])],
        ..Volume::default()
    }];
    let mut pod = fixtures::pod("web", "");
    pod.node_name = None;
    pod.unschedulable = true;
    change(&mut pod);
    snapshot.pods = vec![pod];
    pending_pods(&snapshot)
}

fn zone(change: impl FnOnce(&mut Pod)) -> EffectiveZone {
    let pending = pending(change);
    assert_eq!(pending.ignored, 0);
    let [(zone, 1)] = &pending.by_zone.into_iter().collect::<Vec<_>>()[..] else {
        panic!("one pod waits");
    };
    zone.clone()
}

fn with_volume(pod: &mut Pod) {
    pod.volumes = vec![PodVolume::Claim {
        claim: "data".to_owned(),
    }];
}

#[test]
fn effective_zone_satisfies_all_constraints() {
    let only = |zone: &str| EffectiveZone::Only(zone.to_owned());
    assert_eq!(zone(|_| {}), EffectiveZone::Flexible);
    let selects = |pod: &mut Pod| {
        pod.node_selector.insert(ZONE.to_owned(), "a".to_owned());
    };
    assert_eq!(zone(selects), only("a"));
    assert_eq!(zone(with_volume), only("b"));
    let made_up = |pod: &mut Pod| {
        let zone = "us-east-1-atl".to_owned();
        pod.node_selector.insert(ZONE.to_owned(), zone);
    };
    assert_eq!(zone(made_up), EffectiveZone::Conflicting);
    let in_two = |pod: &mut Pod| pod.node_affinity.required = vec![asks(Operator::In, &["a", "b"])];
    assert_eq!(zone(in_two), EffectiveZone::Flexible);
    assert_eq!(
        zone(|pod| {
            in_two(pod);
            with_volume(pod);
        }),
        only("b")
    );
    assert_eq!(
        zone(|pod| {
            selects(pod);
            with_volume(pod);
        }),
        EffectiveZone::Conflicting
    );
}

#[test]
fn either_affinity_term_may_hold() {
    let terms = |zones: [&'static str; 2]| {
        move |pod: &mut Pod| {
            pod.node_affinity.required = zones.map(|zone| asks(Operator::In, &[zone])).to_vec();
        }
    };
    assert_eq!(zone(terms(["a", "b"])), EffectiveZone::Flexible);
    assert_eq!(zone(terms(["a", "a"])), EffectiveZone::Only("a".to_owned()));
    let elsewhere =
        |pod: &mut Pod| pod.node_affinity.required = vec![asks(Operator::NotIn, &["a"])];
    assert_eq!(zone(elsewhere), EffectiveZone::Flexible);
}

#[test]
fn pod_with_impossible_requirements_is_ignored() {
    let none = pending(|pod| {
        pod.volumes = vec![PodVolume::Claim {
            claim: "missing".to_owned(),
        }];
    });
    assert_eq!((none.ignored, none.by_zone.len()), (1, 0));
    let bound = pending(|pod| pod.node_name = Some("n".into()));
    assert_eq!(bound, PendingPods::default());
}
