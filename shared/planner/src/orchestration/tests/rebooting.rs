//! Commands that reboot a node in place.

use api::names::annotation::{REBOOT_GRACE_PERIOD, REBOOTS};
use jiff::SignedDuration;
use model::{
    Action, Snapshot,
    ledger::{CommandState, Method, Repair},
    node::{ConditionStatus, NodeCondition},
    plan::NodeClaimUpdate,
};

use super::judging::world;
use crate::{fixtures::now, orchestration::advance};

/// A node that a command reboots for a GPU error, with ten minutes for its drain.
fn rebooting() -> Snapshot {
    let mut snapshot = world(Method::Repair);
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert("RebootForRepair".to_owned(), true);
    let command = &mut snapshot.commands[0];
    command.reason = "Unhealthy".to_owned();
    command.reboot = command.delete.pop();
    command.replacements.clear();
    command.choice.as_mut().unwrap().repair = Some(Repair {
        condition: "AcceleratedHardwareReady".to_owned(),
        reason: "XID46".to_owned(),
        drain_bound: Some(SignedDuration::from_mins(10)),
    });
    let since = Some(now() - SignedDuration::from_mins(11));
    snapshot.nodes[0].created_at = since;
    snapshot.nodes[0].conditions.push(NodeCondition {
        kind: "AcceleratedHardwareReady".to_owned(),
        status: ConditionStatus::False,
        reason: "XID46".to_owned(),
        since,
    });
    snapshot
}

/// Next state, update of the NodeClaim, and problems.
fn next(snapshot: &Snapshot) -> (CommandState, Option<NodeClaimUpdate>, Vec<String>) {
    let all = advance(snapshot);
    let (_, one) = all.first().unwrap();
    let mut updates = one.actions.iter().map(|planned| {
        let Action::UpdateNodeClaim(update) = &planned.action else {
            panic!("{planned}")
        };
        update.clone()
    });
    (one.state, updates.next(), one.problems.clone())
}

#[test]
fn reboot_is_requested_on_the_node_claim_with_cause_and_bound() {
    let (state, update, _) = next(&rebooting());
    assert_eq!(state, CommandState::Replacing);
    let update = update.unwrap();
    assert_eq!(update.set_annotations[REBOOT_GRACE_PERIOD], "10m0s");
    assert_eq!(update.set_annotations[REBOOTS], format!("{:.0}", now()));
    let condition = |kind: &str| {
        let mut conditions = update.conditions.iter();
        conditions.find(|condition| condition.kind == kind).unwrap()
    };
    assert_eq!(condition("DisruptionReason").reason, "Unhealthy");
    let requested = condition("Rebooting");
    let reported = "rebooting for AcceleratedHardwareReady/XID46";
    assert_eq!(
        (requested.reason.as_str(), requested.message.as_str()),
        ("RebootRequested", reported)
    );
}

#[test]
fn grace_period_shortens_the_bound_of_a_reboot() {
    let bound = |own: Option<&str>, of_repair: bool| {
        let mut snapshot = rebooting();
        snapshot.node_claims[0].spec.termination_grace_period = own.map(str::to_owned);
        let choice = snapshot.commands[0].choice.as_mut().unwrap();
        let repair = choice.repair.as_mut().unwrap();
        repair.drain_bound = repair.drain_bound.filter(|_| of_repair);
        let (_, update, _) = next(&snapshot);
        let update = update.unwrap();
        update.set_annotations.get(REBOOT_GRACE_PERIOD).cloned()
    };
    assert_eq!(bound(Some("5m"), true).as_deref(), Some("5m0s"));
    assert_eq!(bound(Some("1h"), true).as_deref(), Some("10m0s"));
    assert_eq!(bound(Some("1h"), false).as_deref(), Some("1h0m0s"));
    assert_eq!(bound(None, false), None);
}

#[test]
fn command_is_done_after_the_request_or_deletion_of_its_node_claim() {
    let mut requested = rebooting();
    let (_, update, _) = next(&requested);
    let conditions = update.unwrap().conditions;
    requested.node_claims[0]
        .status
        .conditions
        .extend(conditions);
    assert_eq!(next(&requested), (CommandState::Done, None, Vec::new()));
    let mut going = rebooting();
    going.node_claims[0].deleted_at = Some(now());
    assert_eq!(next(&going), (CommandState::Done, None, Vec::new()));
}

#[test]
fn recovered_node_is_not_rebooted() {
    let mut well = rebooting();
    well.nodes[0].conditions.clear();
    let recovered = vec!["node a has recovered".to_owned()];
    assert_eq!(next(&well), (CommandState::RolledBack, None, recovered));
    let mut frozen = rebooting();
    frozen.now = now() + SignedDuration::from_mins(10);
    let reported = vec!["its NodeClaim could not be updated within 10 minutes".to_owned()];
    assert_eq!(next(&frozen), (CommandState::RolledBack, None, reported));
}
