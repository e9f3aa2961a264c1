//! Drift of nodes of dynamic and static NodePools.

use super::*;

#[test]
fn drifted_node_is_replaced_at_any_price() {
    let cluster = TestCluster::new()
        .node("n", "small", &[1_000])
        .with(|snapshot| {
            drift(snapshot, "n-claim", 1);
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types).retain(|kind| kind.name == "large");
        });
    let expected = (
        Reason::Drifted,
        vec!["n".into()],
        vec![vec!["large".into()]],
    );
    assert_eq!(cluster.commands(), [expected]);
}

#[test]
fn oldest_drift_is_replaced_first_after_nodes_without_pods() {
    let cluster = TestCluster::new()
        .node("late", "small", &[2_000])
        .node("early", "small", &[2_000])
        .with(|snapshot| {
            snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Never;
            drift(snapshot, "late-claim", 1);
            drift(snapshot, "early-claim", 2);
        });
    assert_eq!(cluster.removes(), ["early"]);
    let mut stuck =
        TestCluster::new()
            .node("late", "small", &[2_000])
            .node("early", "small", &[2_000]);
    stuck.0 = cluster.0.clone();
    stuck.0.pods[1]
        .node_selector
        .insert(ZONE.into(), "nowhere".into());
    assert_eq!(stuck.removes(), ["late"]);
    let blocked = stuck.blocked();
    assert!(
        blocked[0]
            .1
            .starts_with("Not all pods would schedule, default/early-0 => "),
        "{blocked:?}"
    );
    let mut idle = cluster;
    idle.0.pods.remove(0);
    assert_eq!(idle.removes(), ["late"]);
}

#[test]
fn termination_grace_period_overrides_blocking_pods_for_drift() {
    let cluster = |grace: Option<&str>| {
        TestCluster::new()
            .node("n", "small", &[1_000])
            .with(|snapshot| {
                drift(snapshot, "n-claim", 1);
                snapshot.node_claims[0].spec.termination_grace_period = grace.map(Into::into);
                snapshot.disruption_budgets = vec![PodDisruptionBudget {
                    max_unavailable: Some("0".into()),
                    ..guard("n-0")
                }];
            })
            .commands()
    };
    assert!(cluster(None).is_empty());
    // A pod that can never be evicted gets no place before it is gone.
    assert_eq!(
        cluster(Some("1h")),
        [(Reason::Drifted, vec!["n".into()], vec![])]
    );
}

#[test]
fn drifted_node_may_be_replaced_by_several() {
    let cluster = TestCluster::new()
        .node("n", "large", &[1_500, 1_500])
        .with(|snapshot| {
            drift(snapshot, "n-claim", 1);
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types).retain(|kind| kind.name == "small");
        });
    assert_eq!(cluster.commands()[0].2.len(), 2);
}

#[test]
fn drifted_static_nodes_are_replaced_within_budgets_and_limits() {
    let cluster = |change: fn(&mut Snapshot)| {
        TestCluster::new()
            .node("a", "small", &[1_000])
            .node("b", "small", &[])
            .with(|snapshot| {
                snapshot.node_pools[0].replicas = Some(2);
                drift(snapshot, "a-claim", 1);
                drift(snapshot, "b-claim", 1);
            })
            .with(change)
            .commands()
    };
    let one = |node: &str| (Reason::Drifted, vec![node.to_owned()], vec![vec![]]);
    assert_eq!(cluster(|_| {}), [one("a"), one("b")]);
    assert_eq!(
        cluster(|snapshot| snapshot.node_pools[0].limits = Resources::from([("nodes", 3)])),
        [one("a")]
    );
    assert_eq!(
        cluster(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget("1")]),
        [one("a")]
    );
    assert!(cluster(|snapshot| snapshot.node_pools[0].replicas = Some(1)).is_empty());
}

#[test]
fn replacement_of_a_static_node_has_the_price_of_its_template() {
    let command = |change: fn(&mut Snapshot)| {
        let cluster = TestCluster::new()
            .node("n", "medium", &[])
            .with(|snapshot| {
                snapshot.node_pools[0].replicas = Some(1);
                drift(snapshot, "n-claim", 1);
            });
        disrupt(&cluster.with(change).0).commands.remove(0)
    };
    let smaller = command(|_| {});
    assert_eq!(
        smaller.because,
        "Drifted: n of $0.2000/h, replaced by 1 of $0.1000/h"
    );
    assert_eq!(smaller.savings, NanosPerHour(100_000_000));
    let alike = command(|snapshot| {
        let wanted = &mut snapshot.node_pools[0].template.requirements;
        wanted.push(one_of(INSTANCE_TYPE, &["medium"]));
    });
    assert_eq!(alike.savings, NanosPerHour(0));
    let unknown = command(|snapshot| {
        let wanted = &mut snapshot.node_pools[0].template.requirements;
        wanted.push(one_of(INSTANCE_TYPE, &["unheard-of"]));
    });
    assert_eq!(
        unknown.because,
        "Drifted: n of $0.2000/h, replaced by 1 of unknown price"
    );
    assert_eq!(unknown.savings, NanosPerHour(0));
}

#[test]
fn drifted_node_without_budget_is_kept_and_reported() {
    let cluster = TestCluster::new()
        .node("n", "small", &[1_000])
        .with(|snapshot| {
            drift(snapshot, "n-claim", 1);
            snapshot.node_pools[0].disruption.budgets = vec![Budget {
                reasons: vec!["Drifted".to_owned()],
                ..budget("0")
            }];
        });
    assert!(cluster.removes().is_empty());
    let reported = disrupt(&cluster.0).exhausted.into_iter();
    let reported: Vec<String> = reported.map(|(_, reported)| reported).collect();
    let expected = "No allowed disruptions for disruption reason Drifted due to blocking budget";
    assert_eq!(reported, [expected]);
}

#[test]
fn terminating_static_nodes_count_against_the_node_limit() {
    let cluster = |nodes: i64| {
        TestCluster::new()
            .node("a", "small", &[1_000])
            .node("gone", "small", &[])
            .with(|snapshot| {
                snapshot.node_pools[0].replicas = Some(1);
                snapshot.node_pools[0].limits = Resources::from([("nodes", nodes)]);
                snapshot.node_claims[1].deleted_at = Some(snapshot.now);
                drift(snapshot, "a-claim", 1);
            })
            .removes()
    };
    assert_eq!(cluster(3), ["a"]);
    assert!(cluster(2).is_empty());
}

#[test]
fn drift_moves_pods_to_nodes_that_are_cooling_down() {
    let cluster = TestCluster::new()
        .node("n", "small", &[1_000])
        .node("busy", "large", &[1_000])
        .with(|snapshot| {
            snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(60);
            snapshot.node_claims[1].status.last_pod_event = Some(snapshot.now);
            drift(snapshot, "n-claim", 1);
        });
    assert_eq!(
        cluster.commands(),
        [(Reason::Drifted, vec!["n".to_owned()], vec![])]
    );
}
