//! Budgets, and reasons that block disruption.

use super::*;

#[test]
fn unready_and_terminating_nodes_count_against_the_budget() {
    let nodes = |change: fn(&mut Snapshot)| {
        TestCluster::new()
            .node("a", "small", &[])
            .node("b", "small", &[])
            .node("c", "small", &[2_000])
            .with(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget("1")])
            .with(change)
            .removes()
    };
    assert_eq!(nodes(|_| {}), ["a"]);
    assert!(
        nodes(|cluster| cluster.nodes[2].ready.status = model::node::ConditionStatus::Unknown)
            .is_empty()
    );
    assert!(nodes(|cluster| cluster.node_claims[2].deleted_at = Some(cluster.now)).is_empty());
}

#[test]
fn every_blocking_reason_is_reported() {
    type Block = fn(&mut Snapshot);
    let protections: [(Block, &str); 10] = [
        (
            |cluster| {
                cluster.nodes[0].labels.remove("karpenter.sh/initialized");
            },
            "Node isn't initialized",
        ),
        (
            |cluster| cluster.node_claims[0].deleted_at = Some(cluster.now),
            "Node is deleting or marked for deletion",
        ),
        (
            |cluster| {
                let until = cluster.now + SignedDuration::from_secs(1);
                cluster.nominated.insert("n".into(), until);
            },
            "Node is nominated for a pending pod",
        ),
        // Nominated before the Node existed.
        (
            |cluster| {
                let until = cluster.now + SignedDuration::from_secs(1);
                let claim = cluster.node_claims[0].name.clone();
                cluster.nominated_claims.insert(claim, until);
            },
            "Node is nominated for a pending pod",
        ),
        (
            |cluster| {
                cluster.nodes[0]
                    .annotations
                    .insert(DO_NOT_DISRUPT.into(), "true".into());
            },
            "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation",
        ),
        (
            |cluster| cluster.instance_types.clear(),
            "NodePool not found (NodePool=default)",
        ),
        (
            |cluster| cluster.nodes.clear(),
            "Nodeclaim does not have an associated node",
        ),
        (
            |cluster| {
                cluster.pods[0]
                    .annotations
                    .insert(DO_NOT_DISRUPT.into(), "true".into());
            },
            "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/n-0)",
        ),
        (
            |cluster| cluster.disruption_budgets = vec![guard("n-0")],
            "Pdb prevents pod evictions (PodDisruptionBudget=[default/guard])",
        ),
        (
            |cluster| {
                let claim = "data".into();
                cluster.pods[0].volumes = vec![model::pod::PodVolume::Claim { claim }];
            },
            "Pod uses a volume that cannot be found (Pod=default/n-0, Volume=data)",
        ),
    ];
    for (block, message) in protections {
        let cluster = TestCluster::new().node("n", "large", &[100]).with(block);
        assert!(cluster.removes().is_empty(), "{message}");
        let blocked: Vec<String> = cluster.blocked().into_iter().map(|(_, why)| why).collect();
        assert_eq!(blocked, [message]);
    }
}

#[test]
fn do_not_disrupt_duration_expires_and_an_invalid_one_is_ignored() {
    let annotated = |text: &str, started_minutes_ago: Option<i64>| {
        let cluster = TestCluster::new()
            .node("n", "large", &[100])
            .with(|snapshot| {
                let now = snapshot.now;
                let pod = &mut snapshot.pods[0];
                pod.annotations.insert(DO_NOT_DISRUPT.into(), text.into());
                pod.started_at =
                    started_minutes_ago.map(|ago| now - SignedDuration::from_mins(ago));
            });
        !cluster.blocked().is_empty()
    };
    assert!(annotated("10m", Some(9)) && annotated("10m", None));
    assert!(!annotated("10m", Some(10)));
    for text in ["false", "TRUE", "-1h", "0s", "soon", ""] {
        assert!(!annotated(text, None), "{text}");
    }
}

#[test]
fn several_pdbs_on_one_pod_always_block() {
    let allowing = || PodDisruptionBudget {
        disruptions_allowed: 5,
        ..guard("n-0")
    };
    let cluster = |budgets: Vec<PodDisruptionBudget>| {
        TestCluster::new()
            .node("n", "large", &[100])
            .with(|snapshot| snapshot.disruption_budgets = budgets)
            .blocked()
            .len()
    };
    assert_eq!(
        (
            cluster(vec![allowing()]),
            cluster(vec![allowing(), allowing()])
        ),
        (0, 1)
    );
}

#[test]
fn pdb_with_always_allow_blocks_only_healthy_pods() {
    let cluster = |ready: bool| {
        TestCluster::new()
            .node("n", "large", &[100])
            .with(|snapshot| {
                snapshot.pods[0].ready = ready;
                snapshot.disruption_budgets = vec![PodDisruptionBudget {
                    always_allow_unhealthy: true,
                    ..guard("n-0")
                }];
            })
            .blocked()
            .len()
    };
    assert_eq!((cluster(true), cluster(false)), (1, 0));
}

#[test]
fn command_has_at_most_five_hundred_nodes() {
    let empty = (0..510).fold(TestCluster::new(), |cluster, number| {
        cluster.node(&format!("n{number:03}"), "small", &[])
    });
    let empty = empty.with(|snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![budget("100%")];
    });
    let commands = empty.commands();
    assert_eq!(commands[0].1.len(), 500);
    assert!(commands.iter().all(|(_, nodes, _)| nodes.len() <= 500));
}

#[test]
fn nomination_of_a_node_expires() {
    let cluster = TestCluster::new()
        .node("n", "large", &[100])
        .with(|snapshot| {
            let now = snapshot.now;
            snapshot.nominated.insert("n".into(), now);
        });
    assert_eq!(cluster.removes(), ["n"]);
}

#[test]
fn check_is_due_when_a_temporary_block_ends() {
    let due = |change: fn(&mut Snapshot, Timestamp)| {
        let cluster = TestCluster::new().node("n", "large", &[100]);
        let ends = cluster.0.now + SignedDuration::from_secs(7);
        let cluster = cluster.with(|snapshot| change(snapshot, ends));
        let result = disrupt(&cluster.0);
        assert!(result.commands.is_empty(), "{:?}", result.commands);
        result
            .due
            .map(|due| due.duration_since(cluster.0.now).as_secs())
    };
    let nominated = due(|cluster, ends| {
        cluster.nominated.insert("n".into(), ends);
    });
    assert_eq!(nominated, Some(7));
    let nominated_before_it_had_a_node = due(|cluster, ends| {
        let claim = cluster.node_claims[0].name.clone();
        cluster.nominated_claims.insert(claim, ends);
    });
    assert_eq!(nominated_before_it_had_a_node, Some(7));
    let with_a_protected_pod = due(|cluster, ends| {
        let pod = &mut cluster.pods[0];
        pod.started_at = Some(ends - SignedDuration::from_mins(90));
        pod.annotations
            .insert(DO_NOT_DISRUPT.into(), "1h30m".into());
    });
    assert_eq!(with_a_protected_pod, Some(7));
    let with_a_pod_protected_for_ever = due(|cluster, _| {
        let pod = &mut cluster.pods[0];
        pod.annotations.insert(DO_NOT_DISRUPT.into(), "true".into());
    });
    assert_eq!(with_a_pod_protected_for_ever, None);
}

#[test]
fn remaining_budget_is_reported_by_node_pool_and_reason() {
    let cluster = TestCluster::new()
        .node("a", "small", &[])
        .node("b", "small", &[])
        .with(|snapshot| {
            let of_drift = Budget {
                reasons: vec!["Drifted".to_owned()],
                ..budget("50%")
            };
            snapshot.node_pools[0].disruption.budgets = vec![of_drift];
            snapshot.node_claims[1].deleted_at = Some(snapshot.now);
        });
    let reported = pool_budgets(&cluster.0).into_iter();
    let reported: Vec<(Reason, usize, usize)> = reported
        .map(|budget| (budget.reason, budget.allowed, budget.disrupting))
        .collect();
    let unlimited = usize::MAX;
    assert_eq!(
        reported,
        [
            (Reason::Unhealthy, unlimited, 1),
            (Reason::Empty, unlimited, 1),
            (Reason::Drifted, 1, 1),
            (Reason::Underutilized, unlimited, 1)
        ]
    );
}

#[test]
fn eligible_nodes_are_counted_by_reason_independent_of_budgets() {
    let cluster = TestCluster::new()
        .node("empty", "small", &[])
        .node("idle", "small", &[100])
        .node("drifted", "small", &[100])
        .node("kept", "small", &[100])
        .with(|snapshot| {
            snapshot.node_pools[0].disruption.budgets = vec![budget("0")];
            let drifted = fixtures::claim("x", &[DRIFTED]).status.conditions;
            snapshot.node_claims[2].status.conditions.extend(drifted);
            let kept = &mut snapshot.nodes[3].annotations;
            kept.insert(DO_NOT_DISRUPT.into(), "true".into());
        });
    assert_eq!(
        eligible_nodes(&cluster.0),
        [
            (Reason::Unhealthy, 0),
            (Reason::Empty, 1),
            (Reason::Drifted, 1),
            (Reason::Underutilized, 2)
        ]
    );
}

#[test]
fn terminating_nodes_are_not_eligible() {
    let empty = ["a", "b", "c"].into_iter();
    let cluster = empty.fold(TestCluster::new(), |cluster, name| {
        cluster.node(name, "small", &[])
    });
    assert_eq!(eligible_nodes(&cluster.0)[1], (Reason::Empty, 3));
    let leaving = cluster.with(|snapshot| {
        let now = snapshot.now;
        for claim in &mut snapshot.node_claims {
            claim.deleted_at = Some(now);
        }
    });
    assert_eq!(eligible_nodes(&leaving.0)[1], (Reason::Empty, 0));
}

#[test]
fn node_without_budget_is_not_simulated() {
    let cluster = TestCluster::new()
        .node("n", "small", &[1_900])
        .with(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget("0")]);
    assert_eq!(cluster.unconsolidatable(), [""; 0]);
}

#[test]
fn excluded_nodes_are_never_disrupted() {
    let cluster = TestCluster::new().node("n", "small", &[]);
    let within = |excluded: &[&str]| {
        let excluded = excluded.iter().map(|name| (*name).into()).collect();
        disrupt_within(&cluster.0, Share::WHOLE, &excluded)
            .commands
            .len()
    };
    assert_eq!((within(&[]), within(&["n-claim"])), (1, 0));
}
