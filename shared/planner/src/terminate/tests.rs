use api::conditions::types::{
    DRAINED, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED, VOLUMES_DETACHED,
};
use jiff::SignedDuration;
use model::{
    Action, Snapshot,
    node::{ConditionStatus, Node, Ready},
    node_claim::{Condition, NodeClaim},
    pod::{Owner, Pod},
    volume::Attachment,
};

use crate::{Decision, InstanceStatuses, fixtures, terminate};

mod hurry;
mod ownership;
mod paused;
mod repaired;
mod strays;
mod unmanaged;

const ALL: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED];

/// A NodeClaim and its Node, both being deleted, with the drain begun a minute ago.
fn draining() -> (NodeClaim, Node) {
    let mut claim = fixtures::claim("default-a", ALL);
    claim.deleted_at = Some(fixtures::now());
    claim.status.conditions.push(Condition {
        kind: DRAINED.to_owned(),
        status: ConditionStatus::Unknown,
        reason: "Draining".to_owned(),
        message: String::new(),
        last_transition: fixtures::now() - SignedDuration::from_mins(1),
        observed_generation: Some(1),
    });
    let mut node = fixtures::node("n-1", &claim);
    node.deleted_at = Some(fixtures::now());
    (claim, node)
}

fn world((claim, node): (NodeClaim, Node), pods: Vec<Pod>) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    snapshot.node_claims = vec![claim];
    snapshot.nodes = vec![node];
    snapshot.pods = pods;
    snapshot
}

fn pod(name: &str) -> Pod {
    let pod = Pod {
        key: model::PodKey::new("default", name),
        uid: format!("uid-{name}").into(),
        node_name: Some("n-1".into()),
        ..Pod::default()
    };
    with_grace(pod, 30)
}

fn daemon(name: &str) -> Pod {
    let owner = Owner {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        name: "agent".into(),
        uid: "d".into(),
    };
    let mut pod = pod(name);
    pod.owner = Some(owner);
    pod
}

fn gone(provider_id: &str) -> InstanceStatuses {
    InstanceStatuses {
        instances: [provider_id.to_owned()].into(),
        ..InstanceStatuses::default()
    }
}

fn evicted(decision: &Decision) -> Vec<String> {
    let mut names = Vec::new();
    for planned in &decision.plan.actions {
        if let Action::Evict { pod, .. } = &planned.action {
            names.push(pod.name.clone());
        }
    }
    names
}

fn terminates(decision: &Decision) -> bool {
    decision
        .plan
        .actions
        .iter()
        .any(|planned| matches!(planned.action, Action::Terminate { .. }))
}

fn removes_node_finalizer(decision: &Decision) -> bool {
    decision.plan.actions.iter().any(|planned| matches!(&planned.action, Action::UpdateNode(update) if !update.remove_finalizers.is_empty()))
}

fn removes_claim_finalizer(decision: &Decision) -> bool {
    decision.plan.actions.iter().any(|planned| matches!(&planned.action, Action::UpdateNodeClaim(update) if !update.remove_finalizers.is_empty()))
}

#[test]
fn deleting_a_node_claim_deletes_its_node_first() {
    let mut claim = fixtures::claim("default-a", ALL);
    claim.deleted_at = Some(fixtures::now());
    let node = fixtures::node("n-1", &claim);
    let decision = terminate(&world((claim, node), vec![]), &InstanceStatuses::default());
    assert!(
        matches!(&decision.plan.actions[..], [only] if matches!(&only.action, Action::UpdateNode(update) if update.delete)),
        "{decision:?}"
    );
}

/// The NodeClaim was deleted before it became Registered, after its Node lost the unregistered taint.
#[test]
fn untainted_node_is_drained_without_registration() {
    let (mut claim, mut node) = draining();
    let conditions = &mut claim.status.conditions;
    conditions.retain(|condition| ![REGISTERED, INITIALIZED].contains(&condition.kind.as_str()));
    node.deleted_at = None;
    let closed = Node {
        taints: vec![model::taint::Taint {
            key: api::names::taint::UNREGISTERED.to_owned(),
            value: String::new(),
            effect: model::taint::TaintEffect::NoExecute,
        }],
        ..node.clone()
    };
    let open = terminate(
        &world((claim.clone(), node), vec![pod("web")]),
        &InstanceStatuses::default(),
    );
    assert!(!terminates(&open), "{open:#?}");
    let closed = terminate(
        &world((claim, closed), Vec::new()),
        &InstanceStatuses::default(),
    );
    assert!(terminates(&closed), "no pod ever ran there: {closed:#?}");
}

#[test]
fn deleting_a_node_deletes_its_node_claim() {
    let claim = fixtures::claim("default-a", ALL);
    let mut node = fixtures::node("n-1", &claim);
    node.deleted_at = Some(fixtures::now());
    let decision = terminate(&world((claim, node), vec![]), &InstanceStatuses::default());
    assert!(
        decision
            .plan
            .actions
            .iter()
            .any(|planned| matches!(planned.action, Action::DeleteNodeClaim(_)))
    );
}

#[test]
fn node_is_tainted_before_evictions() {
    let decision = terminate(
        &world(draining(), vec![pod("web")]),
        &InstanceStatuses::default(),
    );
    let Action::UpdateNode(update) = &decision.plan.actions[0].action else {
        panic!("{decision:?}")
    };
    assert_eq!(
        update.taints.as_ref().unwrap()[0].key,
        "karpenter.sh/disrupted"
    );
    assert_eq!(evicted(&decision), ["web"]);
    assert!(!terminates(&decision));
    assert_eq!(
        decision.due,
        Some(fixtures::now() + SignedDuration::from_secs(5))
    );
}

#[test]
fn pods_are_evicted_in_tiers() {
    let mut critical = pod("dns");
    critical.critical = true;
    let mut pods = vec![critical, daemon("agent"), pod("web")];
    for expected in ["web", "agent", "dns"] {
        let decision = terminate(
            &world(draining(), pods.clone()),
            &InstanceStatuses::default(),
        );
        assert_eq!(evicted(&decision), [expected]);
        pods.retain(|pod| pod.key.name != expected);
    }
}

#[test]
fn do_not_disrupt_delays_the_drain_until_the_deadline() {
    let mut held = pod("job");
    held.annotations
        .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    let (mut claim, node) = draining();
    let waiting = terminate(
        &world((claim.clone(), node.clone()), vec![held.clone()]),
        &InstanceStatuses::default(),
    );
    assert!(
        evicted(&waiting).is_empty() && !terminates(&waiting),
        "{waiting:?}"
    );

    claim.spec.termination_grace_period = Some("40s".to_owned());
    let mut snapshot = world((claim, node), vec![held]);
    snapshot.now += SignedDuration::from_secs(11);
    let forced = terminate(&snapshot, &InstanceStatuses::default());
    let grace = forced.plan.actions.iter().find_map(|planned| {
        if let Action::DeletePod { grace_seconds, .. } = planned.action {
            grace_seconds
        } else {
            None
        }
    });
    assert_eq!(
        grace,
        Some(29),
        "what is left until the deadline: {forced:?}"
    );
}

#[test]
fn drain_completes_after_five_seconds_without_pods() {
    let (mut claim, node) = draining();
    claim
        .status
        .conditions
        .retain(|condition| condition.kind != DRAINED);
    let first = terminate(&world((claim, node), vec![]), &InstanceStatuses::default());
    assert!(!terminates(&first), "{first:?}");
    assert!(terminates(&terminate(
        &world(draining(), vec![]),
        &InstanceStatuses::default()
    )));
}

#[test]
fn volumes_are_detached_before_the_instance_ends() {
    let mut snapshot = world(draining(), vec![]);
    snapshot.storage.attachments = vec![Attachment {
        name: "csi-1".into(),
        node: "n-1".into(),
        volume: Some("pv-1".into()),
        attached: true,
    }];
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    assert!(!terminates(&decision));
    let awaited = decision.plan.actions.iter().any(|planned| {
        matches!(&planned.action, Action::UpdateNodeClaim(update)
            if update.conditions.iter().any(|condition| condition.kind == VOLUMES_DETACHED && condition.message == "csi-1"))
    });
    assert!(awaited, "{decision:?}");
}

#[test]
fn finalizers_stay_until_the_instance_is_gone() {
    let running = terminate(&world(draining(), vec![]), &InstanceStatuses::default());
    assert!(terminates(&running) && !removes_node_finalizer(&running));
    let terminating = running.plan.actions.iter().any(|planned| {
        matches!(&planned.action, Action::UpdateNodeClaim(update)
            if update.conditions.iter().any(|condition| condition.kind == INSTANCE_TERMINATING))
    });
    assert!(terminating, "{running:?}");

    let gone = gone("aws:///us-east-1a/i-default-a");
    let ended = terminate(&world(draining(), vec![]), &gone);
    assert!(
        removes_node_finalizer(&ended) && !removes_claim_finalizer(&ended),
        "{ended:?}"
    );

    let (claim, _) = draining();
    let mut without_node = fixtures::snapshot();
    without_node.node_claims = vec![claim];
    assert!(removes_claim_finalizer(&terminate(&without_node, &gone)));
}

#[test]
fn node_of_a_terminated_instance_is_not_drained() {
    let (claim, mut node) = draining();
    node.ready = Ready {
        status: ConditionStatus::Unknown,
        since: None,
    };
    let gone = gone(&claim.status.provider_id);
    let decision = terminate(&world((claim, node), vec![pod("web")]), &gone);
    assert!(
        removes_node_finalizer(&decision) && evicted(&decision).is_empty(),
        "{decision:?}"
    );
}

#[test]
fn node_claim_without_an_instance_is_released() {
    let mut claim = fixtures::claim("default-a", &[]);
    claim.status.provider_id.clear();
    claim.deleted_at = Some(fixtures::now());
    let mut snapshot = fixtures::snapshot();
    snapshot.node_claims = vec![claim];
    assert!(removes_claim_finalizer(&terminate(
        &snapshot,
        &InstanceStatuses::default()
    )));
}

/// Adds an interruption in `left` seconds, known for `known` seconds.
fn noticed(snapshot: &mut Snapshot, left: i64, known: i64) {
    let now = fixtures::now();
    snapshot.now = now;
    snapshot.notices = vec![model::ledger::Notice {
        instance: "i-default-a".into(),
        kind: "spot_interrupted".into(),
        deadline: Some(now + SignedDuration::from_secs(left)),
        at: Some(now - SignedDuration::from_secs(known)),
        action: model::interruption::InterruptionAction::Drain,
        unmanaged: false,
        hook: None,
        event: String::new(),
        reboots: false,
        done: false,
    }];
}

/// Evicted pods and pods deleted by force, with the grace period if it is not the pod's own.
fn evicted_and_deleted(decision: &Decision) -> Vec<(String, &'static str, Option<i64>)> {
    let mut all = Vec::new();
    for planned in &decision.plan.actions {
        match &planned.action {
            Action::Evict {
                pod, grace_seconds, ..
            } => all.push((pod.name.clone(), "evict", *grace_seconds)),
            Action::DeletePod {
                pod, grace_seconds, ..
            } => all.push((pod.name.clone(), "delete", *grace_seconds)),
            Action::Launch(_)
            | Action::DeleteNodeClaim(_)
            | Action::Reboot(_)
            | Action::UpdateNode(_)
            | Action::UpdateNodeClaim(_)
            | Action::Terminate { .. } => {}
        }
    }
    all
}

fn held(mut pod: Pod) -> Pod {
    pod.annotations
        .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    pod
}

fn with_grace(mut pod: Pod, seconds: i64) -> Pod {
    pod.termination_grace_seconds = Some(seconds);
    pod
}

#[test]
fn announced_end_respects_budgets_while_time_remains() {
    let mut critical = pod("dns");
    critical.critical = true;
    let mut snapshot = world(draining(), vec![critical, pod("web"), held(pod("job"))]);
    noticed(&mut snapshot, 115, 5);
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    assert_eq!(
        evicted_and_deleted(&decision),
        [("web".into(), "evict", None)]
    );
}

#[test]
fn protected_pods_are_deleted_with_their_full_grace_period() {
    let mut snapshot = world(draining(), vec![held(pod("job"))]);
    // 30 s of grace, and 5 s of margin for the kubelet.
    noticed(&mut snapshot, 36, 80);
    assert_eq!(
        evicted_and_deleted(&terminate(&snapshot, &InstanceStatuses::default())),
        []
    );
    noticed(&mut snapshot, 35, 81);
    assert_eq!(
        evicted_and_deleted(&terminate(&snapshot, &InstanceStatuses::default())),
        [("job".into(), "delete", Some(30))]
    );
}

#[test]
fn later_tiers_start_early_if_time_is_short() {
    let mut critical = pod("dns");
    critical.critical = true;
    let mut snapshot = world(draining(), vec![critical, with_grace(held(pod("job")), 5)]);
    noticed(&mut snapshot, 46, 70);
    let early = terminate(&snapshot, &InstanceStatuses::default());
    assert_eq!(evicted_and_deleted(&early), []);
    let dns = fixtures::now() + SignedDuration::from_secs(46 - 5 - 30 - 10);
    assert_eq!(early.due, Some(dns), "the timer is set for it");
    noticed(&mut snapshot, 45, 71);
    assert_eq!(
        evicted_and_deleted(&terminate(&snapshot, &InstanceStatuses::default())),
        [("dns".into(), "evict", None)]
    );
}

#[test]
fn grace_period_is_cut_to_the_remaining_time() {
    let mut snapshot = world(draining(), vec![with_grace(pod("slow"), 600)]);
    noticed(&mut snapshot, 119, 1);
    let decision = terminate(&snapshot, &InstanceStatuses::default());
    assert_eq!(
        evicted_and_deleted(&decision),
        [("slow".into(), "evict", Some(114))]
    );
    let because = &decision.plan.actions.iter();
    let because: Vec<&str> = because
        .clone()
        .filter(|planned| matches!(planned.action, Action::Evict { .. }))
        .map(|planned| planned.because.as_str())
        .collect();
    assert!(
        because[0].ends_with("114 s remain of the pod's grace period of 600 s"),
        "{because:?}"
    );
    // Evictions were refused by its budget for ten seconds.
    noticed(&mut snapshot, 110, 10);
    assert_eq!(
        evicted_and_deleted(&terminate(&snapshot, &InstanceStatuses::default())),
        [("slow".into(), "delete", Some(105))]
    );
}

#[test]
fn earlier_deadline_applies_and_an_overdue_one_is_ignored() {
    let (mut claim, node) = draining();
    claim.spec.termination_grace_period = Some("10m".to_owned());
    let mut snapshot = world((claim, node), vec![held(pod("job"))]);
    noticed(&mut snapshot, 20, 100);
    assert_eq!(
        evicted_and_deleted(&terminate(&snapshot, &InstanceStatuses::default())),
        [("job".into(), "delete", Some(15))]
    );
    // The instance still runs: EC2 did not interrupt it.
    noticed(&mut snapshot, -121, 241);
    assert_eq!(
        evicted_and_deleted(&terminate(&snapshot, &InstanceStatuses::default())),
        []
    );
}
