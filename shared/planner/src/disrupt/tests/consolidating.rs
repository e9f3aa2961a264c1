//! Consolidation of single and of several nodes.

use model::{
    pod::PodVolume,
    volume::{StorageClass, VolumeClaim},
};

use super::*;

const EBS: &str = "ebs.csi.aws.com";

fn underutilized(
    nodes: &[&str],
    replacements: &[&[&str]],
) -> (Reason, Vec<String>, Vec<Vec<String>>) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    (
        Reason::Underutilized,
        owned(nodes),
        replacements.iter().map(|types| owned(types)).collect(),
    )
}

fn allow_spot(snapshot: &mut Snapshot) {
    snapshot.node_pools[0].template.requirements =
        vec![one_of(CAPACITY_TYPE, &["spot", "on-demand"])];
}

#[test]
fn node_whose_pods_fit_elsewhere_is_removed() {
    let cluster = TestCluster::new()
        .node("a", "small", &[500])
        .node("b", "small", &[1_400]);
    assert_eq!(cluster.commands(), [underutilized(&["a"], &[])]);
}

#[test]
fn replacement_must_be_cheaper_at_its_highest_price() {
    let oversized = TestCluster::new().node("n", "large", &[3_000]);
    assert_eq!(
        oversized.commands(),
        [underutilized(&["n"], &[&["medium"]])]
    );
    let fitting = TestCluster::new().node("n", "medium", &[3_000]);
    assert!(fitting.commands().is_empty());
    assert_eq!(
        fitting.unconsolidatable(),
        ["Can't replace with a cheaper node"]
    );
    let dear_in_one_zone = TestCluster::new()
        .node("n", "large", &[3_000])
        .with(|snapshot| {
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            let medium = &mut Arc::make_mut(types)[1];
            medium
                .requirements
                .add(Requirement::new(ZONE, Operator::Exists, []));
            let mut dear = medium.offerings[0].clone();
            (dear.zone, dear.price) = ("b".to_owned(), NanosPerHour(400_000_000));
            medium.offerings.push(dear);
            let zone = Requirement::new(ZONE, Operator::In, ["a".to_owned(), "b".to_owned()]);
            medium.requirements.0.insert(ZONE.to_owned(), zone);
        });
    assert!(dear_in_one_zone.commands().is_empty());
}

#[test]
fn replacement_of_an_on_demand_node_by_spot_is_pinned_to_spot() {
    let cluster = TestCluster::new()
        .node("n", "medium", &[3_000])
        .with(allow_spot);
    assert_eq!(cluster.commands(), [underutilized(&["n"], &[&["medium"]])]);
    let commands = disrupt(&cluster.0).commands;
    let requirements = &commands[0].replacements[0].spec.requirements;
    let capacity_type = requirements
        .iter()
        .find(|requirement| requirement.key == CAPACITY_TYPE);
    assert_eq!(capacity_type.unwrap().values, ["spot"]);
}

#[test]
fn spot_to_spot_needs_its_gate_and_fifteen_cheaper_types() {
    let spot = |gate: bool, cheaper: i64| {
        TestCluster::new()
            .node_of("n", "large", "spot", &[100])
            .with(allow_spot)
            .with(|snapshot| {
                let gates = &mut snapshot.settings.feature_gates;
                gates.insert("SpotToSpotConsolidation".into(), gate);
                let more = (0..cheaper - 2).map(|n| kind(&format!("more-{n}"), 2, 100 + n));
                let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
                Arc::make_mut(types).extend(more);
            })
    };
    assert!(spot(false, 20).commands().is_empty());
    assert!(spot(true, 14).commands().is_empty());
    assert_eq!(spot(true, 15).commands().len(), 1);
    let commands = spot(true, 20).commands();
    assert_eq!(commands[0].2[0].len(), 15, "{commands:?}");
}

#[test]
fn several_nodes_are_replaced_by_one_cheaper_node() {
    let cluster = TestCluster::new()
        .node("a", "medium", &[1_900])
        .node("b", "medium", &[1_900]);
    // Not merged into their own instance type: removing one of them is enough.
    assert_eq!(cluster.commands(), [underutilized(&["a"], &[])]);
    let cluster = TestCluster::new()
        .node("a", "large", &[1_500, 500])
        .node("b", "large", &[1_500, 500, 4_000])
        .node("c", "small", &[2_000]);
    assert_eq!(cluster.removes(), ["a"]);
}

#[test]
fn one_node_is_never_replaced_by_two() {
    let cluster = TestCluster::new()
        .node("n", "large", &[1_900, 1_900, 1_900])
        .with(|snapshot| {
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            Arc::make_mut(types).retain(|kind| kind.name != "medium");
        });
    assert!(cluster.commands().is_empty());
}

#[test]
fn only_pending_pods_are_placed_on_nodes_that_are_cooling_down() {
    let cluster = |seconds: i64| {
        TestCluster::new()
            .node("a", "small", &[500])
            .node("b", "small", &[1_400])
            .with(|snapshot| {
                snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(60);
                let event = snapshot.now - SignedDuration::from_secs(seconds);
                for claim in &mut snapshot.node_claims {
                    claim.status.last_pod_event = Some(event);
                }
            })
            .removes()
    };
    assert!(cluster(59).is_empty());
    assert_eq!(cluster(60), ["a"]);
}

#[test]
fn node_without_pod_events_cools_down_from_its_initialization() {
    let removes = |seconds: i64| {
        TestCluster::new()
            .node("a", "small", &[500])
            .node("b", "small", &[1_400])
            .with(|snapshot| {
                snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(60);
                snapshot.now += SignedDuration::from_secs(seconds);
            })
            .removes()
    };
    assert!(removes(59).is_empty());
    assert_eq!(removes(60), ["a"]);
}

#[test]
fn static_nodes_never_cool_down() {
    let cluster = |replicas: Option<i64>| {
        TestCluster::new()
            .pool("other")
            .node("a", "small", &[500])
            .node("b", "small", &[1_400])
            .belongs("b", "other")
            .with(|snapshot| {
                let pool = snapshot.node_pools.last_mut().unwrap();
                pool.disruption.consolidate_after = ConsolidateAfter::Seconds(60);
                pool.replicas = replicas;
                let now = snapshot.now;
                for claim in &mut snapshot.node_claims {
                    claim.status.last_pod_event = Some(now);
                }
            })
            .removes()
    };
    assert_eq!(cluster(Some(1)), ["a"]);
    assert_eq!(cluster(None), ["b"], "its own pods may go");
}

#[test]
fn pending_pod_without_a_place_blocks_no_disruption() {
    let cluster = TestCluster::new()
        .node("a", "small", &[500])
        .node("b", "small", &[1_400])
        .with(|snapshot| {
            let mut waiting = pod("huge", 64_000, "");
            (waiting.node_name, waiting.unschedulable) = (None, true);
            snapshot.pods.push(waiting);
        });
    assert_eq!(cluster.removes(), ["a"]);
}

#[test]
fn message_names_some_unplaced_pods_and_counts_the_rest() {
    let reported = |pods: usize| {
        let cluster = TestCluster::new().node("n", "large", &vec![100; pods]);
        let cluster = cluster.with(|snapshot| {
            for pod in &mut snapshot.pods {
                let nowhere = (ZONE.to_owned(), "nowhere".to_owned());
                pod.node_selector.extend([nowhere]);
            }
        });
        cluster.unconsolidatable().remove(0)
    };
    assert!(reported(7).ends_with(" and 2 more"), "{}", reported(7));
    assert!(!reported(5).contains("more"), "{}", reported(5));
}

#[test]
fn pods_are_not_moved_to_uninitialized_nodes() {
    let cluster = TestCluster::new()
        .node("a", "small", &[500])
        .node("new", "small", &[])
        .with(|snapshot| {
            snapshot.nodes[1].labels.remove("karpenter.sh/initialized");
        });
    assert!(cluster.removes().is_empty());
}

#[test]
fn only_optimize_upstream_places_pods_on_unready_nodes() {
    let cluster = |optimize: Optimize| {
        TestCluster::new()
            .node("a", "small", &[500])
            .node("ill", "small", &[])
            .with(|snapshot| {
                snapshot.settings.optimize = optimize;
                snapshot.nodes[1].ready.status = model::node::ConditionStatus::Unknown;
                snapshot.node_claims[1].status.conditions.truncate(3);
            })
            .removes()
    };
    assert_eq!(cluster(Optimize::Upstream), ["a"]);
    assert!(cluster(Optimize::Cost).is_empty());
}

#[test]
fn discontinued_instance_type_is_neither_priced_nor_replaced() {
    let cluster = TestCluster::new().node("n", "huge", &[100]);
    assert!(cluster.commands().is_empty());
    assert_eq!(
        cluster.unconsolidatable(),
        ["Instance Type \"huge\" not found"]
    );
}

#[test]
fn consolidation_policy_decides_which_nodes_are_removed() {
    let with = |policy: ConsolidationPolicy, pods: &[i64]| {
        TestCluster::new()
            .node("n", "medium", pods)
            .node("full", "large", &[8_000])
            .with(|snapshot| snapshot.node_pools[0].disruption.policy = policy)
            .removes()
    };
    let (many, few) = (&[300; 6][..], &[1_800][..]);
    assert_eq!(
        with(ConsolidationPolicy::WhenEmptyOrUnderutilized, many),
        ["n"]
    );
    assert!(with(ConsolidationPolicy::WhenEmpty, many).is_empty());
    // A sixth of the cost does not justify three quarters of the disruption, nor a half.
    assert!(with(ConsolidationPolicy::Balanced, many).is_empty());
    assert!(with(ConsolidationPolicy::Balanced, few).is_empty());
    let alone = TestCluster::new().node("n", "medium", few);
    let alone = alone.with(|snapshot| {
        snapshot.node_pools[0].disruption.policy = ConsolidationPolicy::Balanced;
    });
    assert_eq!(alone.removes(), ["n"], "half the price is just enough");
}

#[test]
fn replacement_must_satisfy_min_values() {
    let cluster = |least: u32| {
        TestCluster::new()
            .node("n", "large", &[100])
            .with(|snapshot| {
                let mut types = one_of(INSTANCE_TYPE, &["small", "medium", "large"]);
                types.min_values = Some(least);
                snapshot.node_pools[0].template.requirements.push(types);
            })
            .commands()
            .len()
    };
    assert_eq!((cluster(2), cluster(3)), (1, 0));
}

#[test]
fn nodes_at_their_attach_limit_take_no_pods_with_volumes() {
    let with_volumes = |optimize, change: fn(&mut Snapshot)| {
        let cluster = TestCluster::new()
            .node("a", "small", &[100])
            .node("b", "small", &[100]);
        let cluster = cluster.with(|snapshot| {
            snapshot.settings.optimize = optimize;
            snapshot.storage.classes.push(StorageClass {
                name: "gp3".to_owned(),
                provisioner: EBS.to_owned(),
                ..StorageClass::default()
            });
            for pod in &mut snapshot.pods {
                let claim = pod.key.name.clone();
                snapshot.storage.claims.push(VolumeClaim {
                    namespace: pod.key.namespace.clone(),
                    name: claim.clone(),
                    storage_class: Some("gp3".to_owned()),
                    ..VolumeClaim::default()
                });
                let mut shape = (*pod.shape).clone();
                shape.volumes.push(PodVolume::Claim { claim });
                pod.shape = shape.into();
            }
        });
        cluster.with(change).removes().len()
    };
    let said_by_nodes = |snapshot: &mut Snapshot| {
        for name in ["a", "b"] {
            let limits = [(EBS.to_owned(), 1)].into();
            snapshot.storage.attach_limits.insert(name.into(), limits);
        }
    };
    let said_by_types = |snapshot: &mut Snapshot| {
        let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
        for kind in Arc::make_mut(types).iter_mut() {
            kind.ebs_attach_limit = Some(1);
        }
    };
    for optimize in [Optimize::Upstream, Optimize::Cost] {
        assert_eq!(with_volumes(optimize, |_| {}), 1, "{optimize:?}");
        assert_eq!(with_volumes(optimize, said_by_nodes), 0, "{optimize:?}");
    }
    assert_eq!(with_volumes(Optimize::Cost, said_by_types), 0);
    assert_eq!(with_volumes(Optimize::Upstream, said_by_types), 1);
}
