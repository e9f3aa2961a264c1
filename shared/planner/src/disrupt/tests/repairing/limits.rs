//! Limits of repair: the circuit breaker of a NodePool, and budgets.

use super::*;
use crate::decision::About;

fn lost_of(nodes: usize, lost_nodes: usize) -> TestCluster {
    cluster(nodes).with(|snapshot| {
        for at in 0..lost_nodes {
            lost(snapshot, at, 31);
        }
    })
}

/// Moves the node at this index to another NodePool, a copy of the first.
fn move_to_other_pool(snapshot: &mut Snapshot, at: usize) {
    let mut other = snapshot.node_pools[0].clone();
    other.name = "other".into();
    let types = snapshot.instance_types[&"default".into()].clone();
    snapshot.instance_types.insert("other".into(), types);
    snapshot.node_pools.push(other);
    for labels in [
        &mut snapshot.nodes[at].labels,
        &mut snapshot.node_claims[at].labels,
    ] {
        labels.insert("karpenter.sh/nodepool".into(), "other".into());
    }
}

#[test]
fn repair_stops_if_a_fifth_of_a_node_pool_is_unhealthy() {
    for (nodes, unhealthy, repaired) in [(1, 1, true), (5, 1, true), (5, 2, false), (6, 2, true)] {
        let cluster = lost_of(nodes, unhealthy);
        assert_eq!(
            !cluster.removes().is_empty(),
            repaired,
            "{unhealthy} of {nodes}"
        );
    }
    let one_by_one = lost_of(6, 2);
    assert_eq!(one_by_one.removes(), ["n0"]);
    let first_is_gone = one_by_one.with(|snapshot| {
        snapshot.nodes.remove(0);
        snapshot.node_claims.remove(0);
        snapshot.pods.remove(0);
    });
    assert_eq!(first_is_gone.removes(), ["n1"]);
    let notes = disrupt(&lost_of(5, 2).0).notes;
    let reported = "more than 20% of nodes in nodepool \"default\" are unhealthy";
    let of_first = &notes[..3];
    assert!(
        of_first
            .iter()
            .all(|note| note.reason == "NodeRepairBlocked" && note.message == reported)
    );
    let abouts = of_first.iter().map(|note| &note.about);
    let [node, claim, pool] = abouts.collect::<Vec<_>>()[..] else {
        panic!("expected events about three objects");
    };
    assert!(matches!(node, About::Node(name, _) if name.as_str() == "n0"));
    assert!(matches!(claim, About::NodeClaim(name, _) if name.as_str() == "n0-claim"));
    assert!(matches!(pool, About::NodePool(name, _) if name.as_str() == "default"));
}

#[test]
fn tolerated_nodes_count_as_unhealthy_and_nodes_that_refuse_repair_do_not() {
    let tolerated = lost_of(5, 1).with(|snapshot| lost(snapshot, 1, 1));
    assert!(tolerated.removes().is_empty());
    let refused = lost_of(5, 2).with(|snapshot| {
        annotate(snapshot, "karpenter.sh/do-not-repair", "true");
    });
    assert_eq!(refused.removes(), ["n1"]);
}

#[test]
fn repair_continues_in_other_node_pools() {
    let cluster = lost_of(5, 3).with(|snapshot| move_to_other_pool(snapshot, 2));
    assert_eq!(cluster.removes(), ["n2"]);
}

#[test]
fn one_node_is_repaired_per_evaluation() {
    let cluster = lost_of(2, 2).with(|snapshot| move_to_other_pool(snapshot, 1));
    assert_eq!(cluster.removes(), ["n0"], "the other waits");
    let next = cluster.with(|snapshot| {
        taken_back(snapshot, 0);
        snapshot.commands[0].state = CommandState::Replacing;
    });
    assert_eq!(next.removes(), ["n1"]);
}

fn with_budget(cluster: TestCluster, nodes: &str, reasons: &[&str]) -> TestCluster {
    cluster.with(|snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![Budget {
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            ..budget(nodes)
        }];
    })
}

#[test]
fn terminating_nodes_count_against_the_repair_budget_and_unready_ones_do_not() {
    let ill = with_budget(lost_of(10, 2), "1", &[]);
    assert_eq!(ill.removes().len(), 1);
    let leaving = ill.with(|snapshot| {
        lost(snapshot, 1, 0);
        snapshot.node_claims[1].deleted_at = Some(snapshot.now);
    });
    assert!(leaving.removes().is_empty());
    assert!(disrupt(&leaving.0).exhausted.is_empty(), "some are allowed");
}

#[test]
fn budget_of_zero_stops_repair_unless_it_names_other_reasons() {
    let exhausted = |cluster: &TestCluster| {
        let reported = disrupt(&cluster.0).exhausted.into_iter();
        reported.map(|(_, reported)| reported).collect::<Vec<_>>()
    };
    let reported = "No allowed disruptions for disruption reason Unhealthy due to blocking budget";
    for reasons in [&[][..], &["Unhealthy"]] {
        let closed = with_budget(lost_of(3, 1), "0", reasons);
        assert!(closed.removes().is_empty());
        assert_eq!(exhausted(&closed), [reported]);
    }
    let of_drift = with_budget(lost_of(3, 1), "0", &["Drifted"]);
    assert_eq!(of_drift.removes(), ["n0"]);
    let of_repair = with_budget(cluster(1), "0", &["Unhealthy"]).with(|snapshot| {
        drift(snapshot, "n0-claim", 1);
    });
    assert_eq!(of_repair.removes(), ["n0"], "it is about repair alone");
}

#[test]
fn uninitialized_node_needs_no_budget_but_waits_for_a_pause() {
    let cluster = with_budget(lost_of(2, 1), "0", &[]).with(|snapshot| {
        snapshot.nodes[0].labels.remove("karpenter.sh/initialized");
        let conditions = &mut snapshot.node_claims[0].status.conditions;
        conditions.retain(|condition| condition.kind != INITIALIZED);
    });
    assert_eq!(cluster.removes(), ["n0"]);
    let paused = cluster.with(|snapshot| {
        snapshot.pauses.push(ledger::Pause {
            scope: ledger::PauseScope::Cluster,
            owner: "anna".to_owned(),
            level: ledger::PauseLevel::Voluntary,
            reason: "freeze".to_owned(),
            since: snapshot.now,
            until: snapshot.now + SignedDuration::from_hours(1),
        });
    });
    assert!(paused.removes().is_empty());
}

#[test]
fn repair_ignores_caps_on_evictions_and_terminations() {
    let cluster = lost_of(1, 1).with(|snapshot| {
        snapshot.caps.evictions = Some(0);
        snapshot.caps.terminations = Some(0);
    });
    assert_eq!(cluster.removes(), ["n0"]);
}
