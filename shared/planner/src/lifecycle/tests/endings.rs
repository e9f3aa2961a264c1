//! Reasons that end a NodeClaim, and their events.

use api::names::annotation::TERMINATION_TIMESTAMP;
use model::ledger::{IntentState, Pause, PauseLevel, PauseScope};

use super::*;

/// Reasons of the NodeClaims that are deleted.
fn deleted(decision: &Decision) -> Vec<&str> {
    let actions = decision.plan.actions.iter();
    let deletions = actions.filter(|planned| matches!(planned.action, Action::DeleteNodeClaim(_)));
    deletions.map(|planned| planned.because.as_str()).collect()
}

#[test]
fn expired_node_claim_is_deleted() {
    let mut claim = fixtures::claim("a", &[LAUNCHED, REGISTERED, INITIALIZED]);
    claim.spec.expire_after = Some("1h".to_owned());
    let mut snapshot = world(claim, vec![]);
    let due = snapshot.now + SignedDuration::from_hours(1);
    snapshot.now = due - SignedDuration::from_secs(1);
    let before = lifecycle(&snapshot);
    assert_eq!((deleted(&before), before.due), (vec![], Some(due)));
    snapshot.now = due;
    let after = lifecycle(&snapshot);
    assert_eq!(
        deleted(&after),
        ["expired: it is older than its expireAfter"]
    );
}

/// A NodeClaim without an instance, with an intent in this state.
fn launching(state: IntentState) -> Snapshot {
    let mut claim = fixtures::claim("a", &[]);
    claim.status.provider_id.clear();
    let mut snapshot = world(claim, vec![]);
    let mut intent = fixtures::intent("a");
    intent.state = state;
    snapshot.intents = vec![intent];
    snapshot
}

#[test]
fn node_claim_of_a_failed_launch_is_deleted_with_the_reason() {
    let why = "no capacity".to_owned();
    let failed = IntentState::Failed { why: why.clone() };
    for state in [failed, IntentState::Void { why }] {
        let decision = lifecycle(&launching(state));
        assert_eq!(
            deleted(&decision),
            ["insufficient_capacity: NodeClaim a was not launched: no capacity"]
        );
    }
    let under_way = lifecycle(&launching(IntentState::Intended));
    assert_eq!(deleted(&under_way), Vec::<&str>::new());
}

#[test]
fn late_launch_has_its_full_timeout() {
    let mut snapshot = launching(IntentState::Intended);
    let begun = snapshot.now + SignedDuration::from_mins(4);
    snapshot.intents[0].committed_at = begun;
    snapshot.now = begun + SignedDuration::from_mins(1);
    let decision = lifecycle(&snapshot);
    let due = begun + SignedDuration::from_mins(5);
    assert_eq!((deleted(&decision), decision.due), (vec![], Some(due)));
}

#[test]
fn launch_timeout_starts_at_the_end_of_a_pause() {
    let mut snapshot = launching(IntentState::Intended);
    let begun = snapshot.now;
    let until = begun + SignedDuration::from_hours(1);
    snapshot.pauses = vec![Pause {
        scope: PauseScope::Cluster,
        owner: "ann".to_owned(),
        level: PauseLevel::All,
        reason: "a release".to_owned(),
        since: begun,
        until,
    }];
    for now in [begun, until] {
        snapshot.now = now;
        let decision = lifecycle(&snapshot);
        assert_eq!(deleted(&decision), Vec::<&str>::new(), "at {now}");
        let launched = condition(claim_update(&decision), LAUNCHED).clone();
        let reported = match now == until {
            false => (ConditionStatus::False, "Paused", begun),
            true => (ConditionStatus::Unknown, "AwaitingReconciliation", until),
        };
        let said = (launched.status, &*launched.reason, launched.last_transition);
        assert_eq!(said, reported);
        snapshot.node_claims[0].status.conditions = vec![launched];
    }
    snapshot.now = until + SignedDuration::from_mins(5);
    assert_eq!(
        deleted(&lifecycle(&snapshot)),
        ["launch_timeout: its instance was not launched in time"]
    );
}

#[test]
fn node_that_becomes_unhealthy_during_its_drain_is_drained_by_force() {
    let ill = |since: i64| {
        let mut claim = fixtures::claim("a", &[LAUNCHED, REGISTERED, INITIALIZED]);
        claim.deleted_at = Some(fixtures::now());
        let mut node = fixtures::node("n-1", &claim);
        node.ready = Ready {
            status: ConditionStatus::Unknown,
            since: Some(fixtures::now() - SignedDuration::from_mins(since)),
        };
        let mut snapshot = world(claim, vec![node]);
        let gates = &mut snapshot.settings.feature_gates;
        gates.insert("NodeRepair".to_owned(), true);
        snapshot.settings.legacy_node_repair = true;
        lifecycle(&snapshot)
    };
    let decision = ill(30);
    let deadline = &claim_update(&decision).set_annotations[TERMINATION_TIMESTAMP];
    assert_eq!(deadline, "2026-01-01T00:00:00Z");
    assert_eq!(ill(29).plan.actions, [], "the node may recover by itself");
}
