//! Counts that the search updates incrementally equal the counts computed from the final assignment.

use model::{
    NanosPerHour, labels,
    pod::{HostPort, PodShape},
};

use super::{
    super::{
        RearrangeRequest,
        assignment::Assignment,
        cluster_model::{ClusterModel, NO_INDEX},
        search::RuinAndRecreate,
    },
    by_zone,
    fixture::{CENT, SmallCluster},
    selecting, underused_nodes,
};

/// Constraint added to each pod of a cluster.
type Rule = fn(&mut PodShape);

const RULES: [Rule; 6] = [
    |_| {},
    |shape| {
        shape.host_ports = vec![HostPort {
            ip: String::new(),
            port: 80,
            protocol: "TCP".to_owned(),
        }];
    },
    |shape| shape.pod_anti_affinity.required = vec![selecting(labels::HOSTNAME)],
    |shape| shape.pod_affinity.required = vec![selecting(labels::ZONE)],
    |shape| shape.topology_spread = vec![by_zone(2)],
    |shape| {
        let mut by_host = by_zone(3);
        by_host.topology_key = labels::HOSTNAME.to_owned();
        shape.topology_spread = vec![by_zone(4), by_host];
    },
];

#[test]
fn incremental_counts_equal_recomputed_counts() {
    let mut removed = 0;
    for (seed, rule) in (0..).zip(RULES) {
        let fixture = underused_nodes(seed).with(rule);
        for_each_best_state(&fixture, |cluster, state| {
            assert_feasible(cluster, state);
            assert_eq!(state.cost, cost(cluster, state), "rule {seed}");
            assert_eq!(state.evicted, moved(cluster, state).count(), "rule {seed}");
            assert_counts(cluster, state);
            assert_cheapest_offers(cluster, state);
            removed += state.removed.iter().filter(|removed| **removed).count();
        });
    }
    assert!(removed > 100, "{removed}");
}

/// Shows the best state after few and many attempts, at rising and falling prices per eviction.
fn for_each_best_state(fixture: &SmallCluster, mut visit: impl FnMut(&ClusterModel, &Assignment)) {
    let mut candidates = fixture.candidates();
    for candidate in &mut candidates {
        candidate.disturbance = NanosPerHour(CENT / 8);
    }
    for attempts in [20, 100, 600] {
        let request = RearrangeRequest {
            removable: &candidates,
            together_max: &[usize::MAX],
            replacements_max: 3,
            spot_to_spot: false,
            attempts,
        };
        fixture.with_baseline(|baseline| {
            let cluster = ClusterModel::new(&mut baseline.solver(), &candidates).unwrap();
            let mut search = RuinAndRecreate::new(&cluster, &request);
            for eighths in [8, 0, 20, 2] {
                visit(&cluster, search.cheapest(NanosPerHour(eighths * CENT / 8)));
            }
        });
    }
}

/// Pods of removed nodes.
fn moved<'p>(cluster: &'p ClusterModel, state: &'p Assignment) -> impl Iterator<Item = usize> {
    (0..cluster.pods.len()).filter(|pod| state.removed[cluster.pods[*pod].candidate])
}

fn cost(cluster: &ClusterModel, state: &Assignment) -> i64 {
    let candidates = cluster.candidates.iter().zip(&state.removed);
    let nodes = candidates.map(|(candidate, removed)| match removed {
        true => candidate.disturbance,
        false => candidate.price,
    });
    let planned = state.planned_nodes(cluster);
    nodes.sum::<i64>()
        + planned
            .map(|(_, planned)| cluster.price(planned.offer))
            .sum::<i64>()
}

/// Pods of kept nodes are on their origin; the others on nodes that are kept, fit them, and admit them.
fn assert_feasible(cluster: &ClusterModel, state: &Assignment) {
    for (at, pod) in cluster.pods.iter().enumerate() {
        let (node, origin) = (state.node_of[at], cluster.origin(pod.candidate));
        assert_eq!(node == origin, !state.removed[pod.candidate]);
        if node == origin {
            continue;
        }
        let kind = &cluster.kinds[pod.kind];
        match state.planned_at(cluster, node) {
            Some(planned) => {
                assert_eq!(state.group_of(pod.candidate), Some(planned.group));
                assert!(
                    planned.viable_offers.contains(planned.offer)
                        && kind.offers.contains(planned.offer)
                );
                let mut domains = planned.domains.iter().enumerate();
                assert!(domains.all(|(key, domain)| {
                    *domain == NO_INDEX || cluster.offers_in[key][*domain].contains(planned.offer)
                }));
            }
            None => assert!(state.is_open(cluster, node) && kind.nodes.contains(&node)),
        }
        for rule in &kind.hosts {
            assert!(rule.column < cluster.counted.host_columns());
            let others = state.on_host(cluster, node, rule.column) - i64::from(rule.counts);
            assert!(rule.most.is_none_or(|most| others <= most));
        }
        for rule in &kind.domains {
            let domain = state.domain(cluster, node, rule.key);
            assert!(rule.eligible >> domain & 1 == 1);
        }
    }
}

/// Each planned node has pods, and is the cheapest option that holds them.
fn assert_cheapest_offers(cluster: &ClusterModel, state: &Assignment) {
    for (node, planned) in state.planned_nodes(cluster) {
        assert!(!state.relocated[node].is_empty());
        let load = state.load.row(node);
        let holds = |offer: &usize| {
            let room = &cluster.offers[*offer].room;
            planned.viable_offers.contains(*offer)
                && load.iter().zip(room).all(|(load, room)| load <= room)
        };
        assert_eq!((0..cluster.offers.len()).find(holds), Some(planned.offer));
    }
}

fn assert_counts(cluster: &ClusterModel, state: &Assignment) {
    for (candidate, (_, on_planned)) in state.group.iter().enumerate() {
        let own = moved(cluster, state).filter(|pod| cluster.pods[*pod].candidate == candidate);
        let is_new = |pod: &usize| state.node_of[*pod] >= cluster.nodes.len();
        assert_eq!(own.filter(is_new).count(), *on_planned);
    }
    let count = cluster.nodes.len() + cluster.planned_max();
    for node in 0..count {
        let relocated = || moved(cluster, state).filter(move |pod| state.node_of[*pod] == node);
        let mut known = state.relocated[node].clone();
        known.sort_unstable();
        assert_eq!(known, relocated().collect::<Vec<_>>());
        let room = match state.planned_at(cluster, node) {
            Some(planned) if planned.group != NO_INDEX => &cluster.offers[planned.offer].room[..],
            Some(_) => &[],
            None => &cluster.nodes[node].room[..],
        };
        for at in 0..cluster.dimensions {
            let load = relocated().map(|pod| cluster.kind(pod).unwrap().requests[at]);
            let load: i64 = load.sum();
            assert_eq!(state.load.at(node, at), load);
            assert!(load == 0 || room.get(at).is_some_and(|room| load <= *room));
        }
        for column in 0..cluster.counted.host_columns() {
            let bound = cluster
                .nodes
                .get(node)
                .map_or(0, |node| node.hosted[column]);
            let counts = |pod: &usize| {
                let mut rules = cluster.kind(*pod).unwrap().hosts.iter();
                rules.any(|rule| rule.column == column && rule.counts)
            };
            let relocated = i64::try_from(relocated().filter(counts).count()).unwrap();
            let counted = state.on_host(cluster, node, column);
            assert_eq!(counted, i64::from(bound) + relocated);
        }
    }
    let mut in_domains = cluster.counted.in_domains.clone();
    for pod in moved(cluster, state) {
        let origin = cluster.origin(cluster.pods[pod].candidate);
        for rule in cluster.kind(pod).unwrap().domains.iter() {
            if rule.counts {
                in_domains[rule.row][state.domain(cluster, origin, rule.key)] -= 1;
                in_domains[rule.row][state.domain(cluster, state.node_of[pod], rule.key)] += 1;
            }
        }
    }
    for (row, counts) in in_domains.iter().enumerate() {
        assert_eq!(state.in_domains.row(row), counts);
    }
}
