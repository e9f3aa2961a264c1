//! Drains that a pause of everything suspends.

use api::conditions::types::DISRUPTION_REASON;
use model::ledger::{Choice, Command, CommandState, Method, Pause, PauseLevel, PauseScope};

use super::*;
use crate::lifecycle::target;

/// A node that is drained while everything is paused.
fn paused() -> Snapshot {
    let mut snapshot = world(draining(), vec![pod("web")]);
    let now = snapshot.now;
    snapshot.pauses = vec![Pause {
        scope: PauseScope::Cluster,
        owner: "ann".into(),
        level: PauseLevel::All,
        reason: "a release".into(),
        since: now,
        until: now + SignedDuration::from_hours(1),
    }];
    snapshot
}

fn chosen(snapshot: &mut Snapshot) {
    snapshot.commands = vec![Command {
        delete: vec![target(&snapshot.node_claims[0])],
        state: CommandState::Done,
        choice: Some(Choice {
            method: Method::SingleNode,
            validate_at: None,
            instance_types: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: std::collections::BTreeMap::new(),
            repair: None,
            terminate_first: false,
            freed: None,
        }),
        ..Command::default()
    }];
}

/// Records the deletion as an involuntary command.
fn recorded(snapshot: &mut Snapshot) {
    chosen(snapshot);
    snapshot.commands[0].choice = None;
}

fn marked(snapshot: &mut Snapshot) {
    let conditions = &mut snapshot.node_claims[0].status.conditions;
    let mut mark = conditions[0].clone();
    mark.kind = DISRUPTION_REASON.to_owned();
    conditions.push(mark);
}

/// Makes the NodeClaim expire at the time of its deletion.
fn expired(snapshot: &mut Snapshot) {
    let claim = &mut snapshot.node_claims[0];
    claim.spec.expire_after = Some("1h".to_owned());
    claim.deleted_at = claim
        .created_at
        .map(|at| at + SignedDuration::from_hours(1));
}

type Change = fn(&mut Snapshot);

fn is_held(changes: &[Change]) -> bool {
    let mut snapshot = paused();
    for change in changes {
        change(&mut snapshot);
    }
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    let held = evicted(&decision).is_empty();
    if held {
        assert_eq!(decision.due, Some(snapshot.pauses[0].until));
        assert_eq!(decision.plan.actions, []);
    }
    held
}

#[test]
fn voluntary_drain_waits_until_the_pause_ends() {
    assert!(is_held(&[chosen, marked]));
    assert!(!is_held(&[chosen, marked, |w| w.pauses.clear()]));
    assert!(!is_held(&[chosen]), "it was let go");
    assert!(!is_held(&[marked]), "no command is about it");
    assert!(!is_held(&[]), "users ordered it");
}

#[test]
fn drain_of_an_expired_node_waits_until_the_pause_ends() {
    assert!(is_held(&[recorded, expired]));
    assert!(!is_held(&[recorded]));
    assert!(!is_held(&[expired]));
}

#[test]
fn drain_of_an_interrupted_or_dead_node_continues() {
    let interrupted: Change = |snapshot| noticed(snapshot, 100, 20);
    assert!(!is_held(&[chosen, marked, interrupted]));
    assert!(is_held(&[chosen, marked, interrupted, |snapshot| {
        snapshot.notices[0].instance = "i-other".into();
    }]));
    assert!(!is_held(&[chosen, marked, |snapshot| {
        snapshot.nodes[0].ready.status = ConditionStatus::Unknown;
    }]));
}
