//! Choice among results, and the number of strategies tried.

use std::{cell::Cell, rc::Rc};

use model::{NanosPerHour, Resources, requirement::Requirements, snapshot::ReservedOfferingMode};

use super::*;
use crate::{
    PrecomputedIndexes,
    outcome::{Choice, DroppedPreferences, NewNode, Unplaced},
    setup,
    test_cluster::{TestCluster, TestNode, ZONES, instance_type, pods, reserved},
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
        no_viable_types: Vec::new(),
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

fn given_up_by(pods: &[(usize, u32)]) -> Vec<DroppedPreferences> {
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
            dropped_preferences: given_up_by(dropped_preferences),
            ..result(&[], &[price])
        };
        let best = SolveResult {
            dropped_preferences: given_up_by(&[(0, 100), (1, 50)]),
            ..result(&[], &[100])
        };
        is_better(&other, &best, worth)
    };
    assert!(with(100, &[(0, 100)], WORTH));
    assert!(!with(100, &[(0, 100), (1, 50)], WORTH));
    assert!(!with(100, &[(0, 100), (1, 60)], WORTH));
    // Fewer dropped preferences win even if preferences are worth nothing.
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
    // Pods that fit no type wait, whatever nodes count as.
    assert_eq!(strategies_tried(&cluster(COMPARED_PODS_MAX, 1), true), 1);
}

#[test]
fn cheapest_counting_is_compared_if_there_are_limits() {
    let mut cluster = cluster(3, 0);
    cluster.limits = [("cpu", 1_000_000)].into();
    assert_eq!(strategies_tried(&cluster, true), 6);
    assert_eq!(strategies_tried(&cluster, false), 1);
}
