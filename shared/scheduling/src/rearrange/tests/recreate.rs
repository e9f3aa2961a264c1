//! Placement of single pods by the insertion step.

use model::{CapacityType, NanosPerHour, labels, pod::PodShape};

use super::{
    super::{
        assignment::Assignment,
        cluster_model::{ClusterModel, NO_INDEX},
        recreate::InsertionOptions,
        rng::Rng,
    },
    by_zone,
    fixture::{CENT, SIZES, SmallCluster, ZONES, instance_type},
    selecting,
};

/// Removes the first node, inserts its pods in order, and shows the result.
fn with_insertion(
    fixture: &SmallCluster,
    options: InsertionOptions,
    visit: impl FnOnce(&ClusterModel, &Assignment, &[bool]),
) {
    fixture.with_model(|cluster| {
        let (mut state, mut unassigned) = (cluster.initial_assignment(), Vec::new());
        state.remove_node(cluster, 0, &mut unassigned);
        let mut rng = Rng::new();
        let found = unassigned.iter();
        let found = found.map(|pod| state.insert_pod(cluster, *pod, options, &mut rng));
        let found: Vec<bool> = found.collect();
        visit(cluster, &state, &found);
    });
}

const OPTIONS: InsertionOptions = InsertionOptions {
    replacements_max: 3,
    new_node_penalty: 0,
};

/// Node with these pods beside full nodes. There are never more planned nodes than candidates.
fn beside_full_nodes(pods: &[i64]) -> SmallCluster {
    let fixture = SmallCluster::new().node("l", "a", pods);
    fixture.node("s", "a", &[2_000]).node("s", "a", &[2_000])
}

/// Instance types of the planned nodes, with the pods on each.
fn planned(cluster: &ClusterModel, state: &Assignment) -> Vec<(String, Vec<usize>)> {
    let planned = state.planned_nodes(cluster).map(|(node, planned)| {
        let mut pods = state.relocated[node].clone();
        pods.sort_unstable();
        (cluster.offers[planned.offer].instance_type.clone(), pods)
    });
    planned.collect()
}

/// Planned node of this type with these pods.
fn node(kind: &str, pods: &[usize]) -> (String, Vec<usize>) {
    (kind.to_owned(), pods.to_vec())
}

#[test]
fn pod_is_placed_on_the_node_with_least_slack() {
    let node_of = |nodes: [&[i64]; 2]| {
        let fixture = SmallCluster::new()
            .node("s", "a", &[900])
            .node("m", "a", nodes[0])
            .node("m", "a", nodes[1]);
        let mut node_of = NO_INDEX;
        with_insertion(&fixture, OPTIONS, |_, state, _| node_of = state.node_of[0]);
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
fn new_nodes_of_a_group_are_bounded() {
    let mut fixture = beside_full_nodes(&[3_900, 3_900]);
    fixture.types.pop();
    let placed = |replacements_max| {
        let mut placed = Vec::new();
        let options = InsertionOptions {
            replacements_max,
            ..OPTIONS
        };
        with_insertion(&fixture, options, |_, _, found| placed = found.to_vec());
        placed
    };
    assert_eq!(placed(1), [true, false]);
    assert_eq!(placed(2), [true, true]);
}

/// A larger node would cost 17 cents more, another node costs 10.
#[test]
fn new_node_penalty_counts_in_eighths_of_the_price() {
    let fixture = beside_full_nodes(&[3_900, 1_900]);
    let launched = |new_node_penalty| {
        let mut launched = Vec::new();
        let options = InsertionOptions {
            new_node_penalty,
            ..OPTIONS
        };
        with_insertion(&fixture, options, |cluster, state, _| {
            launched = planned(cluster, state);
        });
        launched
    };
    assert_eq!(launched(0), [node("m", &[0]), node("s", &[1])]);
    assert_eq!(launched(5), [node("m", &[0]), node("s", &[1])]);
    assert_eq!(launched(6), [node("l", &[0, 1])]);
}

/// The third pod fits on either new node without raising its price.
#[test]
fn fuller_new_node_is_preferred_at_equal_cost() {
    let launched = |first, second| {
        let fixture = beside_full_nodes(&[first, second, 500]);
        let mut launched = Vec::new();
        with_insertion(&fixture, OPTIONS, |cluster, state, _| {
            launched = planned(cluster, state);
        });
        launched
    };
    assert_eq!(
        launched(3_400, 1_100),
        [node("m", &[0, 2]), node("s", &[1])]
    );
    assert_eq!(
        launched(3_100, 1_500),
        [node("m", &[0]), node("s", &[1, 2])]
    );
}

#[test]
fn first_new_node_is_preferred_at_equal_slack() {
    let mut fixture = beside_full_nodes(&[1_400, 1_400, 500]);
    fixture.types = vec![instance_type("s", 2, 10, CapacityType::OnDemand)];
    with_insertion(&fixture, OPTIONS, |cluster, state, _| {
        assert_eq!(
            planned(cluster, state),
            [node("s", &[0, 2]), node("s", &[1])]
        );
    });
}

/// The first node has one pod, and each zone has its own price.
fn priced_zones(cents: [i64; 3], change: impl Fn(&mut PodShape)) -> SmallCluster {
    let mut fixture = SmallCluster::new()
        .node("s", "a", &[1_900])
        .node("s", "a", &[1_900])
        .node("s", "b", &[1_900])
        .with(change);
    let (name, cores, _) = SIZES[1];
    let mut only = instance_type(name, cores, 0, CapacityType::OnDemand);
    for (offering, cents) in only.offerings.iter_mut().zip(cents) {
        offering.price = NanosPerHour(cents * CENT);
    }
    fixture.types = vec![only];
    fixture
}

/// Zone of the new node for the first pod.
fn zone_of(fixture: &SmallCluster) -> Option<&'static str> {
    let mut zone = None;
    with_insertion(fixture, OPTIONS, |cluster, state, found| {
        let planned = state.planned_nodes(cluster).next();
        zone = planned.map(|(_, planned)| {
            let offer = &cluster.offers[planned.offer];
            assert_eq!(offer.domains, planned.domains);
            let known = ZONES.iter().zip(&fixture.types[0].offerings);
            let mut of_price = known.filter(|(_, known)| known.price.0 == offer.price);
            *of_price.next().unwrap().0
        });
        assert_eq!(found, [zone.is_some()]);
    });
    zone
}

#[test]
fn spread_pod_is_placed_in_the_zone_with_fewest_pods_at_any_price() {
    let spread = |shape: &mut PodShape| shape.topology_spread = vec![by_zone(3)];
    assert_eq!(zone_of(&priced_zones([1, 2, 3], spread)), Some("c"));
}

#[test]
fn anti_affinity_pod_is_placed_in_the_cheapest_allowed_zone() {
    let apart = |shape: &mut PodShape| {
        shape.pod_anti_affinity.required = vec![selecting(labels::ZONE)];
    };
    let mut fixture = priced_zones([3, 1, 2], apart);
    assert_eq!(zone_of(&fixture), Some("c"));
    // No pod with anti-affinity is left in the second zone.
    fixture.pods[2].labels.clear();
    fixture.pods[2].pod_anti_affinity.required.clear();
    assert_eq!(zone_of(&fixture), Some("b"));
}

#[test]
fn zone_fixed_by_one_constraint_binds_the_others() {
    let spread = |shape: &mut PodShape| {
        let mut of_others = by_zone(3);
        of_others.selector = Some(crate::test_cluster::selecting("other"));
        shape.topology_spread = vec![by_zone(3), of_others];
    };
    let mut fixture = priced_zones([1, 2, 3], spread);
    assert_eq!(zone_of(&fixture), Some("c"));
    for pod in fixture.pods.iter_mut().skip(1) {
        pod.labels = [("app".to_owned(), "other".to_owned())].into();
    }
    assert_eq!(zone_of(&fixture), Some("a"));
}
