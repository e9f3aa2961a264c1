//! Reserved instances freed by nodes that were terminated first are kept for the pods of those nodes.

use model::ledger::{Choice, CommandState, FreedInstance, Method};

use super::{
    terminating_first::{on, reserved},
    *,
};
use crate::provision;

/// An unschedulable pod of this owner.
fn waiting(owner: &str, name: &str, cpu: i64) -> Pod {
    let mut pod = Pod {
        node_name: None,
        phase: PodPhase::Pending,
        ready: false,
        unschedulable: true,
        ..pod(name, cpu, "")
    };
    pod.owner = Some(Owner {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: owner.to_owned(),
        uid: owner.into(),
    });
    pod
}

/// A pending pod of `batch` that would be placed first, and these of `web`, for which the instance of node `n` is kept. The
/// node was terminated this many minutes ago.
fn left(minutes_ago: i64, web: Vec<Pod>) -> TestCluster {
    reserved().with(|snapshot| {
        let choice = Choice {
            method: Method::Drift,
            validate_at: None,
            instance_types: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: BTreeMap::new(),
            repair: None,
            terminate_first: true,
            freed: Some(FreedInstance {
                reservation: "cr-1".to_owned(),
                node_pool: "default".into(),
                owners: ["web".into()].into(),
            }),
        };
        snapshot.commands.push(ledger::Command {
            id: "first".to_owned(),
            reason: "Drifted".to_owned(),
            delete: vec![crate::lifecycle::target(&snapshot.node_claims[0])],
            state: CommandState::Done,
            committed_at: snapshot.now - SignedDuration::from_mins(minutes_ago),
            choice: Some(choice),
            ..ledger::Command::default()
        });
        snapshot.node_claims.clear();
        snapshot.nodes.clear();
        snapshot.pods = web;
        snapshot.pods.push(waiting("batch", "batch-1", 1_500));
        free(snapshot, 1);
    })
}

/// Makes this many instances of the reservation available.
fn free(snapshot: &mut Snapshot, capacity: u32) {
    let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
    let offering = Arc::make_mut(types)[0].offerings.last_mut().unwrap();
    offering.available = capacity > 0;
    let reservation = offering.reservation.as_mut().unwrap();
    reservation.capacity = capacity;
    reservation.is_full = capacity == 0;
}

/// Names of the pods on each launched node.
fn launched(cluster: &TestCluster) -> Vec<Vec<String>> {
    let plan = provision::provision(&cluster.0, Share::WHOLE);
    let launches = plan.actions.iter().filter_map(|planned| {
        let launch = planned.action.launch()?;
        let pods = launch.pods.iter();
        Some(pods.map(|pod| pod.key.name.clone()).collect())
    });
    launches.collect()
}

fn web(cpu: i64) -> Vec<Pod> {
    vec![waiting("web", "web-1", cpu)]
}

#[test]
fn pods_of_the_terminated_node_are_planned_first() {
    let cluster = left(5, web(1_000));
    assert_eq!(launched(&cluster), [["web-1"]]);
    let plan = provision::provision(&cluster.0, Share::WHOLE);
    let postponed: Vec<&str> = plan.postponed.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(postponed, ["batch-1"], "the next turn sees to it");
}

#[test]
fn instance_is_kept_while_its_node_is_terminating() {
    let cluster = left(5, Vec::new()).with(|snapshot| {
        let mut claim = fixtures::claim("n-claim", SETTLED);
        claim.deleted_at = Some(snapshot.now);
        snapshot.node_claims.push(claim);
    });
    assert!(launched(&cluster).is_empty());
}

#[test]
fn instance_is_kept_for_pods_the_scheduler_has_not_tried() {
    let mut web = web(1_000);
    web[0].unschedulable = false;
    assert!(launched(&left(5, web)).is_empty());
}

#[test]
fn other_instances_of_the_reservation_are_available_to_all_pods() {
    let mut web = web(1_000);
    web[0].unschedulable = false;
    let cluster = left(5, web).with(|snapshot| free(snapshot, 2));
    assert_eq!(launched(&cluster), [["batch-1"]]);
}

#[test]
fn instance_without_waiting_pods_is_available_to_all_pods() {
    assert_eq!(launched(&left(5, Vec::new())), [["batch-1"]]);
    let too_large = web(1_800);
    assert_eq!(launched(&left(59, too_large.clone())), [["web-1"]]);
    assert_eq!(
        launched(&left(61, web(1_000))),
        [["batch-1"]],
        "an hour is enough"
    );
}

#[test]
fn replacements_of_other_nodes_do_not_get_the_instance() {
    let drifted = |freed: bool| {
        let mut web = web(1_000);
        web[0].unschedulable = false;
        let cluster = left(5, web).node("m", "small", &[1_000]);
        cluster.with(|snapshot| {
            snapshot.pods.retain(|pod| pod.key.name != "batch-1");
            if !freed {
                snapshot.commands.clear();
            }
            drift(snapshot, "m-claim", 1);
        })
    };
    assert!(drifted(true).removes().is_empty());
    assert_eq!(drifted(false).removes(), ["m"]);
}

/// Another drifted node of the full reservation, while pods of the first one are pending.
fn another(budget_nodes: &str) -> TestCluster {
    let mut web = web(1_000);
    web[0].unschedulable = false;
    let cluster = left(5, web).node_of("m", "small", "reserved", &[1_000]);
    cluster.with(|snapshot| {
        on(snapshot, "TerminateFirstDrift");
        snapshot.pods.retain(|pod| pod.key.name != "batch-1");
        snapshot.node_pools[0].disruption.budgets = vec![budget(budget_nodes)];
        free(snapshot, 0);
        for labels in [
            &mut snapshot.nodes[0].labels,
            &mut snapshot.node_claims[0].labels,
        ] {
            let label = snapshot.settings.reservation_id_label.clone();
            labels.insert(label, "cr-1".to_owned());
        }
        drift(snapshot, "m-claim", 1);
    })
}

#[test]
fn node_terminated_first_counts_against_the_budget_until_its_pods_are_placed() {
    assert!(another("1").removes().is_empty());
    assert_eq!(another("2").removes(), ["m"]);
    let placed = another("1").with(|snapshot| {
        let pods = snapshot.pods.iter_mut();
        for pod in pods.filter(|pod| pod.key.name == "web-1") {
            pod.node_name = Some("elsewhere".into());
        }
    });
    assert_eq!(placed.removes(), ["m"]);
}

#[test]
fn node_with_terminating_instance_counts_against_the_budget() {
    let cluster = |terminates: bool| {
        another("1").with(|snapshot| {
            snapshot.pods.retain(|pod| pod.key.name != "web-1");
            let conditions = match terminates {
                true => [SETTLED, &["InstanceTerminating"]].concat(),
                false => SETTLED.to_vec(),
            };
            let mut claim = fixtures::claim("n-claim", &conditions);
            claim.deleted_at = Some(snapshot.now);
            if !terminates {
                snapshot.commands.clear();
            }
            snapshot.node_claims.push(claim);
        })
    };
    assert!(cluster(true).removes().is_empty());
    assert_eq!(
        cluster(false).removes(),
        ["m"],
        "unless a node was terminated first"
    );
}

#[test]
fn command_records_the_owners_of_pods_of_the_freed_instance() {
    let cluster = reserved().with(|snapshot| {
        on(snapshot, "TerminateFirstDrift");
        snapshot.pods[0].owner = waiting("web", "x", 0).owner.clone();
    });
    let command = disrupt(&cluster.0).commands.remove(0);
    let expected = FreedInstance {
        reservation: "cr-1".to_owned(),
        node_pool: "default".into(),
        owners: ["web".into()].into(),
    };
    assert_eq!(command.freed, Some(expected));
}
