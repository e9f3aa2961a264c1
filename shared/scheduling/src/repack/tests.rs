//! Results of packing again by price, and the nodes that it must not change.

mod kept;

use std::collections::{BTreeMap, BTreeSet};

use model::{
    InstanceType, NodePoolName, Resources, labels,
    pod::{Pod, TopologySpread, WhenUnsatisfiable},
    selector::NodeSelectorRequirement,
    snapshot::{Optimize, ReservedOfferingMode},
};

use crate::{
    SolveResult,
    test_cluster::{CENT, TestCluster, ZONES, instance_type, near, pods, reserved, selecting},
};

/// A core costs 4 cents, a gigabyte half a cent. Only the large type has enough of both for every pod.
fn types() -> Vec<InstanceType> {
    vec![
        instance_type("cpu", 16, 16, 72),
        instance_type("memory", 4, 128, 80),
        instance_type("large", 64, 512, 1_000),
    ]
}

fn cluster(pods: &[Pod], types: &[InstanceType]) -> TestCluster {
    let mut cluster = TestCluster::new(types.to_vec(), pods.to_vec());
    cluster.options.optimize = Optimize::Cost;
    cluster
}

fn solve_pods(pods: &[Pod], types: &[InstanceType], limits: Resources) -> SolveResult {
    solve_pools(&["default"], &[], pods, types, limits)
}

/// Solves with several NodePools that differ in their names only.
fn solve_pools(
    names: &[&str],
    requirements: &[NodeSelectorRequirement],
    pods: &[Pod],
    types: &[InstanceType],
    limits: Resources,
) -> SolveResult {
    let mut cluster = cluster(pods, types);
    cluster.pools = names.iter().copied().map(NodePoolName::from).collect();
    cluster.requirements = requirements.to_vec();
    cluster.limits = limits;
    cluster.solve()
}

fn cents(result: &SolveResult) -> i64 {
    let nodes = result.new_nodes.iter();
    nodes.map(|node| node.choices[0].price.0).sum::<i64>() / CENT
}

/// CPU-heavy and memory-heavy pods, which first fit mixes on large nodes.
fn cpu_and_memory_heavy_pods() -> Vec<Pod> {
    [pods("busy", 32, 2_000, 1), pods("fat", 8, 500, 60)].concat()
}

#[test]
fn pods_are_packed_onto_the_types_that_are_cheapest_for_them() {
    let result = solve_pods(&cpu_and_memory_heavy_pods(), &types(), Resources::default());
    assert!(result.unplaced.is_empty());
    // Four nodes for CPU, four for memory.
    assert_eq!(
        (result.new_nodes.len(), cents(&result)),
        (8, 4 * 72 + 4 * 80)
    );
}

#[test]
fn additional_node_has_to_save_its_overhead() {
    let small = instance_type("small", 1, 4, 2);
    let double = instance_type("double", 2, 8, 5);
    let result = solve_pods(
        &pods("web", 2, 900, 1),
        &[small, double],
        Resources::default(),
    );
    assert_eq!((result.new_nodes.len(), cents(&result)), (1, 5));
}

/// First fit makes three nodes of ten, eight and four cores, although two of ten would suffice.
#[test]
fn equal_price_with_fewer_nodes_keeps_the_first_result() {
    let types = [("ten", 10, 100), ("eight", 8, 68), ("four", 4, 32)];
    let types = types.map(|(name, cores, cents)| instance_type(name, cores, 64, cents));
    let all = [pods("four", 2, 4_000, 1), pods("three", 4, 3_000, 1)].concat();
    let result = solve_pods(&all, &types, Resources::default());
    assert_eq!((result.new_nodes.len(), cents(&result)), (3, 200));
}

/// Packing does not track reservations.
#[test]
fn claims_are_kept_while_reservations_are_counted() {
    // No pod fits the reserved type.
    let mut tiny = instance_type("tiny", 1, 1, 1);
    tiny.offerings = vec![reserved("cr", ZONES[0])];
    let types = [types(), vec![tiny]].concat();
    let mut cluster = cluster(&cpu_and_memory_heavy_pods(), &types);
    let price = |cluster: &TestCluster| cents(&cluster.solve());
    assert_eq!(price(&cluster), 4 * 72 + 4 * 80);
    cluster.options.reserved = Some(ReservedOfferingMode::Strict);
    assert!(price(&cluster) > 4 * 72 + 4 * 80);
}

#[test]
fn repacking_keeps_the_spread_over_zones() {
    let mut all = cpu_and_memory_heavy_pods();
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
    let result = solve_pods(&all, &types(), Resources::default());
    assert!(result.unplaced.is_empty());
    assert_eq!(cents(&result), 4 * 72 + 4 * 80);
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for node in &result.new_nodes {
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
fn repacking_keeps_anti_affinity() {
    let mut all = cpu_and_memory_heavy_pods();
    for pod in all.iter_mut().filter(|pod| pod.labels["app"] == "fat") {
        pod.pod_anti_affinity.required = vec![near("fat", labels::HOSTNAME)];
    }
    let result = solve_pods(&all, &types(), Resources::default());
    assert!(result.unplaced.is_empty());
    for node in &result.new_nodes {
        let fat = node
            .pods
            .iter()
            .filter(|pod| all[**pod].labels["app"] == "fat");
        assert!(fat.count() <= 1);
    }
}

#[test]
fn pod_is_moved_off_a_fixed_node_if_that_is_cheaper() {
    let (small, large) = (
        instance_type("small", 4, 16, 10),
        instance_type("large", 8, 16, 25),
    );
    // Leaders have anti-affinity to each other, and pods with affinity per host cannot be packed again.
    let mut all = [
        pods("leader", 1, 3_500, 1),
        pods("leader", 2, 1_000, 1).split_off(1),
        pods("follower", 1, 900, 1),
    ]
    .concat();
    for pod in &mut all {
        let near_leader = near("leader", labels::HOSTNAME);
        match pod.labels["app"].as_str() {
            "leader" => pod.pod_anti_affinity.required = vec![near_leader],
            _ => pod.pod_affinity.required = vec![near_leader],
        }
    }
    let result = solve_pods(&all, &[small, large], Resources::default());
    assert!(result.unplaced.is_empty());
    // First fit puts the follower on the fuller node, which has to grow for it.
    assert_eq!((result.new_nodes.len(), cents(&result)), (2, 2 * 10));
    let with_follower = result.new_nodes.iter().find(|node| node.pods.contains(&2));
    assert_eq!(
        with_follower.map(|node| node.pods.clone()),
        Some(vec![1, 2])
    );
}

#[test]
fn repacked_nodes_stay_within_limits() {
    // First fit takes one large node and a half; the cheaper nodes have 80 cores together.
    for cores in [60, 70, 80, 200] {
        let limits = Resources::from([("cpu", cores * 1_000)]);
        let all = cpu_and_memory_heavy_pods();
        let types = types();
        let result = solve_pods(&all, &types, limits);
        let largest = result.new_nodes.iter().map(|node| {
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
fn repacking_places_every_pod_once() {
    let all = cpu_and_memory_heavy_pods();
    let result = solve_pods(&all, &types(), Resources::default());
    let placed: Vec<usize> = result
        .new_nodes
        .iter()
        .flat_map(|node| node.pods.clone())
        .collect();
    assert_eq!(placed.len(), all.len());
    assert_eq!(BTreeSet::from_iter(placed).len(), all.len());
}

/// The value bound ignores a resource that only one pod requests.
#[test]
fn rare_resource_of_one_pod_does_not_disable_repacking() {
    let mut graphic = instance_type("graphic", 64, 512, 2_000);
    graphic.capacity.set("gpu", 1);
    let mut all = cpu_and_memory_heavy_pods();
    all.extend(pods("render", 1, 1_000, 1));
    let last = all.len() - 1;
    all[last].requests.set("gpu", 1);
    let result = solve_pods(
        &all,
        &[types(), vec![graphic]].concat(),
        Resources::default(),
    );
    assert!(result.unplaced.is_empty());
    let without: i64 = cents(&result) - 2_000;
    assert!(without <= 4 * 72 + 4 * 80, "{without}");
}

/// Twelve pods over two zones: in each, three share one node of four cores, and three more another one.
#[test]
fn nodes_of_every_zone_are_repacked() {
    let types = [("two", 2_000, 7), ("four", 4_000, 14), ("eight", 8_000, 28)];
    let types = types.map(|(name, millicores, cents)| {
        let mut of = instance_type(name, 1, 16, cents);
        of.capacity.set("cpu", millicores - 80);
        of
    });
    let mut all = pods("web", 8, 1_000, 0);
    for pod in &mut all {
        pod.topology_spread = vec![TopologySpread {
            topology_key: labels::ZONE.to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(selecting("web")),
            min_domains: None,
            match_label_keys: Vec::new(),
            node_affinity_policy: None,
            node_taints_policy: None,
        }];
    }
    let result = solve_pods(&all, &types, Resources::default());
    assert_eq!((result.new_nodes.len(), cents(&result)), (4, 2 * (14 + 7)));
}
