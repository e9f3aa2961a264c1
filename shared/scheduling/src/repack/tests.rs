//! What buying again by price must do, and what it must leave alone.

mod kept;

use std::collections::{BTreeMap, BTreeSet};

use model::{
    CapacityType, InstanceType, NanosPerHour, NodePoolName, Offering, Resources,
    catalog::Overhead,
    labels,
    pod::{Pod, PodAffinityTerm, PodShape, TopologySpread, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    selector::{LabelSelector, NodeSelectorRequirement, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy},
    volume::Storage,
};

use crate::{Answer, Input, Options, Pool, solve};

const ZONES: [&str; 2] = ["a", "b"];

/// A type with this many cores and gigabytes at this many cents per hour.
fn kind(name: &str, cores: i64, gigabytes: i64, cents: i64) -> InstanceType {
    let mut requirements = Requirements::default();
    for (key, values) in [
        (labels::INSTANCE_TYPE, vec![name]),
        (labels::ZONE, ZONES.to_vec()),
    ] {
        let values = values.into_iter().map(str::to_owned);
        requirements.add(Requirement::new(key, Operator::In, values));
    }
    let offerings = ZONES.map(|zone| Offering {
        capacity_type: CapacityType::OnDemand,
        zone: zone.to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(cents * 10_000_000),
        available: true,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    });
    InstanceType {
        name: name.to_owned(),
        requirements,
        capacity: [
            ("cpu", cores * 1_000),
            ("memory", gigabytes << 30),
            ("pods", 100),
        ]
        .into(),
        overhead: Overhead::default(),
        offerings: offerings.to_vec(),
    }
}

/// A core costs 4 cents, a gigabyte half a cent; the large type has both and is the only one that takes everything.
fn types() -> Vec<InstanceType> {
    vec![
        kind("cpu", 16, 16, 72),
        kind("memory", 4, 128, 80),
        kind("large", 64, 512, 1_000),
    ]
}

fn pods(name: &str, number: usize, millicores: i64, gigabytes: i64) -> Vec<Pod> {
    let made = (0..number).map(|n| {
        let shape = PodShape {
            labels: [("app".to_owned(), name.to_owned())].into(),
            requests: [
                ("cpu", millicores),
                ("memory", gigabytes << 30),
                ("pods", 1),
            ]
            .into(),
            ..PodShape::default()
        };
        let mut pod = Pod {
            shape: shape.into(),
            ..Pod::default()
        };
        pod.key.namespace = "default".to_owned();
        pod.key.name = format!("{name}-{n:03}");
        pod.uid = pod.key.name.as_str().into();
        pod
    });
    made.collect()
}

fn selecting(app: &str) -> LabelSelector {
    LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        ..LabelSelector::default()
    }
}

fn ask(pods: &[Pod], types: &[InstanceType], limits: Resources) -> Answer {
    ask_pools(&["default"], &[], pods, types, limits)
}

/// The same of several NodePools that are alike but for their names.
fn ask_pools(
    names: &[&str],
    requirements: &[NodeSelectorRequirement],
    pods: &[Pod],
    types: &[InstanceType],
    limits: Resources,
) -> Answer {
    let storage = Storage::default();
    let all: Vec<NodePoolName> = names.iter().copied().map(NodePoolName::from).collect();
    let pools = all.iter().map(|name| Pool {
        name,
        labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), name.0.clone())]),
        requirements,
        taints: &[],
        types,
        weight: 0,
        remaining: limits.clone(),
    });
    solve(&Input {
        options: Options {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved: None,
            optimize: Optimize::Cost,
            well_known_labels: &[],
            reservation_id_label: "",
        },
        pods: pods.iter().collect(),
        moved: Vec::new(),
        pools: pools.collect(),
        nodes: Vec::new(),
        hosts: Vec::new(),
        daemons: Vec::new(),
        namespaces: &[],
        storage: &storage,
    })
}

fn cents(answer: &Answer) -> i64 {
    let nodes = answer.new_nodes.iter();
    nodes.map(|node| node.choices[0].price.0).sum::<i64>() / 10_000_000
}

/// Cores and memory that first fit mixes on large nodes.
fn lopsided() -> Vec<Pod> {
    [pods("busy", 32, 2_000, 1), pods("fat", 8, 500, 60)].concat()
}

#[test]
fn pods_are_sorted_onto_the_types_that_sell_what_they_need() {
    let answer = ask(&lopsided(), &types(), Resources::default());
    assert!(answer.unplaced.is_empty());
    // Four nodes for the cores, four for the memory.
    assert_eq!(
        (answer.new_nodes.len(), cents(&answer)),
        (8, 4 * 72 + 4 * 80)
    );
}

#[test]
fn a_node_more_has_to_save_its_upkeep() {
    let small = kind("small", 1, 4, 2);
    let double = kind("double", 2, 8, 5);
    let answer = ask(
        &pods("web", 2, 900, 1),
        &[small, double],
        Resources::default(),
    );
    assert_eq!((answer.new_nodes.len(), cents(&answer)), (1, 5));
}

#[test]
fn zones_stay_as_evenly_used_as_the_spread_demands() {
    let mut all = lopsided();
    for pod in &mut all {
        let app = pod.labels["app"].clone();
        pod.topology_spread = vec![TopologySpread {
            topology_key: labels::ZONE.to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(selecting(&app)),
            min_domains: None,
            match_label_keys: Vec::new(),
            node_affinity_policy: None,
            node_taints_policy: None,
        }];
    }
    let answer = ask(&all, &types(), Resources::default());
    assert!(answer.unplaced.is_empty());
    assert_eq!(cents(&answer), 4 * 72 + 4 * 80);
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for node in &answer.new_nodes {
        let zone = node
            .requirements
            .get(labels::ZONE)
            .map(|zones| &zones.values);
        let zone: Vec<&String> = zone.into_iter().flatten().collect();
        assert_eq!(zone.len(), 1);
        for pod in &node.pods {
            *counts
                .entry((all[*pod].labels["app"].as_str(), zone[0].clone()))
                .or_default() += 1;
        }
    }
    let counts: Vec<usize> = counts.into_values().collect();
    assert_eq!(counts, [16, 16, 4, 4]);
}

#[test]
fn pods_that_repel_each_other_stay_apart() {
    let mut all = lopsided();
    for pod in all.iter_mut().filter(|pod| pod.labels["app"] == "fat") {
        pod.pod_anti_affinity.required = vec![PodAffinityTerm {
            topology_key: labels::HOSTNAME.to_owned(),
            selector: Some(selecting("fat")),
            ..PodAffinityTerm::default()
        }];
    }
    let answer = ask(&all, &types(), Resources::default());
    assert!(answer.unplaced.is_empty());
    for node in &answer.new_nodes {
        let fat = node
            .pods
            .iter()
            .filter(|pod| all[**pod].labels["app"] == "fat");
        assert!(fat.count() <= 1);
    }
}

#[test]
fn a_pod_leaves_a_node_that_has_to_stay_where_that_is_cheaper() {
    let (small, large) = (kind("small", 4, 16, 10), kind("large", 8, 16, 25));
    // Leaders are alone among themselves, and what is near whom cannot be bought again.
    let mut all = [
        pods("leader", 1, 3_500, 1),
        pods("leader", 2, 1_000, 1).split_off(1),
        pods("follower", 1, 900, 1),
    ]
    .concat();
    for pod in &mut all {
        let near_leader = PodAffinityTerm {
            topology_key: labels::HOSTNAME.to_owned(),
            selector: Some(selecting("leader")),
            ..PodAffinityTerm::default()
        };
        match pod.labels["app"].as_str() {
            "leader" => pod.pod_anti_affinity.required = vec![near_leader],
            _ => pod.pod_affinity.required = vec![near_leader],
        }
    }
    let answer = ask(&all, &[small, large], Resources::default());
    assert!(answer.unplaced.is_empty());
    // First fit puts the follower on the fuller node, which has to grow for it.
    assert_eq!((answer.new_nodes.len(), cents(&answer)), (2, 2 * 10));
    let with_follower = answer.new_nodes.iter().find(|node| node.pods.contains(&2));
    assert_eq!(
        with_follower.map(|node| node.pods.clone()),
        Some(vec![1, 2])
    );
}

#[test]
fn limits_hold_for_the_nodes_bought_again() {
    // First fit takes one large node and a half; the cheaper nodes have 80 cores together.
    for cores in [60, 70, 80, 200] {
        let limits = Resources::from([("cpu", cores * 1_000)]);
        let all = lopsided();
        let types = types();
        let answer = ask(&all, &types, limits);
        let largest = answer.new_nodes.iter().map(|node| {
            let choices = node.choices.iter();
            choices
                .map(|choice| types[choice.instance_type()].capacity.get("cpu"))
                .max()
        });
        let together: i64 = largest.map(Option::unwrap_or_default).sum();
        assert!(together <= cores * 1_000, "{together} of {cores} cores");
    }
}

#[test]
fn every_pod_keeps_a_place() {
    let all = lopsided();
    let answer = ask(&all, &types(), Resources::default());
    let placed: Vec<usize> = answer
        .new_nodes
        .iter()
        .flat_map(|node| node.pods.clone())
        .collect();
    assert_eq!(placed.len(), all.len());
    assert_eq!(BTreeSet::from_iter(placed).len(), all.len());
}
