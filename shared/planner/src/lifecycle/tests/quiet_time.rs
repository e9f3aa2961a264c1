//! The condition Consolidatable and pod events.

use api::conditions::types::CONSOLIDATABLE;
use jiff::Timestamp;
use model::pod::{Deletion, Owner, Pod, PodPhase};

use super::*;

fn quiet_for(seconds: i64) -> (Snapshot, Timestamp) {
    let claim = fixtures::claim("default-a", &[LAUNCHED, REGISTERED, INITIALIZED]);
    let node = fixtures::node("n-1", &claim);
    let mut snapshot = world(claim, vec![node]);
    snapshot.node_pools = vec![fixtures::pool("default", 60)];
    let initialized = snapshot.now;
    snapshot.now = initialized + SignedDuration::from_secs(seconds);
    (snapshot, initialized)
}

#[test]
fn node_becomes_consolidatable_after_consolidate_after() {
    let (early, initialized) = quiet_for(59);
    let decision = lifecycle(&early);
    assert_eq!(
        decision.due,
        Some(initialized + SignedDuration::from_secs(60))
    );
    let (due, _) = quiet_for(60);
    assert_eq!(
        condition(claim_update(&lifecycle(&due)), CONSOLIDATABLE).status,
        ConditionStatus::True
    );
}

#[test]
fn node_without_consolidate_after_is_consolidatable_once_initialized() {
    let (mut snapshot, _) = quiet_for(0);
    snapshot.node_pools = vec![fixtures::pool("default", 0)];
    let decision = lifecycle(&snapshot);
    let consolidatable = condition(claim_update(&decision), CONSOLIDATABLE);
    assert_eq!(consolidatable.status, ConditionStatus::True);
}

#[test]
fn added_and_removed_pods_restart_consolidate_after() {
    let (mut snapshot, _) = quiet_for(3_600);
    let first = lifecycle(&snapshot);
    let written = claim_update(&first);
    assert_eq!(written.last_pod_event, None, "a first look is no event");
    snapshot.node_claims[0]
        .annotations
        .extend(written.set_annotations.clone());
    snapshot.pods = vec![Pod {
        uid: "u-1".into(),
        node_name: Some("n-1".into()),
        ..Pod::default()
    }];
    let second = lifecycle(&snapshot);
    assert_eq!(claim_update(&second).last_pod_event, Some(snapshot.now));
    assert!(
        claim_update(&second)
            .conditions
            .iter()
            .all(|condition| condition.kind != CONSOLIDATABLE)
    );
}

/// DaemonSet pods and terminal or deleted ones say nothing about the use of a node.
#[test]
fn daemon_set_and_terminal_pods_do_not_restart_consolidate_after() {
    let (mut snapshot, _) = quiet_for(3_600);
    snapshot.pods = vec![fixtures::pod("web", "n-1")];
    let first = lifecycle(&snapshot);
    let written = claim_update(&first).set_annotations.clone();
    snapshot.node_claims[0].annotations.extend(written);
    let mut daemon = fixtures::pod("agent", "n-1");
    daemon.owner = Some(Owner {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        name: "agent".into(),
        uid: "d".into(),
    });
    let finished = Pod {
        phase: PodPhase::Succeeded,
        ..fixtures::pod("job", "n-1")
    };
    let leaving = Pod {
        deletion: Some(Deletion {
            at: snapshot.now,
            grace_seconds: 30,
        }),
        ..fixtures::pod("old", "n-1")
    };
    for other in [daemon, finished, leaving] {
        let mut snapshot = snapshot.clone();
        snapshot.pods.push(other.clone());
        let decision = lifecycle(&snapshot);
        assert_eq!(claim_update(&decision).last_pod_event, None, "{other:?}");
    }
}
