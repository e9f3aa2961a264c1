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

#[test]
fn empty_nodes_that_are_unchanged_for_the_validation_period_are_validated_at_once() {
    let wait = |unchanged_for: i64, optimize, digest: &str| {
        let cluster = TestCluster::new().node("a", "small", &[]).with(|snapshot| {
            snapshot.settings.optimize = optimize;
            let event = snapshot.now - SignedDuration::from_secs(unchanged_for);
            let claim = &mut snapshot.node_claims[0];
            claim.status.last_pod_event = Some(event);
            claim.annotations.insert(PODS_DIGEST.into(), digest.into());
        });
        let result = disrupt(&cluster.0);
        validation_wait(&cluster.0, &result.commands[0]).as_secs()
    };
    // Digest of no pods.
    let empty = "e3b0c44298fc1c14";
    // A change within ten seconds of the recorded one may not be recorded yet.
    for (unchanged_for, expected) in [(0, 15), (10, 15), (12, 13), (25, 0), (300, 0)] {
        assert_eq!(
            wait(unchanged_for, Optimize::Cost, empty),
            expected,
            "{unchanged_for} s"
        );
        assert_eq!(
            wait(unchanged_for, Optimize::Upstream, empty),
            15,
            "{unchanged_for} s"
        );
    }
    assert_eq!(
        wait(300, Optimize::Cost, "pods that left a moment ago"),
        15,
        "a change that no lifecycle turn has recorded"
    );
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
