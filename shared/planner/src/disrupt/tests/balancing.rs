//! Policy Balanced: savings as a share of a NodePool's cost against disruption as a share of its disruption cost.

use super::*;

/// A large node with this many small pods, which a small one could run, beside another large one that is full and protected.
fn cluster(pods: usize) -> TestCluster {
    TestCluster::new()
        .node("n", "large", &vec![200; pods])
        .node("m", "large", &[8_000])
        .with(|snapshot| {
            snapshot.node_pools[0].disruption.policy = ConsolidationPolicy::Balanced;
            let kept = snapshot.pods.iter_mut().find(|pod| pod.key.name == "m-0");
            let annotations = &mut kept.unwrap().annotations;
            annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
        })
}

#[test]
fn saving_three_eighths_of_the_cost_allows_three_quarters_of_the_disruption() {
    // Each node counts as one eviction besides its pods: six of eight, then seven of nine.
    assert_eq!(cluster(5).removes(), ["n"]);
    assert!(cluster(6).removes().is_empty());
}

#[test]
fn daemon_set_pods_of_other_nodes_have_no_disruption_cost() {
    let beside_a_daemon = |pods| {
        cluster(pods).with(|snapshot| {
            let kept = snapshot.pods.iter_mut().find(|pod| pod.key.name == "m-0");
            kept.unwrap().owner = Some(Owner {
                api_version: "apps/v1".into(),
                kind: "DaemonSet".into(),
                name: "daemon".into(),
                uid: "daemon".into(),
            });
        })
    };
    // Three of four, then four of five.
    assert_eq!(beside_a_daemon(2).removes(), ["n"]);
    assert!(beside_a_daemon(3).removes().is_empty());
}

#[test]
fn node_without_zone_label_has_no_price() {
    for label in [ZONE, CAPACITY_TYPE] {
        let without = cluster(6).with(|snapshot| {
            snapshot.node_claims[1].labels.remove(label);
        });
        assert_eq!(without.removes(), ["n"], "{label}");
    }
}

#[test]
fn node_that_cannot_save_enough_is_not_simulated() {
    let reported = |policy, capacity_type| {
        let cluster = TestCluster::new()
            .node_of("n", "small", capacity_type, &[100; 12])
            .node("m", "large", &[8_000])
            .with(|snapshot| {
                snapshot.node_pools[0].disruption.policy = policy;
                let kept = snapshot.pods.last_mut().unwrap();
                let annotation = (DO_NOT_DISRUPT.to_owned(), "true".to_owned());
                kept.annotations.extend([annotation]);
                if capacity_type == "reserved" {
                    snapshot.node_claims.pop();
                    snapshot.nodes.pop();
                }
            });
        cluster.unconsolidatable()
    };
    let dear = ["Can't replace with a cheaper node"];
    let any = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    assert_eq!(reported(any, "on-demand"), dear);
    assert_eq!(
        reported(ConsolidationPolicy::Balanced, "on-demand"),
        [""; 0]
    );
    let unpriced = reported(ConsolidationPolicy::Balanced, "reserved");
    assert_eq!(unpriced, dear, "of a NodePool that costs nothing");
}

#[test]
fn move_without_savings_is_rejected() {
    let cluster = |mills| {
        TestCluster::new()
            .with(|snapshot| {
                let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
                Arc::make_mut(types).push(kind("gift", 2, mills));
            })
            .node("n", "gift", &[200])
            .node("m", "large", &[7_000])
            .with(|snapshot| {
                snapshot.node_pools[0].disruption.policy = ConsolidationPolicy::Balanced;
                let kept = snapshot.pods.last_mut().unwrap();
                let annotation = (DO_NOT_DISRUPT.to_owned(), "true".to_owned());
                kept.annotations.extend([annotation]);
            })
    };
    assert_eq!(cluster(400).removes(), ["n"]);
    assert!(cluster(0).removes().is_empty());
}

#[test]
fn approved_and_rejected_moves_are_scored() {
    let judged = |pods| disrupt(&cluster(pods).0).judged;
    let of_default = |approved, score| BalancedVerdict {
        node_pool: "default".into(),
        approved,
        score,
    };
    // Three eighths of the cost for three quarters of the disruption, then for seven ninths.
    assert_eq!(judged(5), [of_default(true, 500)]);
    assert_eq!(judged(6), [of_default(false, 482)]);
    let with_another_policy = cluster(6).with(|snapshot| {
        let any = ConsolidationPolicy::WhenEmptyOrUnderutilized;
        snapshot.node_pools[0].disruption.policy = any;
    });
    assert_eq!(disrupt(&with_another_policy.0).judged, []);
}
