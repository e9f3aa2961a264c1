//! Rules that the model derives from topology constraints and host ports.

use model::{
    labels,
    pod::{HostPort, PodShape, TopologySpread},
};

use super::{
    super::{
        cluster_model::{ClusterModel, PodKind},
        rules::Demand,
    },
    by_zone,
    fixture::SmallCluster,
    selecting,
};

/// Shows the kinds of the first pods.
fn kinds<const N: usize>(fixture: &SmallCluster, visit: impl FnOnce([&PodKind; N])) {
    fixture.with_model(|cluster| visit(std::array::from_fn(|pod| cluster.kind(pod).unwrap())));
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
fn pods_with_the_same_host_port_share_a_column() {
    let mut fixture = SmallCluster::new().node("l", "a", &[100, 200, 300]);
    for (pod, held) in [80, 80, 81].into_iter().enumerate() {
        fixture.pods[pod].host_ports = vec![port(held)];
    }
    kinds(&fixture, |kinds: [&PodKind; 3]| {
        let rules = kinds.map(|kind| {
            let rule = only(&kind.hosts);
            (rule.column, rule.most, rule.counts)
        });
        let rule = |column| (column, Some(0), true);
        assert_eq!(rules, [rule(0), rule(0), rule(1)]);
    });
}

#[test]
fn host_count_allows_max_skew_including_the_pod() {
    let mut fixture = SmallCluster::new()
        .node("l", "a", &[100, 200])
        .with(|shape| shape.topology_spread = vec![by_host(3)]);
    // Selects the other pods without being selected itself.
    fixture.pods[1].labels.clear();
    kinds(&fixture, |kinds: [&PodKind; 2]| {
        let rules = kinds.map(|kind| {
            let rule = only(&kind.hosts);
            (rule.most, rule.counts)
        });
        assert_eq!(rules, [(Some(2), true), (Some(3), false)]);
    });
}

#[test]
fn pod_that_is_only_counted_has_a_rule_without_demand() {
    let mut fixture = SmallCluster::new()
        .node("l", "a", &[100, 200])
        .with(|shape| shape.topology_spread = vec![by_zone(1)]);
    fixture.pods[1].topology_spread.clear();
    kinds(&fixture, |kinds: [&PodKind; 2]| {
        let rows = kinds.map(|kind| {
            let rule = only(&kind.domains);
            assert!(rule.counts);
            (rule.row, rule.key, rule.demand.is_some())
        });
        assert_eq!(rows, [(0, 0, true), (0, 0, false)]);
    });
}

#[test]
fn rules_with_the_same_topology_key_share_its_domains() {
    let fixture = SmallCluster::new().node("l", "a", &[100]).with(|shape| {
        let mut by_capacity_type = by_zone(1);
        by_capacity_type.topology_key = labels::CAPACITY_TYPE.to_owned();
        shape.topology_spread = vec![by_zone(1), by_capacity_type];
        shape.pod_affinity.required = vec![selecting(labels::ZONE)];
    });
    fixture.with_model(|cluster| {
        let rules = cluster.kind(0).unwrap().domains.iter();
        let mut keys: Vec<usize> = rules.map(|rule| rule.key).collect();
        keys.sort_unstable();
        assert!(keys == [0, 0, 1] || keys == [0, 1, 1], "{keys:?}");
        assert_eq!(cluster.counted.keys.len(), 2);
    });
}

#[test]
fn eligible_zones_follow_the_pods_requirements() {
    let mut fixture = SmallCluster::new()
        .node("l", "b", &[100, 200])
        .with(|shape| shape.topology_spread = vec![by_zone(1)]);
    fixture.pods[1].node_selector = [(labels::ZONE.to_owned(), "b".to_owned())].into();
    fixture.with_model(|cluster| {
        let kinds = [0, 1].map(|pod| cluster.kind(pod).unwrap());
        let eligible = kinds.map(|kind| kind.domains[0].eligible);
        assert_eq!(eligible.map(u64::count_ones), [3, 1]);
        let there = cluster.nodes[0].domains[0];
        assert_eq!(eligible[1], 1 << there);
    });
}

#[test]
fn demand_of_a_spread_follows_its_fields() {
    let demand = |change: fn(&mut PodShape)| {
        let fixture = SmallCluster::new().node("l", "a", &[100]).with(|shape| {
            shape.topology_spread = vec![by_zone(2)];
            change(shape);
        });
        fixture.with_model(|cluster| match cluster.kind(0).unwrap().domains[0].demand {
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

/// New nodes can be launched in three zones; existing nodes are in others.
#[test]
fn pods_with_more_than_64_domains_are_not_moved() {
    let is_planned = |zones: usize| {
        let mut fixture = SmallCluster::new();
        for zone in 0..zones - 3 {
            fixture = fixture.node("s", &format!("z-{zone}"), &[100]);
        }
        let fixture = fixture.with(|shape| shape.topology_spread = vec![by_zone(9)]);
        let candidates = fixture.candidates();
        fixture.with_baseline(|baseline| {
            ClusterModel::new(&mut baseline.solver(), &candidates).is_some()
        })
    };
    assert!(is_planned(64));
    assert!(!is_planned(65));
}
