//! Choice among results, and the number of strategies tried.

use std::{cell::Cell, rc::Rc};

use model::{
    NanosPerHour, Resources,
    pod::WhenUnsatisfiable,
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::ReservedOfferingMode,
};

use super::*;
use crate::{
    PrecomputedIndexes,
    outcome::{Choice, DroppedPreferences, NewNode, Unplaced},
    setup,
    test_cluster::{
        TestCluster, TestNode, ZONES, instance_type, offering, pods, reserved, selecting,
    },
};

/// Result with these unplaced pods and new nodes at these prices, each the cheaper of two choices.
fn result(unplaced: &[usize], prices: &[i64]) -> SolveResult {
    let left = unplaced.iter().map(|pod| Unplaced {
        pod: *pod,
        deferred: false,
        reasons: Vec::new(),
    });
    let nodes = prices.iter().map(|price| NewNode {
        pool: 0,
        pods: Vec::new(),
        requirements: Requirements::default(),
        admitted: Vec::new(),
        requests: Resources::default(),
        choices: vec![
            Choice::new(0, 0, NanosPerHour(*price)),
            Choice::new(1, 0, NanosPerHour(1_000)),
        ],
        drivers: BTreeSet::new(),
        min_values_relaxed: false,
    });
    SolveResult {
        new_nodes: nodes.collect(),
        existing: Vec::new(),
        unplaced: left.collect(),
        dropped_preferences: Vec::new(),
        pools_without_types: Vec::new(),
    }
}

#[test]
fn more_placed_pods_are_better_at_any_price() {
    for worth in [None, WORTH] {
        let is_better = |other, best| is_better(&other, &best, worth);
        assert!(is_better(result(&[1], &[900]), result(&[1, 2], &[1])));
        assert!(!is_better(result(&[1, 2], &[1]), result(&[1], &[900])));
    }
}

#[test]
fn equal_pods_are_compared_by_cost_if_cost_decides() {
    let best = || result(&[1], &[30, 40]);
    assert!(is_better(&result(&[1], &[69]), &best(), WORTH));
    assert!(!is_better(&result(&[1], &[70]), &best(), WORTH));
    assert!(!is_better(&result(&[1], &[71]), &best(), WORTH));
    assert!(!is_better(&result(&[1], &[69]), &best(), None));
    // Results with different placed pods are not compared by cost.
    assert!(!is_better(&result(&[0], &[69]), &best(), WORTH));
}

fn dropped_by(pods: &[(usize, u32)]) -> Vec<DroppedPreferences> {
    let pods = pods.iter();
    let dropped_preferences = pods.map(|(pod, weight)| DroppedPreferences {
        pod: *pod,
        weight: *weight,
        share: NanosPerHour(0),
    });
    dropped_preferences.collect()
}

/// Worth of a preference with weight 100.
const WORTH: Option<NanosPerHour> = Some(NanosPerHour(10));

#[test]
fn result_with_fewer_dropped_preferences_is_better_at_equal_cost() {
    let with = |price: i64, dropped_preferences: &[(usize, u32)], worth| {
        let other = SolveResult {
            dropped_preferences: dropped_by(dropped_preferences),
            ..result(&[], &[price])
        };
        let best = SolveResult {
            dropped_preferences: dropped_by(&[(0, 100), (1, 50)]),
            ..result(&[], &[100])
        };
        is_better(&other, &best, worth)
    };
    assert!(with(100, &[(0, 100)], WORTH));
    assert!(!with(100, &[(0, 100), (1, 50)], WORTH));
    assert!(!with(100, &[(0, 100), (1, 60)], WORTH));
    // Fewer dropped preferences win even if preferences have no value.
    assert!(with(100, &[(0, 100)], Some(NanosPerHour(0))));
    // A preference justifies its price, and no more.
    assert!(with(104, &[(0, 100)], WORTH));
    assert!(!with(106, &[(0, 100)], WORTH));
    assert!(with(89, &[(0, 100), (1, 50), (2, 100)], WORTH));
    assert!(!with(91, &[(0, 100), (1, 50), (2, 100)], WORTH));
}

#[test]
fn preference_is_worth_at_least_two_percent_of_the_pods_share() {
    let worth = |share, weight, least| {
        let dropped_preferences = DroppedPreferences {
            pod: 0,
            weight,
            share: NanosPerHour(share),
        };
        dropped_preferences.worth(NanosPerHour(least))
    };
    assert_eq!(worth(0, 100, 10), 10);
    assert_eq!(worth(500, 100, 10), 10);
    assert_eq!(worth(5_000, 100, 10), 100);
    assert_eq!(worth(5_000, 1, 10), 1);
    assert_eq!(worth(5_000, 100, 0), 0, "nothing is worth anything");
}

/// Number of strategies tried for a request.
fn strategies_tried(cluster: &TestCluster, for_cost: bool) -> usize {
    cluster.with_input(|input| {
        let mut input = input.clone();
        if for_cost {
            input.options.optimize = Optimize::Cost;
        }
        let (precomputed, input) = (PrecomputedIndexes::of(&input), Rc::new(input));
        let solves = Cell::new(0);
        best(&input, None, || {
            solves.set(solves.get() + 1);
            setup::set_up(&precomputed, &input)
        });
        solves.get()
    })
}

/// Small pods, and pods that are too large for every type.
fn cluster(fitting: usize, left: usize) -> TestCluster {
    let all = [
        pods("small", fitting, 10, 0),
        pods("large", left, 65_000, 0),
    ]
    .concat();
    TestCluster::new(vec![instance_type("xl", 64, 256, 100)], all)
}

#[test]
fn upstream_tries_one_strategy_if_all_pods_are_placed() {
    assert_eq!(strategies_tried(&cluster(3, 0), false), 1);
}

#[test]
fn unplaced_pods_are_retried_unless_there_are_many_pods() {
    assert_eq!(strategies_tried(&cluster(3, 1), false), 2);
    assert_eq!(
        strategies_tried(&cluster(COMPARED_PODS_MAX - 1, 1), false),
        2
    );
    assert_eq!(strategies_tried(&cluster(COMPARED_PODS_MAX, 1), false), 1);
    // The order of upstream is tried first, then filling the oldest node.
    assert_eq!(strategies_tried(&cluster(3, 1), true), 4);
}

#[test]
fn deferred_pods_are_not_retried() {
    let mut instance_type = instance_type("m", 4, 16, 10);
    instance_type.offerings = vec![reserved("cr", ZONES[0])];
    let mut cluster = TestCluster::new(vec![instance_type], pods("web", 2, 3_000, 0));
    cluster.options.reserved = Some(ReservedOfferingMode::Strict);
    assert_eq!(strategies_tried(&cluster, false), 1);
}

#[test]
fn fewer_strategies_are_compared_for_many_pods() {
    assert_eq!(strategies_tried(&cluster(3, 0), true), 4);
    assert_eq!(strategies_tried(&cluster(FEW_PODS, 0), true), 4);
    assert_eq!(strategies_tried(&cluster(FEW_PODS + 1, 0), true), 2);
    assert_eq!(strategies_tried(&cluster(COMPARED_PODS_MAX, 0), true), 2);
    assert_eq!(
        strategies_tried(&cluster(COMPARED_PODS_MAX + 1, 0), true),
        1
    );
}

#[test]
fn result_without_new_nodes_is_not_compared() {
    let mut cluster = cluster(3, 0);
    cluster.nodes = vec![TestNode::new("n", [("cpu", 1_000), ("pods", 10)].into())];
    assert_eq!(strategies_tried(&cluster, true), 1);
}

/// Pods of which each takes a node, and a memory limit that admits that many small nodes.
fn limited(pods_and_nodes: usize) -> TestCluster {
    let types = vec![
        instance_type("small", 2, 4, 10),
        instance_type("large", 2, 400, 90),
    ];
    let mut cluster = TestCluster::new(types, pods("web", pods_and_nodes, 1_500, 0));
    let nodes = i64::try_from(pods_and_nodes).unwrap();
    cluster.limits = [("memory", (nodes * 4) << 30)].into();
    cluster
}

#[test]
fn limit_saving_strategies_are_tried_for_any_number_of_pods() {
    for number in [3, COMPARED_PODS_MAX, COMPARED_PODS_MAX + 1] {
        let mut cluster = limited(number);
        cluster.options.optimize = Optimize::Cost;
        let result = cluster.solve();
        assert_eq!(result.new_nodes.len(), number);
        assert!(result.unplaced.is_empty());
    }
    let many = COMPARED_PODS_MAX + 1;
    assert_eq!(strategies_tried(&limited(many), true), 2);
    // Pods that fit no type stay pending for any counting of nodes.
    assert_eq!(strategies_tried(&cluster(COMPARED_PODS_MAX, 1), true), 1);
}

#[test]
fn cheapest_counting_is_compared_if_there_are_limits() {
    let mut cluster = cluster(3, 0);
    cluster.limits = [("cpu", 1_000_000)].into();
    assert_eq!(strategies_tried(&cluster, true), 6);
    assert_eq!(strategies_tried(&cluster, false), 1);
}

/// Nine pods, three to a node, that prefer to be spread over the zones of a type; each zone with its price in cents.
fn nine_spread_pods(zones: &[(&str, i64)]) -> TestCluster {
    let mut fixed = instance_type("fixed", 3, 12, 0);
    fixed.offerings = zones
        .iter()
        .map(|(zone, cents)| offering(zone, *cents))
        .collect();
    let names = zones.iter().map(|(zone, _)| (*zone).to_owned());
    let zone = Requirement::new(labels::ZONE, Operator::In, names);
    fixed.requirements = Requirements::default();
    let name = Requirement::new(labels::INSTANCE_TYPE, Operator::In, ["fixed".to_owned()]);
    for requirement in [name, zone] {
        fixed.requirements.add(requirement);
    }
    let mut pods = pods("web", 9, 1_000, 1);
    for pod in &mut pods {
        let mut shape = (*pod.shape).clone();
        shape.topology_spread = vec![TopologySpread {
            topology_key: labels::ZONE.to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
            selector: Some(selecting("web")),
            min_domains: None,
            node_affinity_policy: None,
            node_taints_policy: None,
            match_label_keys: Vec::new(),
        }];
        pod.shape = shape.into();
    }
    let mut cluster = TestCluster::new(vec![fixed], pods);
    cluster.options.optimize = Optimize::Cost;
    cluster
}

fn zones_of_new_nodes(result: &SolveResult) -> Vec<String> {
    let zone = |node: &NewNode| {
        let zones = node.requirements.get(labels::ZONE);
        zones.map_or_else(String::new, ToString::to_string)
    };
    let mut zones: Vec<String> = result.new_nodes.iter().map(zone).collect();
    zones.sort();
    zones
}

#[test]
fn preferred_spread_extends_over_as_many_zones_as_there_are_nodes() {
    // A fourth node for the fourth zone costs more than the value of the preference.
    let cluster = nine_spread_pods(&[("a", 10), ("b", 10), ("c", 10), ("d", 10)]);
    let result = cluster.solve();
    assert_eq!(result.new_nodes.len(), 3);
    let zones: BTreeSet<String> = zones_of_new_nodes(&result).into_iter().collect();
    assert_eq!(zones.len(), 3, "{zones:?}");
}

#[test]
fn preferred_spread_skips_a_zone_that_is_too_expensive() {
    let cluster = nine_spread_pods(&[("a", 90), ("b", 10), ("c", 10), ("d", 10)]);
    let result = cluster.solve();
    let zones = zones_of_new_nodes(&result);
    assert_eq!(zones.len(), 3);
    assert!(zones.iter().all(|zone| !zone.contains('a')), "{zones:?}");
    assert_eq!(zones.iter().collect::<BTreeSet<_>>().len(), 3, "{zones:?}");
}
