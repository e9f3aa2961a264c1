//! Repair of unhealthy nodes.

use model::{
    ledger::{Command, CommandState},
    node::{ConditionStatus, NodeCondition, Ready},
};

use super::*;

mod evidence;
mod limits;
mod rebooting;
mod refusals;

/// Small nodes with a pod each, with repair enabled.
fn cluster(nodes: usize) -> TestCluster {
    let mut cluster = TestCluster::new();
    for at in 0..nodes {
        cluster = cluster.node(&format!("n{at}"), "small", &[1_000]);
    }
    cluster.with(|snapshot| {
        let gates = &mut snapshot.settings.feature_gates;
        gates.insert("NodeRepair".to_owned(), true);
        snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Never;
        for node in &mut snapshot.nodes {
            node.created_at = Some(snapshot.now - SignedDuration::from_hours(24));
        }
    })
}

/// Makes the node at this index not ready for this many minutes.
fn lost(snapshot: &mut Snapshot, at: usize, minutes: i64) {
    let now = snapshot.now;
    snapshot.nodes[at].ready = Ready {
        status: ConditionStatus::False,
        since: Some(now - SignedDuration::from_mins(minutes)),
    };
}

fn unhealthy(nodes: usize, minutes: i64) -> TestCluster {
    cluster(nodes).with(|snapshot| lost(snapshot, 0, minutes))
}

fn annotate(snapshot: &mut Snapshot, key: &str, value: &str) {
    let annotations = &mut snapshot.nodes[0].annotations;
    annotations.insert(key.to_owned(), value.to_owned());
}

fn small(node: &str) -> (Reason, Vec<String>, Vec<Vec<String>>) {
    let types = ["small", "medium", "large"].map(str::to_owned).to_vec();
    (Reason::Unhealthy, vec![node.to_owned()], vec![types])
}

#[test]
fn no_empty_node_is_proposed_beside_others_while_a_node_can_be_repaired() {
    let newly_empty = |minutes| {
        let cluster = unhealthy(1, minutes).node("empty", "small", &[]);
        let cluster = cluster.with(|snapshot| {
            let disruption = &mut snapshot.node_pools[0].disruption;
            disruption.consolidate_after = ConsolidateAfter::default();
            disruption.budgets = vec![budget("100%")];
        });
        let none = BTreeSet::new();
        newly_empty(&cluster.0, &none, &none).len()
    };
    assert_eq!([29, 31].map(newly_empty), [1, 0]);
}

#[test]
fn unhealthy_node_is_replaced_after_its_toleration() {
    assert!(unhealthy(1, 29).commands().is_empty());
    let unhealthy = unhealthy(1, 31);
    assert_eq!(unhealthy.commands(), [small("n0")]);
    let command = disrupt(&unhealthy.0).commands.remove(0);
    let repair = command.repair.unwrap();
    assert_eq!(repair.condition, "Ready");
    assert_eq!(repair.drain_bound, Some(SignedDuration::from_mins(10)));
    let because = "replaced by 1 of $0.1000/h; Ready=False has exceeded its toleration since 2025-12-31T23:59:00Z; pods have 10m to drain";
    assert!(command.because.ends_with(because), "{}", command.because);
    assert!(command.evicts.is_empty(), "no cap counts it");
}

#[test]
fn voluntary_repair_needs_the_gate_and_no_legacy_repair() {
    let off = |snapshot: &mut Snapshot| snapshot.settings.feature_gates.clear();
    let legacy = |snapshot: &mut Snapshot| snapshot.settings.legacy_node_repair = true;
    assert!(unhealthy(1, 31).with(off).commands().is_empty());
    assert!(unhealthy(1, 31).with(legacy).commands().is_empty());
}

#[test]
fn check_is_due_at_the_end_of_the_next_toleration() {
    let cluster = unhealthy(1, 29).with(|snapshot| {
        let since = snapshot.now - SignedDuration::from_mins(4);
        snapshot.nodes[0].conditions.push(NodeCondition {
            kind: "AcceleratedHardwareReady".to_owned(),
            status: ConditionStatus::False,
            reason: "NvidiaXID79Error".to_owned(),
            since: Some(since),
        });
    });
    let due = |cluster: &TestCluster| disrupt(&cluster.0).due;
    assert_eq!(
        due(&cluster),
        Some(cluster.0.now + SignedDuration::from_mins(1))
    );
    let well = cluster.with(|snapshot| snapshot.nodes[0].ready.status = ConditionStatus::True);
    assert_eq!(due(&well), Some(well.0.now + SignedDuration::from_mins(6)));
}

#[test]
fn unhealthy_node_is_deleted_without_replacement_if_its_pods_fit_elsewhere() {
    let empty = unhealthy(1, 31).with(|snapshot| snapshot.pods.clear());
    assert_eq!(
        empty.commands(),
        [(Reason::Unhealthy, vec!["n0".into()], vec![])]
    );
    let roomy = unhealthy(1, 31).node("n1", "large", &[]);
    assert_eq!(
        roomy.commands(),
        [(Reason::Unhealthy, vec!["n0".into()], vec![])]
    );
}

#[test]
fn blocking_pods_are_placed_as_well() {
    let cluster = unhealthy(1, 31).with(|snapshot| {
        snapshot.disruption_budgets = vec![PodDisruptionBudget {
            max_unavailable: Some("0".into()),
            ..guard("n0-0")
        }];
    });
    assert_eq!(cluster.commands(), [small("n0")]);
    let protected = unhealthy(1, 31).with(|snapshot| {
        let annotations = &mut snapshot.pods[0].annotations;
        annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
    });
    assert_eq!(protected.commands(), [small("n0")]);
}

#[test]
fn replacement_of_an_unhealthy_node_may_be_more_expensive() {
    let cluster = unhealthy(1, 31).with(|snapshot| {
        let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
        Arc::make_mut(types).retain(|kind| kind.name == "large");
    });
    assert_eq!(cluster.commands()[0].2, [["large"]]);
}

#[test]
fn repair_precedes_emptiness_and_takes_one_node_at_a_time() {
    let cluster = cluster(10).node("idle", "small", &[]).with(|snapshot| {
        snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(0);
        lost(snapshot, 3, 31);
        lost(snapshot, 5, 33);
    });
    let commands = cluster.commands();
    assert_eq!(commands.len(), 1);
    assert_eq!(
        (commands[0].0, &*commands[0].1),
        (Reason::Unhealthy, &["n5".to_owned()][..])
    );
}

/// An evaluation ends with a repair. The next one, with that repair under way, handles the empty node
/// (docs/spec/v1.15.md#repair-order).
#[test]
fn emptiness_follows_in_the_next_evaluation() {
    let sick_and_idle = || {
        cluster(10).node("idle", "small", &[]).with(|snapshot| {
            snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(0);
            snapshot.node_pools[0].disruption.budgets = vec![budget("2")];
            lost(snapshot, 3, 31);
        })
    };
    let repair = disrupt(&sick_and_idle().0).commands.remove(0);
    assert_eq!(
        (repair.reason, &*repair.nodes),
        (Reason::Unhealthy, &["n3".to_owned()][..])
    );
    let next = sick_and_idle().with(|snapshot| {
        snapshot.commands.push(Command {
            id: "repair".to_owned(),
            reason: "Unhealthy".to_owned(),
            delete: repair.delete,
            state: CommandState::Replacing,
            committed_at: snapshot.now,
            ..Command::default()
        });
    });
    let commands = next.commands();
    assert_eq!(commands.len(), 1);
    assert_eq!(
        (commands[0].0, &*commands[0].1),
        (Reason::Empty, &["idle".to_owned()][..])
    );
}

#[test]
fn equally_urgent_nodes_are_repaired_by_least_disruption() {
    let cluster = cluster(10).with(|snapshot| {
        lost(snapshot, 3, 31);
        lost(snapshot, 5, 31);
        snapshot.pods.push(pod("further", 500, "n3"));
    });
    assert_eq!(cluster.removes(), ["n5"]);
}

#[test]
fn uninitialized_node_is_repaired() {
    let cluster = unhealthy(1, 31).with(|snapshot| {
        snapshot.nodes[0].labels.remove("karpenter.sh/initialized");
        snapshot.node_claims[0]
            .status
            .conditions
            .retain(|condition| condition.kind != INITIALIZED);
    });
    assert_eq!(cluster.removes(), ["n0"]);
}

#[test]
fn static_node_is_replaced_from_the_template() {
    let cluster = |limit: i64, replicas| {
        unhealthy(2, 31).with(|snapshot| {
            snapshot.node_pools[0].replicas = Some(replicas);
            snapshot.node_pools[0].limits = Resources::from([("nodes", limit)]);
        })
    };
    let expected = (Reason::Unhealthy, vec!["n0".to_owned()], vec![vec![]]);
    assert_eq!(cluster(3, 2).commands(), [expected]);
    let blocked = "static NodePool is at its node limit and cannot stage a replacement";
    assert!(cluster(2, 2).commands().is_empty());
    assert!(
        cluster(2, 2)
            .blocked()
            .contains(&("n0".into(), blocked.into()))
    );
    // Scaling down comes first.
    assert!(cluster(3, 1).commands().is_empty());
    assert!(
        !cluster(3, 1)
            .blocked()
            .iter()
            .any(|(_, reported)| reported == blocked)
    );
}

/// Adds a repair of the first node that was rolled back this many seconds ago.
fn taken_back(snapshot: &mut Snapshot, seconds: i64) {
    repaired(snapshot, CommandState::RolledBack, seconds);
}

/// Adds a repair of the first node that was committed this many seconds ago.
fn repaired(snapshot: &mut Snapshot, state: CommandState, seconds: i64) {
    let command = disrupt(&snapshot.clone()).commands.remove(0);
    snapshot.commands.push(Command {
        id: format!("c-{seconds}"),
        reason: "Unhealthy".to_owned(),
        delete: command.delete,
        state,
        committed_at: snapshot.now - SignedDuration::from_secs(seconds),
        choice: Some(ledger::Choice {
            method: Method::Repair,
            validate_at: None,
            instance_types: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: BTreeMap::new(),
            repair: command.repair,
            terminate_first: false,
            freed: None,
        }),
        ..Command::default()
    });
}

/// A node that a repair deletes, with a pod that is protected until the drain's bound, and the empty node that was launched for
/// that pod.
fn draining(optimize: Optimize) -> TestCluster {
    let mut cluster = unhealthy(1, 31).with(|snapshot| {
        let annotations = &mut snapshot.pods[0].annotations;
        annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
        repaired(snapshot, CommandState::Done, 60);
        snapshot.node_claims[0].deleted_at = Some(snapshot.now);
        snapshot.settings.optimize = optimize;
    });
    cluster = cluster.node("new", "small", &[]);
    cluster.with(|snapshot| {
        snapshot.node_pools[0].disruption.consolidate_after = ConsolidateAfter::Seconds(0);
    })
}

#[test]
fn node_for_pods_of_a_repaired_node_is_not_empty() {
    assert!(draining(Optimize::Cost).removes().is_empty());
    assert_eq!(draining(Optimize::Upstream).removes(), ["new"]);
    let of_no_repair = draining(Optimize::Cost).with(|snapshot| snapshot.commands.clear());
    assert_eq!(of_no_repair.removes(), ["new"]);
}

#[test]
fn pods_of_a_repaired_node_are_placed_in_advance() {
    let launches = |optimize| {
        let cluster = draining(optimize).with(|snapshot| {
            let mut other = pod("other", 1_500, "");
            other.node_name = None;
            other.phase = PodPhase::Pending;
            other.unschedulable = true;
            snapshot.pods.push(other);
        });
        let plan = crate::provision::provision(&cluster.0, Share::WHOLE);
        let launches = plan.actions.iter();
        launches
            .filter_map(|planned| planned.action.launch())
            .count()
    };
    assert_eq!(launches(Optimize::Cost), 1, "the new node is taken");
    assert_eq!(launches(Optimize::Upstream), 0);
}

#[test]
fn rolled_back_repair_is_retried_with_back_off() {
    let cluster = |ago: &[i64]| {
        let mut cluster = unhealthy(1, 60);
        let untried = cluster.0.clone();
        for seconds in ago {
            let mut one = untried.clone();
            taken_back(&mut one, *seconds);
            cluster.0.commands.extend(one.commands);
        }
        cluster
    };
    let once = cluster(&[30]);
    assert!(once.commands().is_empty());
    assert_eq!(
        disrupt(&once.0).due,
        Some(once.0.now + SignedDuration::from_secs(30))
    );
    assert_eq!(cluster(&[61]).removes(), ["n0"]);
    assert!(cluster(&[300, 100]).removes().is_empty());
    assert_eq!(cluster(&[300, 121]).removes(), ["n0"]);
    let often = [1_700, 1_600, 1_500, 1_400, 1_300, 599];
    assert!(cluster(&often).removes().is_empty());
    let since_long = [1_700, 1_600, 1_500, 1_400, 1_300, 601];
    assert_eq!(cluster(&since_long).removes(), ["n0"]);
    // Repairs of an earlier episode do not count.
    let recovered = cluster(&[30]).with(|snapshot| {
        snapshot.commands[0].committed_at = snapshot.now - SignedDuration::from_mins(31);
    });
    assert_eq!(recovered.removes(), ["n0"]);
}

#[test]
fn node_report_explains_the_repair_of_an_unhealthy_node() {
    let report = |cluster: &TestCluster| {
        let all = node_reports(&cluster.0).into_iter();
        let mut of_first = all.filter(|report| report.node == "n0");
        let report = of_first.next().unwrap();
        assert!(of_first.next().is_none(), "each node is reported on once");
        assert_eq!(report.reason, Some(Reason::Unhealthy));
        (
            report.alternative.map(|found| found.nodes.len()),
            report.kept,
        )
    };
    assert_eq!(report(&unhealthy(1, 31)), (Some(1), None));
    let refused = unhealthy(1, 31).with(|it| annotate(it, "karpenter.sh/do-not-repair", "true"));
    let reported = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";
    assert_eq!(report(&refused), (None, Some(reported.to_owned())));
    let many = unhealthy(5, 31).with(|snapshot| lost(snapshot, 1, 31));
    let reported = "more than 20% of nodes in nodepool \"default\" are unhealthy";
    assert_eq!(report(&many).1.as_deref(), Some(reported));
    let closed =
        unhealthy(1, 31).with(|it| it.node_pools[0].disruption.budgets = vec![budget("0")]);
    let reported = "No allowed disruptions for disruption reason Unhealthy due to blocking budget";
    assert_eq!(report(&closed).1.as_deref(), Some(reported));
}
