//! Pods that daemons shun.

use model::{labels, snapshot::Optimize};

use crate::test_cluster::{TestCluster, kind, near, pod, pods};

/// One node holds both pods; the cheaper type runs a daemon that shuns one of them.
fn scene(optimize: Optimize) -> TestCluster {
    let mut agent = pod("agent", 100);
    agent.node_selector = [(labels::INSTANCE_TYPE.to_owned(), "cheap".to_owned())].into();
    agent.pod_anti_affinity.required = vec![near("web", labels::HOSTNAME)];
    let all = [pods("web", 1, 500, 0), pods("other", 1, 1_000, 0)].concat();
    let mut scene = TestCluster::new(vec![kind("cheap", 2, 4, 10), kind("dear", 2, 4, 30)], all);
    scene.daemons = vec![agent];
    scene.options.optimize = optimize;
    scene
}

#[test]
fn a_pod_gets_no_node_that_will_run_a_daemon_which_shuns_it() {
    let of = |optimize| {
        let answer = scene(optimize).solve();
        let nodes = answer.new_nodes.iter();
        let mut nodes: Vec<_> = nodes
            .map(|node| (node.pods.clone(), node.choices.len()))
            .collect();
        nodes.sort();
        nodes
    };
    // Of the two types, one is left.
    assert_eq!(of(Optimize::Cost), [(vec![1, 0], 1)]);
    // Upstream counts daemons that run.
    assert_eq!(of(Optimize::Upstream), [(vec![1, 0], 2)]);
}
