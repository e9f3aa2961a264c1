//! What rules of topology come to on paper.

use model::{
    labels,
    pod::{HostPort, PodShape, TopologySpread},
};

use super::{
    super::{
        cluster_model::{ClusterModel, PodKind},
        rules::Demand,
    },
    by_zone, selecting,
    world::World,
};

/// Shows the kind of each of the first pods.
fn kinds<const N: usize>(world: &World, shown: impl FnOnce([&PodKind; N])) {
    world.with_model(|cluster| shown(std::array::from_fn(|pod| cluster.kind(pod).unwrap())));
}

fn only<T>(rules: &[T]) -> &T {
    let [rule] = rules else {
        panic!("{} rules", rules.len());
    };
    rule
}

fn port(port: i32) -> HostPort {
    HostPort {
        ip: String::new(),
        port,
        protocol: "TCP".to_owned(),
    }
}

fn by_host(max_skew: i32) -> TopologySpread {
    let mut by_host = by_zone(max_skew);
    by_host.topology_key = labels::HOSTNAME.to_owned();
    by_host
}

#[test]
fn pods_that_hold_the_same_port_are_counted_together() {
    let mut world = World::new().node("l", "a", &[100, 200, 300]);
    for (pod, held) in [80, 80, 81].into_iter().enumerate() {
        world.pods[pod].host_ports = vec![port(held)];
    }
    kinds(&world, |kinds: [&PodKind; 3]| {
        let rules = kinds.map(|kind| {
            let rule = only(&kind.hosts);
            (rule.column, rule.most, rule.counts)
        });
        let rule = |column| (column, Some(0), true);
        assert_eq!(rules, [rule(0), rule(0), rule(1)]);
    });
}

#[test]
fn a_host_may_have_as_many_as_the_skew_allows_with_the_pod_itself() {
    let mut world = World::new()
        .node("l", "a", &[100, 200])
        .with(|shape| shape.topology_spread = vec![by_host(3)]);
    // Selects the others, and is not one of them.
    world.pods[1].labels.clear();
    kinds(&world, |kinds: [&PodKind; 2]| {
        let rules = kinds.map(|kind| {
            let rule = only(&kind.hosts);
            (rule.most, rule.counts)
        });
        assert_eq!(rules, [(Some(2), true), (Some(3), false)]);
    });
}

#[test]
fn a_pod_that_others_count_has_a_rule_that_demands_nothing() {
    let mut world = World::new()
        .node("l", "a", &[100, 200])
        .with(|shape| shape.topology_spread = vec![by_zone(1)]);
    world.pods[1].topology_spread.clear();
    kinds(&world, |kinds: [&PodKind; 2]| {
        let rows = kinds.map(|kind| {
            let rule = only(&kind.domains);
            assert!(rule.counts);
            (rule.row, rule.key, rule.demand.is_some())
        });
        assert_eq!(rows, [(0, 0, true), (0, 0, false)]);
    });
}

#[test]
fn rules_about_the_same_label_share_its_domains() {
    let world = World::new().node("l", "a", &[100]).with(|shape| {
        let mut by_capacity_type = by_zone(1);
        by_capacity_type.topology_key = labels::CAPACITY_TYPE.to_owned();
        shape.topology_spread = vec![by_zone(1), by_capacity_type];
        shape.pod_affinity.required = vec![selecting(labels::ZONE)];
    });
    world.with_model(|cluster| {
        let rules = cluster.kind(0).unwrap().domains.iter();
        let mut keys: Vec<usize> = rules.map(|rule| rule.key).collect();
        keys.sort_unstable();
        assert!(keys == [0, 0, 1] || keys == [0, 1, 1], "{keys:?}");
        assert_eq!(cluster.counted.keys.len(), 2);
    });
}

#[test]
fn a_pod_could_be_in_the_zones_that_its_own_requirements_allow() {
    let mut world = World::new()
        .node("l", "b", &[100, 200])
        .with(|shape| shape.topology_spread = vec![by_zone(1)]);
    world.pods[1].node_selector = [(labels::ZONE.to_owned(), "b".to_owned())].into();
    world.with_model(|cluster| {
        let kinds = [0, 1].map(|pod| cluster.kind(pod).unwrap());
        let eligible = kinds.map(|kind| kind.domains[0].eligible);
        assert_eq!(eligible.map(u64::count_ones), [3, 1]);
        let there = cluster.nodes[0].domains[0];
        assert_eq!(eligible[1], 1 << there);
    });
}

#[test]
fn what_a_spread_demands_is_read_as_it_is_written() {
    let demand = |change: fn(&mut PodShape)| {
        let world = World::new().node("l", "a", &[100]).with(|shape| {
            shape.topology_spread = vec![by_zone(2)];
            change(shape);
        });
        world.with_model(|cluster| match cluster.kind(0).unwrap().domains[0].demand {
            Some(Demand::Spread {
                most_skew,
                least_domains,
                counts_itself,
            }) => (most_skew, least_domains, counts_itself),
            _ => panic!("no spread"),
        })
    };
    assert_eq!(demand(|_| {}), (2, 0, true));
    let of_five = |shape: &mut PodShape| shape.topology_spread[0].min_domains = Some(5);
    assert_eq!(demand(of_five), (2, 5, true));
    assert_eq!(demand(|shape| shape.labels.clear()), (2, 0, false));
}

/// Nodes may be made in three zones, and there are others.
#[test]
fn pods_that_are_spread_over_more_domains_than_are_kept_apart_stay() {
    let is_planned = |zones: usize| {
        let mut world = World::new();
        for zone in 0..zones - 3 {
            world = world.node("s", &format!("z-{zone}"), &[100]);
        }
        let world = world.with(|shape| shape.topology_spread = vec![by_zone(9)]);
        let candidates = world.candidates();
        world.baseline(|baseline| ClusterModel::new(&mut baseline.solver(), &candidates).is_some())
    };
    assert!(is_planned(64));
    assert!(!is_planned(65));
}
