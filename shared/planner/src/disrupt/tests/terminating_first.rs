//! Nodes whose reservation or static NodePool is full, so that no replacement can be launched first.

use model::{
    catalog::Reservation,
    ledger::IntentState,
    node::{ConditionStatus, Ready},
};

use super::*;

const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
const AT_LIMIT: &str = "static NodePool is at its node limit and cannot stage a replacement";

pub(super) fn on(snapshot: &mut Snapshot, gate: &str) {
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert(gate.to_owned(), true);
}

/// A drifted small node in a full reservation of small ones. Its NodePool launches into reservations only.
pub(super) fn reserved() -> TestCluster {
    TestCluster::new()
        .node_of("n", "small", "reserved", &[1_000])
        .with(|snapshot| {
            snapshot.settings.reservation_id_label = RESERVATION_ID.to_owned();
            snapshot.node_pools[0].template.requirements =
                vec![one_of(CAPACITY_TYPE, &["reserved"])];
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            for kind in Arc::make_mut(types).iter_mut() {
                let all = one_of(CAPACITY_TYPE, &["on-demand", "reserved", "spot"]);
                let all = Requirement::new(CAPACITY_TYPE, Operator::In, all.values);
                kind.requirements.0.insert(CAPACITY_TYPE.to_owned(), all);
            }
            let small = &mut Arc::make_mut(types)[0];
            let mut offering = small.offerings[0].clone();
            offering.capacity_type = CapacityType::Reserved;
            offering.price = NanosPerHour(10);
            offering.available = false;
            offering.reservation = Some(Reservation {
                id: "cr-1".to_owned(),
                capacity: 0,
                is_full: true,
            });
            small.offerings.push(offering);
            for labels in [
                &mut snapshot.nodes[0].labels,
                &mut snapshot.node_claims[0].labels,
            ] {
                labels.insert(RESERVATION_ID.to_owned(), "cr-1".to_owned());
            }
            drift(snapshot, "n-claim", 1);
        })
}

fn going_first(cluster: &TestCluster) -> Vec<(Reason, Vec<String>)> {
    let commands = disrupt(&cluster.0).commands.into_iter();
    let first =
        commands.filter(|command| command.terminate_first && command.replacements.is_empty());
    first
        .map(|command| (command.reason, command.nodes))
        .collect()
}

#[test]
fn node_in_a_full_reservation_is_terminated_first_with_the_gate() {
    let cluster = reserved();
    assert!(cluster.removes().is_empty());
    assert!(
        cluster
            .blocked()
            .iter()
            .any(|(_, reported)| reported.starts_with("Not all pods would schedule"))
    );
    let on_drift = reserved().with(|snapshot| on(snapshot, "TerminateFirstDrift"));
    assert_eq!(
        going_first(&on_drift),
        [(Reason::Drifted, vec!["n".to_owned()])]
    );
    let command = disrupt(&on_drift.0).commands.remove(0);
    assert_eq!(
        command.because,
        "Drifted: n of $0.0000/h, before its replacement of $0.0000/h"
    );
    assert_eq!(command.savings, NanosPerHour(0));
    let on_repair = reserved().with(|snapshot| on(snapshot, "TerminateFirstRepair"));
    assert!(
        on_repair.removes().is_empty(),
        "each gate is for its own reason"
    );
}

#[test]
fn otherwise_unavailable_reservation_is_not_credited() {
    let cluster = reserved().with(|snapshot| {
        on(snapshot, "TerminateFirstDrift");
        let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
        let offering = Arc::make_mut(types)[0].offerings.last_mut().unwrap();
        offering.reservation.as_mut().unwrap().is_full = false;
    });
    assert!(cluster.removes().is_empty());
}

#[test]
fn replacement_is_launched_first_if_possible() {
    let cluster = reserved().with(|snapshot| {
        on(snapshot, "TerminateFirstDrift");
        snapshot.node_pools[0].template.requirements =
            vec![one_of(CAPACITY_TYPE, &["reserved", "on-demand"])];
    });
    let command = disrupt(&cluster.0).commands.remove(0);
    let replacements = command.replacements.iter();
    let capacity_types = replacements.map(|launch| launch.cheapest.capacity_type);
    assert_eq!(capacity_types.collect::<Vec<_>>(), [CapacityType::OnDemand]);
    assert!(going_first(&cluster).is_empty());
}

#[test]
fn node_without_reservation_is_never_terminated_first() {
    let cluster = reserved().with(|snapshot| {
        on(snapshot, "TerminateFirstDrift");
        for labels in [
            &mut snapshot.nodes[0].labels,
            &mut snapshot.node_claims[0].labels,
        ] {
            labels.insert(CAPACITY_TYPE.to_owned(), "on-demand".to_owned());
        }
    });
    assert!(cluster.removes().is_empty());
    let blocked = cluster.blocked();
    let unplaced = |(node, reported): &(String, String)| {
        node == "n" && reported.starts_with("Not all pods would schedule")
    };
    assert!(blocked.iter().any(unplaced), "{blocked:?}");
}

#[test]
fn unhealthy_node_in_a_full_reservation_is_terminated_first() {
    let cluster = reserved().with(|snapshot| {
        on(snapshot, "NodeRepair");
        on(snapshot, "TerminateFirstRepair");
        snapshot.node_claims[0]
            .status
            .conditions
            .retain(|condition| condition.kind != DRIFTED);
        let since = snapshot.now - SignedDuration::from_mins(31);
        snapshot.nodes[0].created_at = Some(since);
        snapshot.nodes[0].ready = Ready {
            status: ConditionStatus::Unknown,
            since: Some(since),
        };
    });
    assert_eq!(
        going_first(&cluster),
        [(Reason::Unhealthy, vec!["n".to_owned()])]
    );
    let repair = disrupt(&cluster.0).commands.remove(0).repair.unwrap();
    assert_eq!(repair.drain_bound, Some(SignedDuration::ZERO));
}

/// Two drifted nodes of a static NodePool with a limit of two.
fn at_limit() -> TestCluster {
    TestCluster::new()
        .node("a", "small", &[1_000])
        .node("b", "small", &[])
        .with(|snapshot| {
            snapshot.node_pools[0].replicas = Some(2);
            snapshot.node_pools[0].limits = Resources::from([("nodes", 2)]);
            snapshot.node_pools[0].disruption.budgets = vec![budget("2")];
            drift(snapshot, "a-claim", 1);
            drift(snapshot, "b-claim", 1);
        })
}

fn messages_about_a(cluster: &TestCluster) -> Vec<String> {
    let blocked = cluster.blocked().into_iter();
    let of_a = blocked.filter(|(node, _)| node == "a");
    of_a.map(|(_, message)| message).collect()
}

#[test]
fn static_nodes_at_the_limit_are_terminated_first_within_budgets() {
    assert!(at_limit().removes().is_empty());
    assert_eq!(messages_about_a(&at_limit()), [AT_LIMIT]);
    let gated = || at_limit().with(|snapshot| on(snapshot, "TerminateFirstDrift"));
    let node = |name: &str| (Reason::Drifted, vec![name.to_owned()]);
    assert_eq!(going_first(&gated()), [node("a"), node("b")]);
    let command = disrupt(&gated().0).commands.remove(0);
    assert_eq!(
        command.because,
        "Drifted: a of $0.1000/h, before its replacement of $0.1000/h"
    );
    assert_eq!(command.savings, NanosPerHour(0));
    let one = gated().with(|it| it.node_pools[0].disruption.budgets = vec![budget("1")]);
    assert_eq!(going_first(&one), [node("a")]);
    let roomy = gated().with(|it| it.node_pools[0].limits = Resources::from([("nodes", 3)]));
    assert!(going_first(&roomy).is_empty());
    assert_eq!(roomy.commands()[0].2.len(), 1);
}

/// Two drifted nodes of a static NodePool with three replicas and a limit of three. A budget allows one missing node.
fn lacking(change: fn(&mut Snapshot)) -> TestCluster {
    at_limit().with(|snapshot| {
        on(snapshot, "TerminateFirstDrift");
        snapshot.node_pools[0].replicas = Some(3);
        snapshot.node_pools[0].limits = Resources::from([("nodes", 3)]);
        snapshot.node_pools[0].disruption.budgets = vec![budget("1")];
        change(snapshot);
    })
}

/// Adds a third NodeClaim, whose node has not joined.
fn coming(snapshot: &mut Snapshot) {
    let mut claim = fixtures::claim("c", &["Launched"]);
    claim.labels.clone_from(&snapshot.node_claims[0].labels);
    snapshot.node_claims.push(claim);
}

#[test]
fn missing_static_nodes_count_against_terminating_first() {
    let lacks = "NodePool default is missing as many nodes as its budgets allow to be disrupted";
    let of_coming = lacking(coming);
    assert!(of_coming.removes().is_empty());
    assert_eq!(messages_about_a(&of_coming), [lacks]);
    let of_gone = lacking(|snapshot| {
        coming(snapshot);
        let gone = snapshot.node_claims.last_mut().unwrap();
        gone.deleted_at = Some(snapshot.now);
    });
    assert!(of_gone.removes().is_empty());
    assert_eq!(messages_about_a(&of_gone), [lacks]);
    let with_two = lacking(|snapshot| {
        coming(snapshot);
        snapshot.node_pools[0].disruption.budgets = vec![budget("2")];
    });
    assert_eq!(with_two.removes(), ["a"], "one more may be missing");
    let by_share = lacking(|snapshot| {
        coming(snapshot);
        snapshot.node_pools[0].disruption.budgets = vec![budget("34%")];
    });
    assert_eq!(by_share.removes(), ["a"], "a share of all three");
}

#[test]
fn replicas_beyond_the_limit_are_not_missing() {
    let cluster = lacking(|snapshot| {
        snapshot.node_pools[0].limits = Resources::from([("nodes", 2)]);
    });
    assert_eq!(
        going_first(&cluster),
        [(Reason::Drifted, vec!["a".to_owned()])]
    );
}

#[test]
fn missing_static_nodes_do_not_delay_regular_replacement() {
    let cluster = lacking(|snapshot| {
        coming(snapshot);
        snapshot.node_pools[0].limits = Resources::from([("nodes", 4)]);
    });
    assert_eq!(cluster.commands()[0].2.len(), 1);
    assert!(going_first(&cluster).is_empty());
}

#[test]
fn repair_of_a_static_node_waits_for_nodes_terminated_first() {
    let unhealthy = |in_service: bool| {
        TestCluster::new()
            .node("a", "small", &[])
            .node("b", "small", &[])
            .with(|snapshot| {
                on(snapshot, "NodeRepair");
                on(snapshot, "TerminateFirstRepair");
                let replicas = if in_service { 2 } else { 3 };
                snapshot.node_pools[0].replicas = Some(replicas);
                snapshot.node_pools[0].limits = Resources::from([("nodes", replicas)]);
                snapshot.node_pools[0].disruption.budgets = vec![budget("1")];
                if !in_service {
                    coming(snapshot);
                }
                let since = snapshot.now - SignedDuration::from_mins(31);
                snapshot.nodes[0].created_at = Some(since);
                snapshot.nodes[0].ready = Ready {
                    status: ConditionStatus::False,
                    since: Some(since),
                };
            })
    };
    assert_eq!(
        going_first(&unhealthy(true)),
        [(Reason::Unhealthy, vec!["a".to_owned()])]
    );
    assert!(unhealthy(false).removes().is_empty());
}

#[test]
fn launches_in_flight_count_for_the_limit_until_they_fail() {
    let coming = |state: fn() -> IntentState| {
        at_limit().with(|snapshot| {
            snapshot.node_pools[0].replicas = Some(3);
            snapshot.node_pools[0].limits = Resources::from([("nodes", 3)]);
            let mut intent = fixtures::intent("coming");
            intent.state = state();
            snapshot.intents.push(intent);
        })
    };
    let under_way = coming(|| IntentState::Intended);
    assert!(under_way.removes().is_empty());
    assert_eq!(messages_about_a(&under_way), [AT_LIMIT]);
    let ended = coming(|| IntentState::Void { why: String::new() });
    assert_eq!(ended.removes(), ["a"]);
}

#[test]
fn static_nodes_without_launchable_capacity_are_kept() {
    let gated = |change: fn(&mut Snapshot)| {
        let cluster = at_limit().with(|snapshot| on(snapshot, "TerminateFirstDrift"));
        cluster.with(change)
    };
    let unready = gated(|it| it.node_pools[0].not_ready = Some("NodeClassNotReady".to_owned()));
    assert!(unready.removes().is_empty());
    assert_eq!(
        messages_about_a(&unready),
        ["NodePool default is not ready to provision a replacement"]
    );
    let sold_out = gated(|it| {
        let types = it.instance_types.get_mut(&"default".into()).unwrap();
        for kind in Arc::make_mut(types).iter_mut() {
            kind.offerings[0].available = false;
        }
    });
    assert!(sold_out.removes().is_empty(), "spot is not asked for");
    assert_eq!(
        messages_about_a(&sold_out),
        ["no launchable capacity to refill this node"]
    );
}
