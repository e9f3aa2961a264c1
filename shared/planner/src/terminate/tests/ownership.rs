//! Which instance a NodeClaim may end, and what it waits for before it goes.

use model::Uid;

use super::*;

/// A NodeClaim that is being deleted, without a Node.
fn leaving(name: &str) -> NodeClaim {
    let mut claim = test_world::claim(name, ALL);
    claim.deleted_at = Some(test_world::now());
    claim
}

fn only(claims: Vec<NodeClaim>) -> Snapshot {
    let mut snapshot = test_world::snapshot();
    snapshot.node_claims = claims;
    snapshot
}

#[test]
fn an_instance_that_is_anothers_is_not_ended_for_a_nodeclaim() {
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
fn of_two_nodeclaims_with_one_instance_only_the_older_one_ends_it() {
    let of_pair = |leaves: &str| {
        let mut older = test_world::claim("b", ALL);
        let mut younger = test_world::claim("a", ALL);
        younger.status.provider_id = older.status.provider_id.clone();
        younger.created_at = Some(test_world::now() + SignedDuration::from_secs(1));
        let claim = if leaves == "older" {
            &mut older
        } else {
            &mut younger
        };
        claim.deleted_at = Some(test_world::now());
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
fn a_nodeclaim_stays_while_a_launch_for_it_is_under_way() {
    let mut claim = leaving("a");
    claim.status.provider_id.clear();
    let mut snapshot = only(vec![claim]);
    snapshot.intents = vec![test_world::intent("a")];
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    assert_eq!(decision.plan.actions, []);
    let soon = test_world::now() + SignedDuration::from_secs(5);
    assert_eq!(decision.due, Some(soon));
}

#[test]
fn what_only_others_hold_is_left_to_them() {
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
fn it_is_said_what_an_object_had_to_wait_for() {
    let because = |decision: &Decision| -> Vec<String> {
        let actions = decision.plan.actions.iter();
        let because = actions.map(|planned| planned.because.clone());
        because.filter(|said| said.contains("can go")).collect()
    };
    let mut unlaunched = leaving("a");
    unlaunched.status.provider_id.clear();
    let never = terminate(&only(vec![unlaunched]), &InstanceStatuses::default());
    assert_eq!(
        because(&never),
        ["NodeClaim a can go: nothing was launched for it"]
    );
    let gone = gone("aws:///us-east-1a/i-a");
    let ended = terminate(&only(vec![leaving("a")]), &gone);
    assert_eq!(
        because(&ended),
        ["NodeClaim a can go: its instance is gone"]
    );
}

#[test]
fn a_node_whose_instance_is_gone_is_drained_on_record_unless_it_was_not_looked_at() {
    let gone = gone("aws:///us-east-1a/i-default-a");
    for (ready, because, on_record) in [
        (
            ConditionStatus::True,
            "node n-1 can go: it is drained and its instance is gone",
            true,
        ),
        (
            ConditionStatus::Unknown,
            "node n-1 can go: its instance is gone",
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
                if update.conditions.iter().any(|one| one.kind == DRAINED && one.status == ConditionStatus::True))
        });
        assert_eq!(drained, on_record, "{decision:?}");
    }
}

#[test]
fn a_termination_grace_period_becomes_a_deadline_on_the_nodeclaim_once() {
    const TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
    let written = |claim: &NodeClaim| {
        let decision = terminate(&only(vec![claim.clone()]), &InstanceStatuses::default());
        let told = decision.notes.len();
        let mut updates = decision.plan.actions.into_iter().filter_map(|planned| {
            let Action::UpdateNodeClaim(update) = planned.action else {
                return None;
            };
            let at = update.set_annotations.get(TIMESTAMP)?.clone();
            Some((update.name, update.uid, at))
        });
        (updates.next(), told)
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
fn instance_that_ec2_refused_a_short_while_ago_is_asked_for_when_its_time_has_come() {
    let mut claim = test_world::claim("a", &[]);
    claim.deleted_at = Some(test_world::now());
    let again = test_world::now() + SignedDuration::from_mins(7);
    let refused = InstanceStatuses {
        refused: [(claim.status.provider_id.clone(), again)].into(),
        ..InstanceStatuses::default()
    };
    let decision = terminate(&only(vec![claim]), &refused);
    assert!(!terminates(&decision), "{decision:?}");
    assert_eq!(decision.due, Some(again));
}

#[test]
fn instance_that_is_shutting_down_is_waited_for_and_not_asked_for_again() {
    let mut claim = test_world::claim("a", &[]);
    claim.deleted_at = Some(test_world::now());
    let ending = InstanceStatuses {
        ending: [claim.status.provider_id.clone()].into(),
        ..InstanceStatuses::default()
    };
    let decision = terminate(&only(vec![claim]), &ending);
    assert!(!terminates(&decision), "{decision:?}");
    assert!(decision.due.is_some(), "its end is looked for");
}
