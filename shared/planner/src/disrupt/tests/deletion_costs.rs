//! Pod deletion costs (docs/spec/v1.15.md#pod-deletion-cost).

use api::names::annotation::{DELETION_COST_WRITTEN, POD_DELETION_COST};
use model::taint::Taint;

use super::*;

fn switch(snapshot: &mut Snapshot, on: bool) {
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert(POD_DELETION_COST_GATE.to_owned(), on);
}

/// The world with the gate on and all pods owned by ReplicaSets.
fn managed(cluster: TestCluster) -> TestCluster {
    cluster.with(|snapshot| {
        switch(snapshot, true);
        snapshot
            .pods
            .iter_mut()
            .for_each(|pod| own(pod, "ReplicaSet"));
    })
}

fn own(pod: &mut Pod, kind: &str) {
    pod.owner = Some(Owner {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        name: "web".into(),
        uid: "web-uid".into(),
    });
}

fn says(pod: &mut Pod, cost: &str, written: Option<&str>) {
    let annotations = &mut pod.annotations;
    annotations.insert(POD_DELETION_COST.into(), cost.into());
    if let Some(written) = written {
        annotations.insert(DELETION_COST_WRITTEN.into(), written.into());
    }
}

/// Names of pods with the value to write.
fn writes(cluster: &TestCluster) -> Vec<(String, Option<i32>)> {
    let (nodes, _) = deletion_costs(&cluster.0);
    let pods = nodes.into_iter().flat_map(|node| node.pods);
    let mut pods: Vec<_> = pods
        .map(|pod| (pod.pod.name.to_string(), pod.cost))
        .collect();
    pods.sort();
    pods
}

fn three() -> TestCluster {
    managed(
        TestCluster::new()
            .node("large", "large", &[100])
            .node("medium", "medium", &[100, 100])
            .node("small", "small", &[100]),
    )
}

#[test]
fn pods_of_the_node_with_most_savings_per_cost_are_deleted_first() {
    let expected = [
        ("large-0".to_owned(), Some(-3)),
        ("medium-0".to_owned(), Some(-2)),
        ("medium-1".to_owned(), Some(-2)),
        ("small-0".to_owned(), Some(-1)),
    ];
    assert_eq!(writes(&three()), expected);
}

#[test]
fn drifted_nodes_rank_before_others() {
    let cluster = three().with(|snapshot| drift(snapshot, "small-claim", 1));
    let costs = writes(&cluster);
    assert_eq!(costs[3], ("small-0".to_owned(), Some(-3)));
    assert_eq!(costs[0], ("large-0".to_owned(), Some(-2)));
}

#[test]
fn pods_of_terminating_nodes_are_deleted_first() {
    let cluster = three().with(|snapshot| {
        let now = snapshot.now;
        snapshot.node_claims[0].deleted_at = Some(now);
    });
    let costs = writes(&cluster);
    assert_eq!(costs[0], ("large-0".to_owned(), Some(i32::MIN)));
    assert_eq!(costs[1], ("medium-0".to_owned(), Some(-2)));
    let tainted = |key: &str| {
        three().with(|snapshot| {
            let disrupted = Taint {
                key: key.to_owned(),
                ..crate::pods::disrupted_taint()
            };
            snapshot.nodes[0].taints.push(disrupted);
        })
    };
    assert_eq!(writes(&tainted("karpenter.sh/disrupted")), costs);
    let other = writes(&tainted("example.com/other"));
    assert_eq!(other[0], ("large-0".to_owned(), Some(-3)));
}

#[test]
fn nodes_that_cannot_become_empty_have_no_rank() {
    type Change = fn(&mut Snapshot);
    let changes: [(&str, Change); 7] = [
        ("a pod that may not be disrupted", |w| {
            let annotations = &mut w.pods[0].annotations;
            annotations.insert(DO_NOT_DISRUPT.into(), "true".into());
        }),
        ("a node that may not be disrupted", |w| {
            let annotations = &mut w.nodes[0].annotations;
            annotations.insert(DO_NOT_DISRUPT.into(), "true".into());
        }),
        ("a budget that keeps a pod", |w| {
            w.disruption_budgets.push(guard("large-0"));
        }),
        ("a pod of a StatefulSet", |w| {
            let mut stateful = pod("db-0", 100, "large");
            own(&mut stateful, "StatefulSet");
            w.pods.push(stateful);
        }),
        ("a pod of nobody", |w| {
            w.pods.push(pod("bare", 100, "large"))
        }),
        ("a nomination", |w| {
            let until = w.now + SignedDuration::from_secs(20);
            w.nominated.insert("large".into(), until);
        }),
        ("a type that is not offered", |w| {
            let types = w.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types).retain(|kind| kind.name != "large");
        }),
    ];
    for (what, change) in changes {
        let costs = writes(&three().with(change));
        assert!(
            costs.iter().all(|(pod, _)| pod != "large-0") && costs[0].1 == Some(-2),
            "{what}: {costs:?}"
        );
    }
}

#[test]
fn ranked_nodes_are_bounded_by_budgets() {
    let cluster = three().with(|w| w.node_pools[0].disruption.budgets = vec![budget("1")]);
    assert_eq!(writes(&cluster), [("large-0".to_owned(), Some(-1))]);
    let drifted = three().with(|w| {
        let named = Budget {
            reasons: vec!["Drifted".to_owned()],
            ..budget("0")
        };
        w.node_pools[0].disruption.budgets = vec![budget("100%"), named];
        drift(w, "large-claim", 1);
        says(&mut w.pods[0], "-3", Some("-3"));
    });
    assert_eq!(writes(&drifted)[0], ("large-0".to_owned(), None));
    let never = three().with(|w| {
        w.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Never;
    });
    assert_eq!(writes(&never), []);
}

#[test]
fn owners_value_is_kept_and_unchanged_costs_are_not_rewritten() {
    let cluster = three().with(|w| {
        says(&mut w.pods[0], "-7", None);
        says(&mut w.pods[3], "-1", Some("-1"));
    });
    let names: Vec<_> = writes(&cluster).into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(names, ["medium-0", "medium-1"]);
    let changed_by_its_owner = three().with(|w| says(&mut w.pods[0], "100", Some("-3")));
    assert!(
        writes(&changed_by_its_owner)
            .iter()
            .all(|(pod, _)| pod != "large-0")
    );
}

#[test]
fn slightly_changed_rank_is_not_rewritten() {
    let many = || {
        let nodes = (0..20).fold(TestCluster::new(), |cluster, at| {
            cluster.node(&format!("n{at:02}"), "small", &[100])
        });
        managed(nodes)
    };
    // The current rank is -20.
    let near = many().with(|w| says(&mut w.pods[0], "-18", Some("-18")));
    assert!(writes(&near).iter().all(|(pod, _)| pod != "n00-0"));
    let far = many().with(|w| says(&mut w.pods[0], "-17", Some("-17")));
    assert_eq!(writes(&far)[0], ("n00-0".to_owned(), Some(-20)));
}

#[test]
fn annotation_is_removed_without_the_gate_or_a_rank() {
    let off = three().with(|w| {
        switch(w, false);
        says(&mut w.pods[0], "-3", Some("-3"));
        says(&mut w.pods[3], "-1", None);
    });
    assert_eq!(writes(&off), [("large-0".to_owned(), None)]);
    let kept = three().with(|w| {
        says(&mut w.pods[0], "-3", Some("-3"));
        w.disruption_budgets.push(guard("large-0"));
    });
    assert_eq!(writes(&kept)[0], ("large-0".to_owned(), None));
}

#[test]
fn one_turn_updates_pods_of_at_most_fifty_nodes() {
    let many = (0..60).fold(TestCluster::new(), |cluster, at| {
        cluster.node(&format!("n{at:02}"), "small", &[100])
    });
    let many = managed(many);
    let (nodes, left) = deletion_costs(&many.0);
    assert_eq!((nodes.len(), left.len()), (50, 10));
    assert_eq!(nodes[0].pods[0].cost, Some(-60), "the first ranks first");
    let written = many.with(|snapshot| {
        for change in nodes.iter().flat_map(|node| &node.pods) {
            let mut pods = snapshot.pods.iter_mut();
            let pod = pods.find(|pod| pod.key == change.pod).unwrap();
            let cost = change.cost.unwrap().to_string();
            says(pod, &cost, Some(&cost));
        }
    });
    let (nodes, left) = deletion_costs(&written.0);
    assert_eq!((nodes.len(), left.len()), (10, 0));
    assert_eq!(nodes[9].pods[0].cost, Some(-1));
}
