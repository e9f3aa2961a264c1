//! Drain bounds of repairs.

use api::names::annotation::TERMINATION_TIMESTAMP;
use model::ledger::{Choice, Command, CommandState, Method, Repair};

use super::*;
use crate::lifecycle::target;

/// A node whose NodeClaim a repair deleted, with this bound in minutes.
fn repaired(bound: Option<i64>) -> Snapshot {
    let mut snapshot = world(draining(), vec![pod("web")]);
    snapshot.commands = vec![Command {
        delete: vec![target(&snapshot.node_claims[0])],
        state: CommandState::Done,
        choice: Some(Choice {
            method: Method::Repair,
            validate_at: None,
            instance_types: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            evicts: std::collections::BTreeMap::new(),
            repair: Some(Repair {
                reason: String::new(),
                condition: "Ready".to_owned(),
                drain_bound: bound.map(SignedDuration::from_mins),
            }),
            terminate_first: false,
            freed: None,
        }),
        ..Command::default()
    }];
    snapshot
}

/// Written termination timestamp, in minutes from the deletion of the NodeClaim.
fn stamped(snapshot: &Snapshot) -> Option<i64> {
    let decision = terminate(snapshot, &InstanceStatuses::default());
    let written = decision.plan.actions.iter().find_map(|planned| {
        let Action::UpdateNodeClaim(update) = &planned.action else {
            return None;
        };
        update.set_annotations.get(TERMINATION_TIMESTAMP)
    });
    let at: jiff::Timestamp = written?.parse().ok()?;
    let deleted = snapshot.node_claims[0].deleted_at?;
    Some(at.duration_since(deleted).as_mins())
}

fn annotated(minutes: i64) -> Snapshot {
    let mut snapshot = repaired(Some(10));
    let claim = &mut snapshot.node_claims[0];
    let at = claim.deleted_at.unwrap() + SignedDuration::from_mins(minutes);
    claim
        .annotations
        .insert(TERMINATION_TIMESTAMP.to_owned(), format!("{at:.0}"));
    snapshot
}

#[test]
fn repair_bound_starts_at_the_deletion() {
    assert_eq!(stamped(&repaired(Some(10))), Some(10));
    assert_eq!(stamped(&repaired(Some(0))), Some(0));
    assert_eq!(stamped(&repaired(None)), None);
    let with_grace = |bound, grace: &str| {
        let mut snapshot = repaired(bound);
        snapshot.node_claims[0].spec.termination_grace_period = Some(grace.to_owned());
        stamped(&snapshot)
    };
    assert_eq!(with_grace(Some(10), "5m"), Some(5));
    assert_eq!(with_grace(Some(10), "1h"), Some(10));
    assert_eq!(with_grace(None, "1h"), Some(60));
}

#[test]
fn termination_timestamp_is_only_moved_forward() {
    assert_eq!(stamped(&annotated(4)), None);
    assert_eq!(stamped(&annotated(10)), None);
    assert_eq!(stamped(&annotated(60)), Some(10));
}

#[test]
fn rolled_back_or_unrelated_repair_sets_no_bound() {
    let mut back = repaired(Some(10));
    back.commands[0].state = CommandState::RolledBack;
    assert_eq!(stamped(&back), None);
    let mut other = repaired(Some(10));
    other.commands[0].delete[0].uid = "other".into();
    assert_eq!(stamped(&other), None);
}

#[test]
fn repair_bound_of_zero_deletes_pods_at_once() {
    let snapshot = repaired(Some(0));
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    let forced = decision.plan.actions.iter();
    let mut forced = forced.filter(|planned| matches!(&planned.action, Action::DeletePod { .. }));
    assert!(forced.next().is_some(), "{:?}", decision.plan.actions);
}
