//! Instances that a NodeClaim may terminate, and conditions for removing its finalizer.

use model::Uid;

use super::*;

/// A NodeClaim that is being deleted, without a Node.
fn leaving(name: &str) -> NodeClaim {
    let mut claim = fixtures::claim(name, ALL);
    claim.deleted_at = Some(fixtures::now());
    claim
}

fn only(claims: Vec<NodeClaim>) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    snapshot.node_claims = claims;
    snapshot
}

#[test]
fn instance_of_another_owner_is_not_terminated() {
    let snapshot = only(vec![leaving("a")]);
    assert!(terminates(&terminate(
        &snapshot,
        &InstanceStatuses::default()
    )));
    let strange = InstanceStatuses {
        mismatched: ["a".into()].into(),
        ..InstanceStatuses::default()
    };
    let decision = terminate(&snapshot, &strange);
    assert!(
        !terminates(&decision) && removes_claim_finalizer(&decision),
        "{decision:?}"
    );
}

#[test]
fn only_the_older_of_two_node_claims_terminates_their_instance() {
    let of_pair = |leaves: &str| {
        let mut older = fixtures::claim("b", ALL);
        let mut younger = fixtures::claim("a", ALL);
        younger.status.provider_id = older.status.provider_id.clone();
        younger.created_at = Some(fixtures::now() + SignedDuration::from_secs(1));
        let claim = if leaves == "older" {
            &mut older
        } else {
            &mut younger
        };
        claim.deleted_at = Some(fixtures::now());
        terminate(&only(vec![older, younger]), &InstanceStatuses::default())
    };
    assert!(terminates(&of_pair("older")));
    let younger = of_pair("younger");
    assert!(
        !terminates(&younger) && removes_claim_finalizer(&younger),
        "{younger:?}"
    );
}

#[test]
fn node_claim_is_kept_while_its_launch_is_in_flight() {
    let mut claim = leaving("a");
    claim.status.provider_id.clear();
    let mut snapshot = only(vec![claim]);
    snapshot.intents = vec![fixtures::intent("a")];
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    assert_eq!(decision.plan.actions, []);
    let soon = fixtures::now() + SignedDuration::from_secs(5);
    assert_eq!(decision.due, Some(soon));
}

#[test]
fn objects_held_by_other_finalizers_are_ignored() {
    let (mut claim, mut node) = draining();
    for finalizers in [&mut claim.finalizers, &mut node.finalizers] {
        *finalizers = vec!["example.com/backup".to_owned()];
    }
    let decision = terminate(
        &world((claim, node.clone()), Vec::new()),
        &InstanceStatuses::default(),
    );
    assert_eq!(decision, Decision::default());
    let (held, _) = draining();
    let decision = terminate(
        &world((held, node), vec![pod("web")]),
        &InstanceStatuses::default(),
    );
    assert!(
        terminates(&decision) && evicted(&decision).is_empty(),
        "its Node is out of its hands: {decision:?}"
    );
}

#[test]
fn reason_names_what_an_object_waited_for() {
    let because = |decision: &Decision| -> Vec<String> {
        let actions = decision.plan.actions.iter();
        let because = actions.map(|planned| planned.because.clone());
        because
            .filter(|said| said.contains("is released"))
            .collect()
    };
    let mut unlaunched = leaving("a");
    unlaunched.status.provider_id.clear();
    let never = terminate(&only(vec![unlaunched]), &InstanceStatuses::default());
    assert_eq!(
        because(&never),
        ["NodeClaim a is released: no instance was launched for it"]
    );
    let gone = gone("aws:///us-east-1a/i-a");
    let ended = terminate(&only(vec![leaving("a")]), &gone);
    assert_eq!(
        because(&ended),
        ["NodeClaim a is released: its instance is gone"]
    );
}

#[test]
fn node_of_a_terminated_instance_is_marked_drained() {
    let gone = gone("aws:///us-east-1a/i-default-a");
    for (ready, because, on_record) in [
        (
            ConditionStatus::True,
            "node n-1 is released: it is drained and its instance is gone",
            true,
        ),
        (
            ConditionStatus::Unknown,
            "node n-1 is released: its instance is gone",
            false,
        ),
    ] {
        let (claim, mut node) = draining();
        node.ready.status = ready;
        let decision = terminate(&world((claim, node), Vec::new()), &gone);
        let actions = &decision.plan.actions;
        assert_eq!(actions.last().unwrap().because, because);
        let drained = actions.iter().any(|planned| {
            matches!(&planned.action, Action::UpdateNodeClaim(update)
                if update.conditions.iter().any(|condition| condition.kind == DRAINED && condition.status == ConditionStatus::True))
        });
        assert_eq!(drained, on_record, "{decision:?}");
    }
}

#[test]
fn termination_timestamp_is_written_once() {
    const TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
    let written = |claim: &NodeClaim| {
        let decision = terminate(&only(vec![claim.clone()]), &InstanceStatuses::default());
        let reported = decision.notes.len();
        let mut updates = decision.plan.actions.into_iter().filter_map(|planned| {
            let Action::UpdateNodeClaim(update) = planned.action else {
                return None;
            };
            let at = update.set_annotations.get(TIMESTAMP)?.clone();
            Some((update.name, update.uid, at))
        });
        (updates.next(), reported)
    };
    let mut claim = leaving("a");
    assert_eq!(written(&claim), (None, 0));
    claim.spec.termination_grace_period = Some("1h30m".to_owned());
    let at = "2026-01-01T01:30:00Z".to_owned();
    let expected = ("a".into(), Uid::from("uid-a"), at.clone());
    assert_eq!(written(&claim), (Some(expected), 1));
    claim.annotations.insert(TIMESTAMP.to_owned(), at);
    assert_eq!(written(&claim), (None, 0));
}

#[test]
fn refused_termination_is_retried_later() {
    let mut claim = fixtures::claim("a", &[]);
    claim.deleted_at = Some(fixtures::now());
    let again = fixtures::now() + SignedDuration::from_mins(7);
    let refused = InstanceStatuses {
        refused: [(claim.status.provider_id.clone(), again)].into(),
        ..InstanceStatuses::default()
    };
    let decision = terminate(&only(vec![claim]), &refused);
    assert!(!terminates(&decision), "{decision:?}");
    assert_eq!(decision.due, Some(again));
}

#[test]
fn shutting_down_instance_is_not_terminated_again() {
    let mut claim = fixtures::claim("a", &[]);
    claim.deleted_at = Some(fixtures::now());
    let ending = InstanceStatuses {
        ending: [claim.status.provider_id.clone()].into(),
        ..InstanceStatuses::default()
    };
    let decision = terminate(&only(vec![claim]), &ending);
    assert!(!terminates(&decision), "{decision:?}");
    assert!(decision.due.is_some(), "a check for its end is due");
}
