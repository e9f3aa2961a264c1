//! Constraints per host and zone, limits and labels hold for repacked nodes, and for pods that leave others.

use model::{
    pod::PodShape,
    selector::{NodeSelectorRequirement, Operator},
};

use super::*;

fn each(pods: &mut [Pod], app: &str, change: impl Fn(&mut PodShape)) {
    for pod in pods.iter_mut().filter(|pod| pod.labels["app"] == app) {
        change(&mut pod.shape);
    }
}

fn each_has_one_place(result: &SolveResult, pods: &[Pod]) -> bool {
    let nodes = result.new_nodes.iter().flat_map(|node| node.pods.clone());
    let mut all: Vec<usize> = nodes
        .chain(result.unplaced.iter().map(|left| left.pod))
        .collect();
    all.sort_unstable();
    all == Vec::from_iter(0..pods.len())
}

/// Each of eight hosts takes one memory-heavy pod and one CPU-heavy pod; three more take the rest.
const APART: i64 = 8 * 80 + 3 * 72;
const SORTED: i64 = 4 * 80 + 4 * 72;

#[test]
fn pods_with_host_constraints_are_repacked_with_others() {
    let mut repelling = cpu_and_memory_heavy_pods();
    each(&mut repelling, "fat", |pod| {
        pod.pod_anti_affinity.required = vec![near("fat", labels::HOSTNAME)];
    });
    let mut spread = cpu_and_memory_heavy_pods();
    each(&mut spread, "fat", |pod| {
        pod.topology_spread = vec![TopologySpread {
            topology_key: labels::HOSTNAME.to_owned(),
            max_skew: 1,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(selecting("fat")),
            min_domains: None,
            match_label_keys: Vec::new(),
            node_affinity_policy: None,
            node_taints_policy: None,
        }];
    });
    for all in [repelling, spread] {
        let result = solve_pods(&all, &types(), Resources::default());
        assert!(each_has_one_place(&result, &all));
        assert_eq!(cents(&result), APART);
    }
}

#[test]
fn pods_that_anti_affinity_selects_are_repacked() {
    for (key, repelled) in [(labels::HOSTNAME, "busy"), (labels::ZONE, "nobody")] {
        let mut all = cpu_and_memory_heavy_pods();
        each(&mut all, "fat", |pod| {
            pod.pod_anti_affinity.required = vec![near(repelled, key)];
        });
        let result = solve_pods(&all, &types(), Resources::default());
        assert_eq!(cents(&result), SORTED, "{key}");
    }
}

#[test]
fn limits_used_by_first_fit_are_released_for_repacking() {
    let all = cpu_and_memory_heavy_pods();
    // First fit counts two of the largest type. Each of eight nodes still counts as one when it is added, while the limit
    // allows.
    let result = solve_pods(&all, &types(), [("cpu", 420_000)].into());
    assert!(each_has_one_place(&result, &all));
    assert_eq!(cents(&result), SORTED);
}

#[test]
fn limits_count_fixed_nodes() {
    let types = types();
    let cores = |kind: usize| types[kind].capacity.get("cpu");
    for limit in (60..=300).step_by(10).map(|cores| cores * 1_000) {
        let all = [led([3_500, 1_000, 900]), cpu_and_memory_heavy_pods()].concat();
        let result = solve_pods(&all, &types, [("cpu", limit)].into());
        let largest = result.new_nodes.iter().map(|node| {
            let choices = node.choices.iter();
            choices.map(|choice| cores(choice.instance_type())).max()
        });
        let together: i64 = largest.map(Option::unwrap_or_default).sum();
        assert!(each_has_one_place(&result, &all) && together <= limit);
    }
}

#[test]
fn pods_with_different_label_values_are_not_packed_together() {
    const TEAM: &str = "example.com/team";
    let open = NodeSelectorRequirement {
        key: TEAM.to_owned(),
        operator: Operator::In,
        values: vec!["busy".to_owned(), "fat".to_owned()],
        min_values: None,
    };
    // By capacity, a CPU-heavy pod fits each memory-heavy pod's node, but the labels differ: it joins other nodes or gets
    // its own.
    for (busy, price) in [(32, None), (4, Some(4 * 80 + 72))] {
        let mut all = [pods("busy", busy, 2_000, 1), pods("fat", 8, 500, 60)].concat();
        for app in ["busy", "fat"] {
            each(&mut all, app, |pod| {
                pod.node_selector.insert(TEAM.to_owned(), app.to_owned());
            });
        }
        let open = std::slice::from_ref(&open);
        let result = solve_pools(&["default"], open, &all, &types(), Resources::default());
        assert!(each_has_one_place(&result, &all));
        for node in &result.new_nodes {
            let teams = node.pods.iter().map(|pod| &all[*pod].labels["app"]);
            assert_eq!(teams.collect::<BTreeSet<_>>().len(), 1);
        }
        assert!(price.is_none_or(|price| price == cents(&result)));
    }
}

#[test]
fn cheaper_type_for_few_pods_does_not_dominate_a_type_for_all() {
    let mut types = types();
    types.push(instance_type("old", 4, 128, 70));
    let mut all = cpu_and_memory_heavy_pods();
    each(&mut all, "fat", |pod| {
        pod.node_affinity.required = vec![model::pod::NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                key: labels::INSTANCE_TYPE.to_owned(),
                operator: Operator::NotIn,
                values: vec!["old".to_owned()],
                min_values: None,
            }],
            match_fields: Vec::new(),
        }];
    });
    let result = solve_pods(&all, &types, Resources::default());
    assert_eq!(cents(&result), SORTED);
}

/// Two leaders with anti-affinity, and a follower with affinity to them per host: a node with a leader cannot be packed
/// again.
fn led(millicores: [i64; 3]) -> Vec<Pod> {
    let mut all = [
        pods("leader", 1, millicores[0], 1),
        pods("leader", 2, millicores[1], 1).split_off(1),
        pods("follower", 1, millicores[2], 1),
    ]
    .concat();
    let near_leader = || vec![near("leader", labels::HOSTNAME)];
    each(&mut all, "leader", |pod| {
        pod.pod_anti_affinity.required = near_leader();
    });
    each(&mut all, "follower", |pod| {
        pod.pod_affinity.required = near_leader();
    });
    all
}

fn sizes() -> [InstanceType; 3] {
    [(4, 10), (5, 15), (8, 25)]
        .map(|(cores, cents)| instance_type(&format!("m{cores}"), cores, 16, cents))
}

/// Pods on the follower's node, and the price of all nodes.
fn with_follower(result: &SolveResult) -> (Vec<usize>, i64) {
    let node = result.new_nodes.iter().find(|node| node.pods.contains(&2));
    (node.unwrap().pods.clone(), cents(result))
}

#[test]
fn pod_is_moved_if_the_saving_exceeds_the_added_cost() {
    let result = |led: &[Pod]| solve_pods(led, &sizes(), Resources::default());
    // The joined node grows by five cents, the other one shrinks by ten.
    let gain = result(&led([4_500, 3_500, 900]));
    assert_eq!(with_follower(&gain), (vec![1, 2], 15 + 15));
    // Both change by five cents, whichever node it joins.
    let mut three = led([3_500, 3_400, 900]);
    three.push(three[1].clone());
    three[3].key.name = "leader-002".to_owned();
    three[3].uid = "leader-002".into();
    assert_eq!(with_follower(&result(&three)), (vec![0, 2], 15 + 2 * 10));
}

#[test]
fn pod_that_others_have_affinity_to_does_not_leave() {
    let mut all = [led([3_500, 1_000, 900]), pods("helper", 1, 50, 1)].concat();
    each(&mut all, "helper", |pod| {
        pod.pod_affinity.required = vec![near("follower", labels::HOSTNAME)];
    });
    let result = solve_pods(&all, &sizes(), Resources::default());
    assert_eq!(with_follower(&result), (vec![0, 2, 3], 15 + 10));
}

#[test]
fn no_pod_is_moved_to_another_node_pool_or_under_limits() {
    let mut all = led([3_500, 1_000, 900]);
    let limited = solve_pods(&all, &sizes(), [("cpu", 100_000)].into());
    assert_eq!(with_follower(&limited), (vec![0, 2], 15 + 10));
    let selector = &mut all[1].node_selector;
    selector.insert(labels::NODE_POOL.to_owned(), "other".to_owned());
    let pools = ["default", "other"];
    let elsewhere = solve_pools(&pools, &[], &all, &sizes(), Resources::default());
    assert_eq!(with_follower(&elsewhere), (vec![0, 2], 15 + 10));
}
