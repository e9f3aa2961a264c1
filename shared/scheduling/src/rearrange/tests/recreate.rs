//! Where a pod that lost its place finds another.

use model::{CapacityType, NanosPerHour, labels, pod::PodShape};

use super::{
    super::{
        cluster_model::{ClusterModel, NO_INDEX},
        recreate::InsertionOptions,
        rng::Rng,
        state::State,
    },
    by_zone, selecting,
    world::{CENT, SIZES, World, ZONES, kind},
};

/// Lets the first node go, looks for places for its pods in their order, and shows what is found.
fn found(
    world: &World,
    options: InsertionOptions,
    shown: impl FnOnce(&ClusterModel, &State, &[bool]),
) {
    world.with_model(|cluster| {
        let (mut state, mut unassigned) = (cluster.initial_assignment(), Vec::new());
        state.remove_node(cluster, 0, &mut unassigned);
        let mut rng = Rng::new();
        let found = unassigned.iter();
        let found = found.map(|pod| state.find_place(cluster, *pod, options, &mut rng));
        let found: Vec<bool> = found.collect();
        shown(cluster, &state, &found);
    });
}

const OPTIONS: InsertionOptions = InsertionOptions {
    replacements_max: 3,
    new_node_penalty: 0,
};

/// A node that goes with these pods, beside others that are full: there are never more new nodes than old ones.
fn leaving(pods: &[i64]) -> World {
    let world = World::new().node("l", "a", pods);
    world.node("s", "a", &[2_000]).node("s", "a", &[2_000])
}

/// The types of the new nodes, and the pods on each.
fn planned(cluster: &ClusterModel, state: &State) -> Vec<(String, Vec<usize>)> {
    let planned = state.planned_nodes(cluster).map(|(node, planned)| {
        let mut pods = state.relocated[node].clone();
        pods.sort_unstable();
        (cluster.offers[planned.offer].instance_type.clone(), pods)
    });
    planned.collect()
}

/// What has this type and these pods.
fn of(kind: &str, pods: &[usize]) -> (String, Vec<usize>) {
    (kind.to_owned(), pods.to_vec())
}

#[test]
fn a_pod_goes_where_it_leaves_least_over() {
    let node_of = |nodes: [&[i64]; 2]| {
        let world = World::new()
            .node("s", "a", &[900])
            .node("m", "a", nodes[0])
            .node("m", "a", nodes[1]);
        let mut node_of = NO_INDEX;
        found(&world, OPTIONS, |_, state, _| node_of = state.node_of[0]);
        node_of
    };
    assert_eq!(node_of([&[3_000], &[1_000]]), 1);
    assert_eq!(node_of([&[1_000], &[3_000]]), 2);
    assert_eq!(
        node_of([&[3_000], &[3_000]]),
        1,
        "equal ones in their order"
    );
    assert_eq!(node_of([&[3_200], &[1_000]]), 2, "the first is too full");
}

#[test]
fn a_team_has_no_more_new_nodes_than_it_may() {
    let mut world = leaving(&[3_900, 3_900]);
    world.types.pop();
    let placed = |replacements_max| {
        let mut placed = Vec::new();
        let options = InsertionOptions {
            replacements_max,
            ..OPTIONS
        };
        found(&world, options, |_, _, found| placed = found.to_vec());
        placed
    };
    assert_eq!(placed(1), [true, false]);
    assert_eq!(placed(2), [true, true]);
}

/// A larger node would be 17 cents dearer, and another one costs 10.
#[test]
fn reluctance_makes_one_more_node_dearer_by_eighths() {
    let world = leaving(&[3_900, 1_900]);
    let bought = |new_node_penalty| {
        let mut bought = Vec::new();
        let options = InsertionOptions {
            new_node_penalty,
            ..OPTIONS
        };
        found(&world, options, |cluster, state, _| {
            bought = planned(cluster, state);
        });
        bought
    };
    assert_eq!(bought(0), [of("m", &[0]), of("s", &[1])]);
    assert_eq!(bought(5), [of("m", &[0]), of("s", &[1])]);
    assert_eq!(bought(6), [of("l", &[0, 1])]);
}

/// The third pod fits on either new node without making it dearer.
#[test]
fn of_new_nodes_that_cost_the_same_the_fuller_one_is_taken() {
    let bought = |first, second| {
        let world = leaving(&[first, second, 500]);
        let mut bought = Vec::new();
        found(&world, OPTIONS, |cluster, state, _| {
            bought = planned(cluster, state);
        });
        bought
    };
    assert_eq!(bought(3_400, 1_100), [of("m", &[0, 2]), of("s", &[1])]);
    assert_eq!(bought(3_100, 1_500), [of("m", &[0]), of("s", &[1, 2])]);
}

#[test]
fn of_new_nodes_that_are_as_full_as_each_other_the_first_is_taken() {
    let mut world = leaving(&[1_400, 1_400, 500]);
    world.types = vec![kind("s", 2, 10, CapacityType::OnDemand)];
    found(&world, OPTIONS, |cluster, state, _| {
        assert_eq!(planned(cluster, state), [of("s", &[0, 2]), of("s", &[1])]);
    });
}

/// A world whose first node goes with one pod, and in which zones have prices of their own.
fn dear_zones(cents: [i64; 3], change: impl Fn(&mut PodShape)) -> World {
    let mut world = World::new()
        .node("s", "a", &[1_900])
        .node("s", "a", &[1_900])
        .node("s", "b", &[1_900])
        .with(change);
    let (name, cores, _) = SIZES[1];
    let mut only = kind(name, cores, 0, CapacityType::OnDemand);
    for (offering, cents) in only.offerings.iter_mut().zip(cents) {
        offering.price = NanosPerHour(cents * CENT);
    }
    world.types = vec![only];
    world
}

/// The zone that the new node of the first pod is decided on.
fn zone_of(world: &World) -> Option<&'static str> {
    let mut zone = None;
    found(world, OPTIONS, |cluster, state, found| {
        let planned = state.planned_nodes(cluster).next();
        zone = planned.map(|(_, planned)| {
            let offer = &cluster.offers[planned.offer];
            assert_eq!(offer.domains, planned.domains);
            let known = ZONES.iter().zip(&world.types[0].offerings);
            let mut of_price = known.filter(|(_, known)| known.price.0 == offer.price);
            *of_price.next().unwrap().0
        });
        assert_eq!(found, [zone.is_some()]);
    });
    zone
}

#[test]
fn a_pod_that_is_spread_goes_to_the_emptiest_zone_whatever_that_costs() {
    let spread = |shape: &mut PodShape| shape.topology_spread = vec![by_zone(3)];
    assert_eq!(zone_of(&dear_zones([1, 2, 3], spread)), Some("c"));
}

#[test]
fn a_pod_that_keeps_apart_goes_to_the_cheapest_zone_that_it_may() {
    let apart = |shape: &mut PodShape| {
        shape.pod_anti_affinity.required = vec![selecting(labels::ZONE)];
    };
    let mut world = dear_zones([3, 1, 2], apart);
    assert_eq!(zone_of(&world), Some("c"));
    // Nothing is left in the second zone that it would have to keep apart from.
    world.pods[2].labels.clear();
    world.pods[2].pod_anti_affinity.required.clear();
    assert_eq!(zone_of(&world), Some("b"));
}

#[test]
fn a_zone_that_one_rule_decides_on_binds_the_others() {
    let spread = |shape: &mut PodShape| {
        let mut of_others = by_zone(3);
        of_others.selector = Some(crate::test_cluster::selecting("other"));
        shape.topology_spread = vec![by_zone(3), of_others];
    };
    let mut world = dear_zones([1, 2, 3], spread);
    assert_eq!(zone_of(&world), Some("c"));
    for pod in world.pods.iter_mut().skip(1) {
        pod.labels = [("app".to_owned(), "other".to_owned())].into();
    }
    assert_eq!(zone_of(&world), Some("a"));
}
