use api::conditions::types::{INITIALIZED, LAUNCHED, REGISTERED};
use jiff::SignedDuration;
use model::{
    Action, Snapshot,
    node::{ConditionStatus, Node, Ready},
    node_claim::{Condition, NodeClaim},
    plan::{NodeClaimUpdate, NodeUpdate},
    taint::{Taint, TaintEffect},
};

use crate::{Decision, fixtures, lifecycle};

mod endings;
mod quiet_time;

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: String::new(),
        effect,
    }
}

fn node_updates(decision: &Decision) -> Vec<&NodeUpdate> {
    let mut updates = Vec::new();
    for planned in &decision.plan.actions {
        if let Action::UpdateNode(update) = &planned.action {
            updates.push(update);
        }
    }
    updates
}

fn claim_update(decision: &Decision) -> &NodeClaimUpdate {
    let updates: Vec<_> = decision
        .plan
        .actions
        .iter()
        .filter_map(|planned| {
            if let Action::UpdateNodeClaim(update) = &planned.action {
                Some(update)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(updates.len(), 1, "{decision:?}");
    updates[0]
}

fn condition<'a>(update: &'a NodeClaimUpdate, kind: &str) -> &'a Condition {
    update
        .conditions
        .iter()
        .find(|condition| condition.kind == kind)
        .unwrap_or_else(|| panic!("{kind} in {update:?}"))
}

fn world(claim: NodeClaim, nodes: Vec<Node>) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    snapshot.node_claims = vec![claim];
    snapshot.nodes = nodes;
    snapshot
}

#[test]
fn joining_node_is_registered_and_loses_only_the_unregistered_taint() {
    let mut claim = fixtures::claim("default-a", &[LAUNCHED]);
    claim.spec.startup_taints = vec![taint("cilium", TaintEffect::NoSchedule)];
    let mut node = fixtures::node("n-1", &claim);
    node.labels.clear();
    node.taints = vec![
        taint("karpenter.sh/unregistered", TaintEffect::NoExecute),
        taint("mine", TaintEffect::NoSchedule),
    ];
    let decision = lifecycle(&world(claim, vec![node]));
    let update = node_updates(&decision)[0];
    assert_eq!(update.set_labels["karpenter.sh/registered"], "true");
    let keys: Vec<_> = update
        .taints
        .as_ref()
        .unwrap()
        .iter()
        .map(|taint| taint.key.as_str())
        .collect();
    assert_eq!(keys, ["mine", "cilium"]);
    assert_eq!(update.owner.as_ref().unwrap().0.as_str(), "default-a");
    let written = claim_update(&decision);
    assert_eq!(condition(written, REGISTERED).status, ConditionStatus::True);
    assert_eq!(written.node_name.as_ref().unwrap().as_str(), "n-1");
}

#[test]
fn startup_taints_are_not_added_again_after_registration() {
    let mut claim = fixtures::claim("default-a", &[LAUNCHED, REGISTERED]);
    claim.spec.startup_taints = vec![taint("cilium", TaintEffect::NoSchedule)];
    let node = fixtures::node("n-1", &claim);
    let decision = lifecycle(&world(claim, vec![node]));
    assert!(
        node_updates(&decision)
            .iter()
            .all(|update| update.taints.is_none()),
        "{decision:?}"
    );
}

#[test]
fn registration_lost_to_a_conflict_is_repeated() {
    let claim = fixtures::claim("default-a", &[LAUNCHED, REGISTERED]);
    let mut node = fixtures::node("n-1", &claim);
    node.labels.remove("karpenter.sh/registered");
    let decision = lifecycle(&world(claim, vec![node]));
    assert_eq!(
        node_updates(&decision)[0].set_labels["karpenter.sh/registered"],
        "true"
    );
}

#[test]
fn two_nodes_with_one_provider_id_are_rejected() {
    let claim = fixtures::claim("default-a", &[LAUNCHED]);
    let nodes = vec![fixtures::node("n-1", &claim), fixtures::node("n-2", &claim)];
    let decision = lifecycle(&world(claim, nodes));
    let registered = condition(claim_update(&decision), REGISTERED);
    assert_eq!(
        (registered.status, registered.reason.as_str()),
        (ConditionStatus::False, "MultipleNodesFound")
    );
}

#[test]
fn initialization_condition_names_the_missing_requirement() {
    type Break = fn(&mut NodeClaim, &mut Node);
    let cases: [(&str, Break); 4] = [
        ("NodeNotReady", |_, node| node.ready = Ready::default()),
        ("StartupTaintsExist", |claim, node| {
            claim.spec.startup_taints = vec![taint("cilium", TaintEffect::NoSchedule)];
            node.taints = vec![taint("cilium", TaintEffect::NoSchedule)];
        }),
        ("KnownEphemeralTaintsExist", |_, node| {
            node.taints = vec![taint(
                "node.kubernetes.io/not-ready",
                TaintEffect::NoExecute,
            )];
        }),
        ("ResourceNotRegistered", |claim, _| {
            claim.spec.requests.set("nvidia.com/gpu", 1)
        }),
    ];
    for (reason, break_it) in cases {
        let mut claim = fixtures::claim("default-a", &[LAUNCHED, REGISTERED]);
        let mut node = fixtures::node("n-1", &claim);
        break_it(&mut claim, &mut node);
        let decision = lifecycle(&world(claim, vec![node]));
        assert_eq!(
            condition(claim_update(&decision), INITIALIZED).reason,
            reason
        );
    }
}

#[test]
fn healthy_registered_node_is_initialized_and_labelled() {
    let claim = fixtures::claim("default-a", &[LAUNCHED, REGISTERED]);
    let node = fixtures::node("n-1", &claim);
    let decision = lifecycle(&world(claim, vec![node]));
    assert_eq!(
        condition(claim_update(&decision), INITIALIZED).status,
        ConditionStatus::True
    );
    assert_eq!(
        condition(claim_update(&decision), "Ready").status,
        ConditionStatus::True
    );
    assert_eq!(
        node_updates(&decision)[0].set_labels["karpenter.sh/initialized"],
        "true"
    );
}

/// A node that joined within its timeout is registered even if no turn ran until later.
#[test]
fn joined_node_is_registered_after_its_timeout() {
    let claim = fixtures::claim("default-a", &[LAUNCHED]);
    let node = fixtures::node("n-1", &claim);
    let mut snapshot = world(claim, vec![node]);
    snapshot.now += SignedDuration::from_mins(16);
    let decision = lifecycle(&snapshot);
    let actions = decision.plan.actions.iter();
    let deletions = actions.filter(|planned| planned.action.deletion().is_some());
    assert_eq!(deletions.count(), 0, "{decision:?}");
    let registered = condition(claim_update(&decision), REGISTERED);
    assert_eq!(registered.status, ConditionStatus::True);
}

#[test]
fn launch_and_registration_time_out() {
    let cases = [
        (&[][..], 5, "launch_timeout"),
        (&[LAUNCHED][..], 15, "registration_timeout"),
    ];
    for (conditions, minutes, reason) in cases {
        let claim = fixtures::claim("default-a", conditions);
        let mut snapshot = world(claim, vec![]);
        let begun = snapshot.now;
        snapshot.now = begun + SignedDuration::from_mins(minutes) - SignedDuration::from_secs(1);
        let before = lifecycle(&snapshot);
        assert_eq!(before.due, Some(begun + SignedDuration::from_mins(minutes)));
        assert!(
            !before
                .plan
                .actions
                .iter()
                .any(|planned| matches!(planned.action, Action::DeleteNodeClaim(_)))
        );
        snapshot.now = begun + SignedDuration::from_mins(minutes);
        let after = lifecycle(&snapshot);
        assert!(
            matches!(after.plan.actions[0].action, Action::DeleteNodeClaim(_)),
            "{after:?}"
        );
        assert!(
            after.plan.actions[0].because.starts_with(reason),
            "{after:?}"
        );
    }
}

#[test]
fn node_claim_without_the_node_class_label_gets_it() {
    const CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
    let mut claim = fixtures::claim("default-a", &[LAUNCHED]);
    claim.spec.node_class.name = "default".into();
    let given = |claim: &NodeClaim| {
        let decision = lifecycle(&world(claim.clone(), vec![]));
        claim_update(&decision).set_labels.get(CLASS).cloned()
    };
    assert_eq!(given(&claim), Some("default".to_owned()));
    claim.labels.insert(CLASS.to_owned(), "other".to_owned());
    assert_eq!(given(&claim), None);
}

#[test]
fn node_claims_of_other_providers_are_ignored() {
    let mut claim = fixtures::claim("auto-a", &[LAUNCHED]);
    claim.spec.node_class.kind = "NodeClass".to_owned();
    claim.spec.node_class.group = "eks.amazonaws.com".to_owned();
    assert_eq!(lifecycle(&world(claim, vec![])), Decision::default());
}
