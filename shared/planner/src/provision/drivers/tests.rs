use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, PodKey, Resources,
    catalog::Overhead,
    labels::ZONE,
    pod::{NodeSelectorTerm, Pod, PodAffinityTerm, PodVolume, TopologySpread, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
    volume::{Storage, Volume, VolumeClaim},
};
use scheduling::Volumes;

use super::{label::Labels, passed_over};

fn zones(operator: Operator, zones: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: ZONE.to_owned(),
        operator,
        values: zones.iter().map(|zone| (*zone).to_owned()).collect(),
        min_values: None,
    }
}

fn term(requirement: NodeSelectorRequirement) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![requirement],
        match_fields: Vec::new(),
    }
}

fn pod(name: &str) -> Pod {
    Pod {
        key: PodKey::new("default".to_owned(), name.to_owned()),
        ..Pod::default()
    }
}

fn asking(name: &str, terms: &[&[&str]]) -> Pod {
    let mut pod = pod(name);
    let terms = terms.iter().map(|values| term(zones(Operator::In, values)));
    pod.node_affinity.required = terms.collect();
    pod
}

/// Text about the zone of a node with these pods, of which `left` remains.
fn narrowing_text(own: &[NodeSelectorRequirement], pods: &[&Pod], left: &[&str]) -> Option<String> {
    narrowing_text_with(true, own, pods, left)
}

fn narrowing_text_with(
    with_preferences: bool,
    own: &[NodeSelectorRequirement],
    pods: &[&Pod],
    left: &[&str],
) -> Option<String> {
    let storage = storage();
    let labels = Labels {
        own: &Requirements::from_selector(own),
        pods: pods.to_vec(),
        volumes: &Volumes::new(&storage),
        with_preferences,
    };
    let left = Requirement::from(&zones(Operator::In, left));
    labels.narrowing(&left).map(|known| known.to_string())
}

/// One claim, bound to a volume of zone b.
fn storage() -> Storage {
    Storage {
        claims: vec![VolumeClaim {
            namespace: "default".to_owned(),
            name: "data".to_owned(),
            volume: Some("pv".to_owned()),
            ..VolumeClaim::default()
        }],
        volumes: vec![Volume {
            name: "pv".to_owned(),
            node_affinity: vec![term(zones(Operator::In, &["b"]))],
            ..Volume::default()
        }],
        ..Storage::default()
    }
}

#[test]
fn last_narrowing_constraint_is_named() {
    let (first, second) = (asking("first", &[&["a", "b"]]), asking("second", &[&["b"]]));
    let idle = pod("idle");
    let pods = [&idle, &first, &second, &first];
    let narrowed = narrowing_text(&[], &pods, &["b"]);
    assert_eq!(
        narrowed.as_deref(),
        Some("In [b] asked for by default/second")
    );
}

#[test]
fn node_pool_is_named_before_pods() {
    let own = [zones(Operator::In, &["b"])];
    let asks_for_the_same = asking("web", &[&["b"]]);
    let narrowed = narrowing_text(&own, &[&asks_for_the_same], &["b"]);
    assert_eq!(narrowed.as_deref(), Some("In [b] of the NodePool"));
    let narrowed = narrowing_text(
        &[zones(Operator::NotIn, &["c"])],
        &[&asks_for_the_same],
        &["b"],
    );
    assert_eq!(narrowed.as_deref(), Some("In [b] asked for by default/web"));
}

#[test]
fn met_alternative_or_preference_is_named() {
    let mut picky = asking("picky", &[&["x"], &["a", "b"]]);
    let prefers = |zone| (1, term(zones(Operator::In, &[zone])));
    picky.node_affinity.preferred = vec![prefers("x"), prefers("b")];
    let reported = narrowing_text(&[], &[&picky], &["b"]);
    assert_eq!(
        reported.as_deref(),
        Some("In [b] preferred by default/picky")
    );
}

#[test]
fn volumes_are_named_before_topology_and_other_pods_last() {
    let mut stateful = pod("db");
    stateful.volumes = vec![PodVolume::Claim {
        claim: "data".to_owned(),
    }];
    let narrowed = narrowing_text(&[], &[&stateful], &["b"]);
    assert_eq!(
        narrowed.as_deref(),
        Some("In [b] for the volumes of default/db")
    );
    // The volume is elsewhere, so another constraint must have decided.
    let narrowed = narrowing_text(&[], &[&stateful], &["a"]);
    assert_eq!(
        narrowed.as_deref(),
        Some("In [a] for pods that others keep away from")
    );
}

#[test]
fn required_topology_is_named_before_preferred() {
    let spread = |when_unsatisfiable| TopologySpread {
        topology_key: ZONE.to_owned(),
        max_skew: 1,
        when_unsatisfiable,
        selector: None,
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    };
    let near = PodAffinityTerm {
        topology_key: ZONE.to_owned(),
        selector: None,
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    };
    let [mut strict, mut lenient, mut required, mut preferred] =
        ["strict", "lenient", "required", "preferred"].map(pod);
    strict.topology_spread = vec![spread(WhenUnsatisfiable::DoNotSchedule)];
    lenient.topology_spread = vec![spread(WhenUnsatisfiable::ScheduleAnyway)];
    required.pod_affinity.required = vec![near.clone()];
    preferred.pod_affinity.preferred = vec![(1, near)];
    let spread = "for the topology spread of default";
    let affinity = "for the pod affinity of default";
    let others = "for pods that others keep away from".to_owned();
    for (pods, with, is_strict) in [
        (&[&strict][..], format!("{spread}/strict"), true),
        (&[&lenient], format!("{spread}/lenient"), false),
        (&[&required], format!("{affinity}/required"), true),
        (&[&preferred], format!("{affinity}/preferred"), false),
        (&[&lenient, &required], format!("{affinity}/required"), true),
    ] {
        let reported = |with| narrowing_text_with(with, &[], pods, &["b"]).unwrap();
        assert_eq!(reported(true), format!("In [b] {with}"));
        let without = if is_strict { with } else { others.clone() };
        assert_eq!(reported(false), format!("In [b] {without}"));
    }
}

#[test]
fn narrowed_label_admits_its_values() {
    let storage = Storage::default();
    let labels = Labels {
        own: &Requirements::from_selector(&[zones(Operator::In, &["a", "b"])]),
        pods: Vec::new(),
        volumes: &Volumes::new(&storage),
        with_preferences: true,
    };
    let left = Requirement::from(&zones(Operator::In, &["a", "b"]));
    let narrowing = labels.narrowing(&left).unwrap();
    assert!(narrowing.allows("a") && !narrowing.allows("c"));
}

/// Offerings by zone, with price and availability.
fn kind(offerings: &[(&str, i64, bool)]) -> InstanceType {
    let offerings = offerings.iter().map(|(zone, price, available)| Offering {
        unpriced: false,
        capacity_type: CapacityType::OnDemand,
        zone: (*zone).to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(*price),
        available: *available,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    });
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: "m5.large".to_owned(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Overhead::default(),
        offerings: offerings.collect(),
    }
}

#[test]
fn only_preferred_unavailable_offerings_are_passed_over() {
    let kind = kind(&[
        ("dearer", 11, false),
        ("as cheap and before", 10, false),
        ("cheaper and there", 9, true),
        ("chosen", 10, true),
        ("cheaper", 9, false),
        ("as cheap and behind", 10, false),
        ("without a price", 0, false),
    ]);
    let missed = passed_over(&kind, &kind.offerings[3], |other| Some(&other.zone));
    assert_eq!(missed, ["as cheap and before", "cheaper"]);
}
