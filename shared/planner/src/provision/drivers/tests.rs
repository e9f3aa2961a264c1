use model::{
    PodKey,
    labels::ZONE,
    pod::{NodeSelectorTerm, Pod, PodVolume},
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
    volume::{Storage, Volume, VolumeClaim},
};
use scheduling::Volumes;

use super::label::Labels;

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

/// What is said about the zone of a node with these pods, on which `left` is left.
fn told(own: &[NodeSelectorRequirement], pods: &[&Pod], left: &[&str]) -> Option<String> {
    let storage = storage();
    let labels = Labels {
        own: &Requirements::from_selector(own),
        pods: pods.to_vec(),
        volumes: &Volumes::new(&storage),
        with_preferences: true,
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
fn whoever_narrowed_it_last_is_named() {
    let (first, second) = (asking("first", &[&["a", "b"]]), asking("second", &[&["b"]]));
    let idle = pod("idle");
    let pods = [&idle, &first, &second, &first];
    let narrowed = told(&[], &pods, &["b"]);
    assert_eq!(
        narrowed.as_deref(),
        Some("In [b] asked for by default/second")
    );
}

#[test]
fn the_nodepool_comes_first() {
    let own = [zones(Operator::In, &["b"])];
    let asks_for_the_same = asking("web", &[&["b"]]);
    let narrowed = told(&own, &[&asks_for_the_same], &["b"]);
    assert_eq!(narrowed.as_deref(), Some("In [b] of the NodePool"));
    let narrowed = told(
        &[zones(Operator::NotIn, &["c"])],
        &[&asks_for_the_same],
        &["b"],
    );
    assert_eq!(narrowed.as_deref(), Some("In [b] asked for by default/web"));
}

#[test]
fn of_alternatives_and_preferences_the_one_that_is_met_counts() {
    let mut picky = asking("picky", &[&["x"], &["a", "b"]]);
    let prefers = |zone| (1, term(zones(Operator::In, &[zone])));
    picky.node_affinity.preferred = vec![prefers("x"), prefers("b")];
    let told = told(&[], &[&picky], &["b"]);
    assert_eq!(told.as_deref(), Some("In [b] preferred by default/picky"));
}

#[test]
fn volumes_come_before_topology_and_others_last() {
    let mut stateful = pod("db");
    stateful.volumes = vec![PodVolume::Claim {
        claim: "data".to_owned(),
    }];
    let narrowed = told(&[], &[&stateful], &["b"]);
    assert_eq!(
        narrowed.as_deref(),
        Some("In [b] for the volumes of default/db")
    );
    // Not where its volume is: somebody else must have decided.
    let narrowed = told(&[], &[&stateful], &["a"]);
    assert_eq!(
        narrowed.as_deref(),
        Some("In [a] for pods that others keep away from")
    );
}
