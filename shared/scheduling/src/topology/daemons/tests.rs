//! Pods and daemons with anti-affinity to each other.

use model::{labels, snapshot::Optimize};

use crate::test_cluster::{TestCluster, instance_type, near, pod, pods};

/// One node holds both pods. The cheaper type runs a daemon with anti-affinity to one of them.
fn cluster(optimize: Optimize) -> TestCluster {
    let mut agent = pod("agent", 100);
    agent.node_selector = [(labels::INSTANCE_TYPE.to_owned(), "cheap".to_owned())].into();
    agent.pod_anti_affinity.required = vec![near("web", labels::HOSTNAME)];
    let all = [pods("web", 1, 500, 0), pods("other", 1, 1_000, 0)].concat();
    let mut cluster = TestCluster::new(
        vec![
            instance_type("cheap", 2, 4, 10),
            instance_type("dear", 2, 4, 30),
        ],
        all,
    );
    cluster.daemons = vec![agent];
    cluster.options.optimize = optimize;
    cluster
}

#[test]
fn pod_gets_no_node_with_a_daemon_that_has_anti_affinity_to_it() {
    let of = |optimize| {
        let result = cluster(optimize).solve();
        let nodes = result.new_nodes.iter();
        let mut nodes: Vec<_> = nodes
            .map(|node| (node.pods.clone(), node.choices.len()))
            .collect();
        nodes.sort();
        nodes
    };
    // One of the two types remains.
    assert_eq!(of(Optimize::Cost), [(vec![1, 0], 1)]);
    // Upstream counts running daemons only.
    assert_eq!(of(Optimize::Upstream), [(vec![1, 0], 2)]);
}
