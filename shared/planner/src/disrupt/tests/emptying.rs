//! Emptiness: nodes without pods that have to move.

use api::names::annotation::PODS_DIGEST;

use super::*;

fn owned_by(kind: &str, api_version: &str) -> Option<Owner> {
    Some(Owner {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "a".into(),
        uid: "u".into(),
    })
}

fn on_a_node(change: impl FnOnce(&mut Pod)) -> TestCluster {
    TestCluster::new()
        .node("n", "small", &[2_000])
        .with(|snapshot| change(&mut snapshot.pods[0]))
}

#[test]
fn all_empty_nodes_are_removed_in_one_command() {
    let cluster = TestCluster::new()
        .node("a", "small", &[])
        .node("b", "large", &[]);
    let expected = (Reason::Empty, vec!["b".into(), "a".into()], vec![]);
    assert_eq!(cluster.commands(), [expected]);
}

/// Digest of the pods of a node without pods.
const DIGEST_OF_NO_PODS: &str = "e3b0c44298fc1c14";

/// Digest of the pods of a node with the pod `free` alone.
const DIGEST_OF_FREE: &str = "b559eeebf9e03e1e";

/// A cluster with an empty node whose recorded pods last changed this many seconds ago.
fn changed_before(seconds: i64) -> TestCluster {
    TestCluster::new().node("a", "small", &[]).with(|snapshot| {
        snapshot.settings.optimize = Optimize::Cost;
        let claim = &mut snapshot.node_claims[0];
        claim.status.last_pod_event = Some(snapshot.now - SignedDuration::from_secs(seconds));
        let digest = DIGEST_OF_NO_PODS.to_owned();
        claim.annotations.insert(PODS_DIGEST.to_owned(), digest);
    })
}

/// Seconds that the cluster's command waits for its validation.
fn validation_wait_of(cluster: &TestCluster) -> i64 {
    let result = disrupt(&cluster.0);
    validation_wait(&cluster.0, &result.commands[0]).as_secs()
}

#[test]
fn empty_node_that_changed_recently_waits_for_the_rest_of_the_validation_period() {
    for (seconds, wait) in [(0, 15), (1, 14), (14, 1)] {
        assert_eq!(validation_wait_of(&changed_before(seconds)), wait);
    }
}

#[test]
fn empty_node_that_is_unchanged_for_the_validation_period_is_validated_at_once() {
    for seconds in [15, 300] {
        assert_eq!(validation_wait_of(&changed_before(seconds)), 0);
        let as_upstream = changed_before(seconds)
            .with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
        assert_eq!(validation_wait_of(&as_upstream), 15);
    }
}

#[test]
fn most_recently_changed_of_several_empty_nodes_decides_the_wait() {
    let cluster = changed_before(300)
        .node("b", "small", &[])
        .with(|snapshot| {
            let (first, second) = snapshot.node_claims.split_at_mut(1);
            second[0].annotations = first[0].annotations.clone();
            second[0].status.last_pod_event = Some(snapshot.now - SignedDuration::from_secs(5));
        });
    assert_eq!(validation_wait_of(&cluster), 10);
}

#[test]
fn empty_node_without_a_recorded_pod_event_waits_from_its_initialization() {
    for (seconds, wait) in [(5, 10), (300, 0)] {
        let cluster = changed_before(0).with(|snapshot| {
            let claim = &mut snapshot.node_claims[0];
            claim.status.last_pod_event = None;
            let mut conditions = claim.status.conditions.iter_mut();
            let initialized = conditions.find(|condition| condition.kind == INITIALIZED);
            let at = snapshot.now - SignedDuration::from_secs(seconds);
            initialized.unwrap().last_transition = at;
        });
        assert_eq!(validation_wait_of(&cluster), wait);
    }
}

#[test]
fn change_that_no_lifecycle_turn_has_recorded_takes_the_whole_validation_period() {
    let other_pods = changed_before(300).with(|snapshot| {
        let annotations = &mut snapshot.node_claims[0].annotations;
        annotations.insert(PODS_DIGEST.to_owned(), "digest of other pods".to_owned());
    });
    assert_eq!(validation_wait_of(&other_pods), 15);
    let never_recorded =
        changed_before(300).with(|snapshot| snapshot.node_claims[0].annotations.clear());
    assert_eq!(validation_wait_of(&never_recorded), 15);
}

#[test]
fn empty_node_with_a_pod_that_costs_nothing_to_evict_takes_the_whole_validation_period() {
    let cluster = changed_before(300).with(|snapshot| {
        let mut pod = pod("free", 100, "a");
        let key = api::names::annotation::POD_DELETION_COST.to_owned();
        pod.annotations.insert(key, "-134217728".to_owned());
        snapshot.pods = vec![pod];
        let annotations = &mut snapshot.node_claims[0].annotations;
        annotations.insert(PODS_DIGEST.to_owned(), DIGEST_OF_FREE.to_owned());
    });
    assert_eq!(validation_wait_of(&cluster), 15);
}

#[test]
fn most_expensive_empty_nodes_are_removed_first_under_a_budget() {
    let cluster = TestCluster::new()
        .node("a", "small", &[])
        .node("b", "large", &[])
        .node_of("c", "large", "spot", &[])
        .with(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget("2")]);
    assert_eq!(cluster.removes(), ["b", "c"]);
}

#[test]
fn newly_empty_nodes_are_removed_beside_proposed_ones_within_budgets() {
    let claims = |nodes: &[&str]| -> BTreeSet<NodeClaimName> {
        let names = nodes.iter().map(|node| format!("{node}-claim"));
        names.map(|name| name.as_str().into()).collect()
    };
    let removed = |nodes: &str, proposed: &[&str], excluded: &[&str]| -> Vec<String> {
        let cluster = TestCluster::new()
            .node("a", "small", &[])
            .node("b", "large", &[])
            .node("c", "small", &[1_000])
            .with(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget(nodes)]);
        let commands = newly_empty(&cluster.0, &claims(proposed), &claims(excluded));
        let nodes = commands.into_iter().flat_map(|command| command.nodes);
        nodes.collect()
    };
    assert_eq!(removed("2", &[], &[]), ["b", "a"], "c has a pod");
    assert_eq!(removed("2", &["b"], &[]), ["a"]);
    assert!(removed("1", &["b"], &[]).is_empty(), "b takes the budget");
    assert_eq!(removed("1", &[], &["b"]), ["a"], "b takes no budget");
    assert!(removed("2", &["a", "b"], &[]).is_empty());
}

#[test]
fn daemon_set_static_and_terminal_pods_do_not_keep_a_node() {
    let mut evidence = on_a_node(|_| {});
    assert!(evidence.removes().is_empty());
    evidence.0.pods[0].owner = owned_by("DaemonSet", "apps/v1");
    assert_eq!(evidence.removes(), ["n"]);
    evidence.0.pods[0].owner = owned_by("Node", "v1");
    assert_eq!(evidence.removes(), ["n"]);
    evidence.0.pods[0].owner = None;
    evidence.0.pods[0].phase = PodPhase::Succeeded;
    assert_eq!(evidence.removes(), ["n"]);
}

#[test]
fn pod_without_eviction_cost_does_not_keep_a_node() {
    let cost = |text: &str| {
        on_a_node(|pod| {
            let key = api::names::annotation::POD_DELETION_COST.to_owned();
            pod.annotations.insert(key, text.to_owned());
        })
    };
    assert_eq!(cost("-134217728").removes(), ["n"]);
    assert!(cost("-134217727").removes().is_empty());
}

#[test]
fn static_never_and_not_consolidatable_nodes_are_kept() {
    type Keep = fn(&mut Snapshot);
    let keeps: [Keep; 3] = [
        |cluster| cluster.node_pools[0].replicas = Some(1),
        |cluster| cluster.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Never,
        |cluster| {
            cluster.node_claims[0]
                .status
                .conditions
                .retain(|condition| condition.kind != CONSOLIDATABLE)
        },
    ];
    for keep in keeps {
        let cluster = TestCluster::new().node("n", "small", &[]).with(keep);
        assert!(cluster.removes().is_empty());
    }
}

#[test]
fn budget_that_closes_before_validation_blocks_the_command() {
    let closing = |nodes: &str| Budget {
        schedule: Some("0 0 * * *".into()),
        duration: Some("1h".into()),
        ..budget(nodes)
    };
    let at = |now: &str, nodes: &str| {
        let now = now.parse().unwrap();
        TestCluster::new()
            .node("a", "small", &[])
            .node("b", "large", &[])
            .with(|snapshot| {
                snapshot.now = now;
                snapshot.node_pools[0].disruption.budgets = vec![closing(nodes)];
            })
    };
    let before = "2026-01-01T23:59:50Z";
    assert!(at(before, "0").removes().is_empty());
    assert_eq!(at(before, "1").removes(), ["b"]);
    assert_eq!(at("2026-01-01T23:59:40Z", "0").removes(), ["b", "a"]);
}

#[test]
fn empty_node_needed_by_pods_of_a_terminating_node_is_kept() {
    let mut cluster = TestCluster::new()
        .node("leaving", "small", &[1_500])
        .node("new", "small", &[])
        .node("spare", "small", &[]);
    assert_eq!(cluster.removes(), ["new", "spare"]);
    cluster.0.node_claims[0].deleted_at = Some(cluster.0.now);
    assert_eq!(
        cluster.removes().len(),
        2,
        "optimize: upstream ignores pending pods"
    );
    cluster.0.settings.optimize = Optimize::Cost;
    assert_eq!(cluster.removes().len(), 1, "one is needed, one is not");
}
