//! Capacity of existing nodes, and the bound pods that topology counts.

use std::collections::BTreeSet;

use model::{
    Resources, labels,
    pod::{NodeSelectorTerm, PodPhase},
    selector::Operator,
    taint::TaintEffect,
};

use crate::{
    BaselineCluster, SimulatedRemoval, SolveResult,
    test_cluster::{
        TestCluster, TestNode, ZONES, instance_type, near, pod, taint, toleration, wanting,
    },
};

/// Node with free capacity for small pods.
fn node_with_capacity(name: &str) -> TestNode {
    TestNode::new(name, [("cpu", 1_000), ("pods", 10)].into())
}

/// New nodes cost money, so existing nodes are preferred.
fn cluster(pods: impl IntoIterator<Item = model::pod::Pod>) -> TestCluster {
    TestCluster::new(
        vec![instance_type("m", 4, 16, 10)],
        pods.into_iter().collect(),
    )
}

/// Existing nodes that take pods.
fn taken(result: &SolveResult) -> Vec<usize> {
    result.existing.iter().map(|(at, _)| *at).collect()
}

#[test]
fn node_with_prefer_no_schedule_takes_pods_without_another_place() {
    let mut cluster = TestCluster::new(Vec::new(), vec![pod("web", 100)]);
    cluster.nodes = vec![node_with_capacity("n")];
    cluster.nodes[0].taints = vec![taint(TaintEffect::PreferNoSchedule)];
    assert_eq!(taken(&cluster.solve()), [0]);
    cluster.nodes[0].taints = vec![taint(TaintEffect::NoSchedule)];
    assert!(taken(&cluster.solve()).is_empty());
}

#[test]
fn moved_pod_does_not_count_against_itself() {
    let mut web = pod("web", 100);
    web.pod_anti_affinity.required = vec![near("web", labels::ZONE)];
    let full = TestNode::new("n", Resources::default()).running(web);
    let mut cluster = cluster(full.pods.clone());
    cluster.requirements = vec![wanting(labels::ZONE, Operator::In, &[ZONES[0]])];
    cluster.nodes = vec![full];
    let result = cluster.solve();
    assert!(result.unplaced.is_empty());
    assert_eq!(result.new_nodes.len(), 1);
}

#[test]
fn moved_pod_of_a_baseline_does_not_count_against_itself() {
    let mut web = pod("web", 100);
    web.pod_anti_affinity.required = vec![near("web", labels::ZONE)];
    let node = node_with_capacity("n").running(web);
    let mut cluster = cluster(node.pods.clone());
    cluster.requirements = vec![wanting(labels::ZONE, Operator::In, &[ZONES[0]])];
    cluster.nodes = vec![node];
    let result = cluster.with_input(|input| {
        BaselineCluster::new(input.clone(), 0, None).without(&SimulatedRemoval {
            pods: &[0],
            moved: &[true],
            nodes: &BTreeSet::from([0]),
            remaining: vec![Resources::default()],
            wanted: &[],
        })
    });
    assert!(result.unplaced.is_empty());
    assert_eq!(result.new_nodes.len(), 1);
}

#[test]
fn anti_affinity_of_bound_pods_applies_to_others() {
    let mut guard = pod("guard", 100);
    let mut cluster = cluster([pod("web", 100)]);
    cluster.nodes = vec![node_with_capacity("n").running(guard.clone())];
    assert_eq!(taken(&cluster.solve()), [0]);
    guard.pod_anti_affinity.required = vec![near("web", labels::HOSTNAME)];
    cluster.nodes = vec![node_with_capacity("n").running(guard)];
    assert!(taken(&cluster.solve()).is_empty());
}

#[test]
fn anti_affinity_of_terminal_pods_is_ignored() {
    let mut guard = pod("guard", 100);
    guard.pod_anti_affinity.required = vec![near("web", labels::HOSTNAME)];
    let mut web = pod("web", 100);
    web.pod_anti_affinity.required = vec![near("guard", labels::HOSTNAME)];
    for (phase, is_free) in [
        (PodPhase::Running, false),
        (PodPhase::Succeeded, true),
        (PodPhase::Failed, true),
    ] {
        guard.phase = phase;
        for web in [pod("web", 100), web.clone()] {
            let mut cluster = cluster([web]);
            cluster.nodes = vec![node_with_capacity("n").running(guard.clone())];
            assert_eq!(!taken(&cluster.solve()).is_empty(), is_free, "{phase:?}");
        }
    }
}

#[test]
fn nodes_with_equal_labels_have_their_own_hostname() {
    let mut web = pod("web", 100);
    web.node_affinity.required = vec![NodeSelectorTerm {
        match_expressions: vec![wanting(labels::HOSTNAME, Operator::In, &["n-1"])],
        match_fields: Vec::new(),
    }];
    let mut cluster = cluster([web]);
    cluster.nodes = vec![node_with_capacity("n-0"), node_with_capacity("n-1")];
    for node in &mut cluster.nodes {
        node.labels.remove(labels::HOSTNAME);
    }
    let result = cluster.with_input(|input| {
        let mut input = input.clone();
        input.nodes[1].labels = input.nodes[0].labels;
        input.hosts[1].labels = input.hosts[0].labels;
        crate::solve(&input)
    });
    assert_eq!(taken(&result), [1]);
}

#[test]
fn capacity_is_reserved_for_expected_daemons() {
    let has_room = |change: fn(&mut TestCluster)| {
        let mut web = pod("web", 700);
        web.tolerations = vec![toleration()];
        let mut cluster = cluster([web]);
        cluster.nodes = vec![node_with_capacity("n")];
        cluster.daemons = vec![pod("agent", 400)];
        change(&mut cluster);
        !taken(&cluster.solve()).is_empty()
    };
    assert!(has_room(|cluster| cluster.daemons.clear()));
    assert!(!has_room(|_| {}));
    // The daemon runs already.
    let running =
        |cluster: &mut TestCluster| cluster.nodes[0].daemon_requests = [("cpu", 400)].into();
    assert!(has_room(running));
    // The daemon selects other nodes.
    assert!(has_room(|cluster| {
        let selector = &mut cluster.daemons[0].node_selector;
        selector.insert(labels::ZONE.to_owned(), ZONES[1].to_owned());
    }));
    // The daemon does not tolerate the taint, tolerates it, or runs despite PreferNoSchedule.
    assert!(has_room(|cluster| {
        cluster.nodes[0].taints = vec![taint(TaintEffect::NoSchedule)];
    }));
    assert!(!has_room(|cluster| {
        cluster.nodes[0].taints = vec![taint(TaintEffect::NoSchedule)];
        cluster.daemons[0].tolerations = vec![toleration()];
    }));
    assert!(!has_room(|cluster| {
        cluster.nodes[0].taints = vec![taint(TaintEffect::PreferNoSchedule)];
    }));
}

#[test]
fn overcommitted_node_takes_no_pods() {
    let takes = |available: &[(&str, i64)], daemons: &[(&str, i64)]| {
        let mut web = pod("web", 100);
        web.requests = [("cpu", 100), ("pods", 1)].into();
        let mut cluster = cluster([web]);
        let available = available.iter().chain(&[("cpu", 1_000), ("pods", 10)]);
        cluster.nodes = vec![TestNode::new("n", resources(available))];
        let mut agent = pod("agent", 0);
        agent.requests = resources(daemons);
        cluster.daemons = vec![agent];
        !taken(&cluster.solve()).is_empty()
    };
    assert!(takes(&[("memory", 1)], &[]));
    assert!(takes(&[("memory", 0)], &[]));
    assert!(!takes(&[("memory", -1)], &[]));
    // Daemon overhead counts, unless the node has none of the resource at all.
    assert!(takes(&[("memory", 1)], &[("memory", 1)]));
    assert!(!takes(&[("memory", 1)], &[("memory", 2)]));
    assert!(takes(&[], &[("memory", 2)]));
}

fn resources<'a>(amounts: impl IntoIterator<Item = &'a (&'a str, i64)>) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in amounts {
        resources.set(name, *amount);
    }
    resources
}
