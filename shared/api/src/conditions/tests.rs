use super::*;
use types::{DRIFTED, INITIALIZED, LAUNCHED, READY, REGISTERED};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Metadata of an object created at second 100.
fn metadata(generation: i64) -> ObjectMeta {
    ObjectMeta {
        generation: Some(generation),
        creation_timestamp: Some(at(100)),
        ..ObjectMeta::default()
    }
}

/// Applies `change` to the conditions of a NodeClaim of this generation at this second.
fn change(
    conditions: &mut Vec<Condition>,
    generation: i64,
    second: i64,
    change: impl FnOnce(&mut ConditionSet<'_>),
) {
    let types = types::node_claim();
    change(&mut ConditionSet::new(
        &types,
        conditions,
        &metadata(generation),
        at(second),
    ));
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> &'a Condition {
    conditions
        .iter()
        .find(|condition| condition.r#type == kind)
        .unwrap()
}

#[test]
fn missing_dependent_conditions_are_unknown_since_creation() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |_| ());
    let kinds: Vec<_> = conditions
        .iter()
        .map(|condition| condition.r#type.as_str())
        .collect();
    assert_eq!(kinds, [INITIALIZED, LAUNCHED, READY, REGISTERED]);
    for condition in &conditions {
        assert_eq!(condition.status, ConditionStatus::Unknown);
        assert_eq!(condition.reason, "AwaitingReconciliation");
        assert_eq!(condition.message, "object is awaiting reconciliation");
        assert_eq!(condition.last_transition_time, at(100));
    }
}

#[test]
fn independent_condition_starts_now() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| {
        assert_eq!(set.status(DRIFTED), ConditionStatus::Unknown);
        set.set_true(DRIFTED);
    });
    let drifted = find(&conditions, DRIFTED);
    assert_eq!(
        (
            drifted.last_transition_time,
            drifted.reason.as_str(),
            drifted.message.as_str()
        ),
        (at(150), DRIFTED, "")
    );
}

#[test]
fn only_status_change_moves_transition_time() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| {
        set.set_unknown(LAUNCHED, "LaunchFailed", "no capacity")
    });
    change(&mut conditions, 1, 160, |set| {
        set.set_unknown(LAUNCHED, "LaunchFailed", "throttled")
    });
    let launched = find(&conditions, LAUNCHED);
    assert_eq!(
        (launched.last_transition_time, launched.message.as_str()),
        (at(100), "throttled")
    );

    change(&mut conditions, 1, 170, |set| set.set_true(LAUNCHED));
    change(&mut conditions, 1, 180, |set| set.set_true(LAUNCHED));
    assert_eq!(find(&conditions, LAUNCHED).last_transition_time, at(170));
}

#[test]
fn root_is_true_if_all_dependents_are() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| {
        set.set_true(LAUNCHED);
        set.set_true(REGISTERED);
        assert!(!set.is_ready());
        set.set_true(INITIALIZED);
        assert!(set.is_ready());
    });
    let ready = find(&conditions, READY);
    assert_eq!(
        (
            ready.reason.as_str(),
            ready.message.as_str(),
            ready.last_transition_time
        ),
        (READY, "", at(150))
    );
}

#[test]
fn root_is_false_if_a_dependent_is_and_names_latest_first() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| set.set_true(LAUNCHED));
    change(&mut conditions, 1, 160, |set| {
        set.set_false(REGISTERED, "MultipleNodesFound", "two nodes")
    });
    let ready = find(&conditions, READY);
    assert_eq!(ready.status, ConditionStatus::False);
    assert_eq!(ready.reason, "UnhealthyDependents");
    assert_eq!(ready.message, "Registered=False, Initialized=Unknown");
}

#[test]
fn root_is_unknown_while_dependents_are() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| set.set_true(LAUNCHED));
    let ready = find(&conditions, READY);
    assert_eq!(
        (&ready.status, ready.reason.as_str()),
        (&ConditionStatus::Unknown, "ReconcilingDependents")
    );
    assert_eq!(ready.message, "Initialized=Unknown, Registered=Unknown");
}

#[test]
fn dependents_of_older_generation_leave_root_unknown() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| {
        set.set_true(LAUNCHED);
        set.set_false(REGISTERED, "MultipleNodesFound", "");
        set.set_true(INITIALIZED);
    });
    change(&mut conditions, 2, 160, |set| set.renew(LAUNCHED));
    let ready = find(&conditions, READY);
    assert_eq!(ready.status, ConditionStatus::Unknown);
    assert_eq!(ready.message, "Initialized=True, Registered=False");

    change(&mut conditions, 2, 170, |set| {
        set.set_true(REGISTERED);
        set.renew(INITIALIZED);
        assert!(set.is_ready());
    });
    assert_eq!(find(&conditions, INITIALIZED).last_transition_time, at(150));
}

#[test]
fn any_write_during_deletion_renews_all_conditions() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| set.set_true(LAUNCHED));
    let deleting = ObjectMeta {
        deletion_timestamp: Some(at(160)),
        ..metadata(2)
    };
    ConditionSet::new(&types::node_claim(), &mut conditions, &deleting, at(170))
        .set_unknown("Drained", "Draining", "");
    assert!(
        conditions
            .iter()
            .all(|condition| condition.observed_generation == Some(2))
    );
}

#[test]
fn dependents_cannot_be_cleared_and_others_can() {
    let mut conditions = Vec::new();
    change(&mut conditions, 1, 150, |set| {
        set.set_true(DRIFTED);
        set.clear(DRIFTED).unwrap();
        assert!(set.get(DRIFTED).is_none());
        for kind in [READY, LAUNCHED] {
            let error = set.clear(kind).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
    });
}

#[test]
fn times_are_whole_seconds() {
    let mut conditions = Vec::new();
    let types = types::node_claim();
    let now = Timestamp::from_millisecond(150_900).unwrap();
    ConditionSet::new(&types, &mut conditions, &metadata(1), now).set_true(LAUNCHED);
    assert_eq!(find(&conditions, LAUNCHED).last_transition_time, at(150));
}

#[test]
fn condition_without_reason_deserializes() {
    let condition: Condition = serde_json::from_str(
        r#"{"type":"Launched","status":"Maybe","lastTransitionTime":"2026-01-01T00:00:00Z"}"#,
    )
    .unwrap();
    assert_eq!(condition.status, ConditionStatus::Other("Maybe".to_owned()));
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("", "")
    );
}
