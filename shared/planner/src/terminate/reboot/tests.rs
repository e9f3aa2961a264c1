//! Reboots in place, step by step.

use api::conditions::types::{LAUNCHED, REGISTERED};
use model::{
    ledger::{Pause, PauseScope},
    pod::Pod,
};

use super::*;
use crate::fixtures::{self, now};

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// A node with these pods whose reboot was requested this many seconds ago, with this bound.
fn requested(bound: Option<&str>, ago: i64, pods: Vec<Pod>) -> Snapshot {
    let mut claim = fixtures::claim("a", &[LAUNCHED, REGISTERED, INITIALIZED]);
    set(&mut claim, REBOOTING, REBOOT_REQUESTED, ago);
    if let Some(bound) = bound {
        annotate(&mut claim, annotation::REBOOT_GRACE_PERIOD, bound);
    }
    let mut node = fixtures::node("n", &claim);
    node.boot_id = "first".to_owned();
    node.labels
        .insert(label::INITIALIZED.to_owned(), "true".to_owned());
    node.taints = vec![rebooting()];
    let mut snapshot = fixtures::snapshot();
    snapshot.node_claims = vec![claim];
    snapshot.nodes = vec![node];
    snapshot.pods = pods;
    snapshot
}

fn set(claim: &mut NodeClaim, kind: &str, reason: &str, ago: i64) {
    let conditions = &mut claim.status.conditions;
    conditions.retain(|condition| condition.kind != kind);
    conditions.push(Condition {
        kind: kind.to_owned(),
        status: ConditionStatus::True,
        reason: reason.to_owned(),
        message: "rebooting for AcceleratedHardwareReady/XID46".to_owned(),
        last_transition: now() - secs(ago),
        observed_generation: Some(1),
    });
}

fn annotate(claim: &mut NodeClaim, key: &str, value: &str) {
    claim.annotations.insert(key.to_owned(), value.to_owned());
}

/// A node whose reboot EC2 accepted this many seconds ago.
fn issued(ago: i64) -> Snapshot {
    let mut snapshot = requested(Some("10m0s"), ago + 30, Vec::new());
    let claim = &mut snapshot.node_claims[0];
    set(claim, REBOOTING, REBOOT_ISSUED, ago + 30);
    set(claim, INITIALIZED, "Rebooting", ago);
    for condition in &mut claim.status.conditions {
        if condition.kind == INITIALIZED {
            condition.status = ConditionStatus::Unknown;
        }
    }
    annotate(claim, annotation::REBOOT_PRE_BOOT_ID, "first");
    let called = format!("{:.0}", now() - secs(ago));
    annotate(claim, annotation::REBOOT_LAST_CALL, &called);
    snapshot.nodes[0].labels.remove(label::INITIALIZED);
    snapshot
}

fn back(mut snapshot: Snapshot, ready: ConditionStatus) -> Snapshot {
    snapshot.nodes[0].boot_id = "second".to_owned();
    snapshot.nodes[0].ready.status = ready;
    snapshot
}

fn words(snapshot: &Snapshot) -> Vec<String> {
    let reboots = reboot(snapshot);
    let actions = reboots.decision.plan.actions.iter();
    let notes = reboots.decision.notes.iter();
    let calls = reboots.calls.iter();
    actions
        .map(|planned| planned.action.to_string())
        .chain(notes.map(|note| format!("{}: {}", note.reason, note.message)))
        .chain(calls.map(|call| format!("call for {}", call.instance)))
        .collect()
}

fn due_in(snapshot: &Snapshot) -> Option<i64> {
    let due = reboot(snapshot).decision.due;
    due.map(|due| due.duration_since(now()).as_secs())
}

fn protected(name: &str) -> Pod {
    let mut pod = fixtures::pod(name, "n");
    let forbidden = ("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned());
    pod.annotations = [forbidden].into();
    pod
}

const NOTES_BOOT: &str = "update nodeclaim/a (annotation karpenter.sh/reboot-pre-boot-id=first)";

#[test]
fn node_is_tainted_and_its_pods_are_evicted() {
    let mut snapshot = requested(Some("10m0s"), 1, vec![fixtures::pod("web", "n")]);
    snapshot.nodes[0].taints.clear();
    assert_eq!(
        words(&snapshot),
        [
            "update node/n (taints karpenter.sh/rebooting:NoSchedule)",
            "evict pod default/web",
            "FailedDraining: Failed to drain node, 1 pod is waiting to be evicted",
        ]
    );
    assert_eq!(due_in(&snapshot), Some(15));
}

#[test]
fn protected_pod_is_rebooted_with_the_node_after_the_bound() {
    let held = |ago| requested(Some("10m0s"), ago, vec![protected("held")]);
    let waits = "FailedDraining: Failed to drain node, 1 pod is waiting to be evicted";
    assert_eq!(words(&held(599)), [waits]);
    assert_eq!(due_in(&held(599)), Some(1));
    assert_eq!(words(&held(600)), [NOTES_BOOT]);
    assert_eq!(
        words(&requested(None, 86_400, vec![protected("held")])),
        [waits]
    );
}

#[test]
fn bound_of_zero_reboots_at_once() {
    let snapshot = requested(Some("0s"), 0, vec![fixtures::pod("web", "n")]);
    assert_eq!(words(&snapshot), [NOTES_BOOT]);
}

#[test]
fn empty_node_is_rebooted_after_five_seconds() {
    let empty = |ago| requested(Some("10m0s"), ago, Vec::new());
    assert_eq!(words(&empty(4)), Vec::<String>::new());
    assert_eq!(due_in(&empty(4)), Some(1));
    assert_eq!(words(&empty(5)), [NOTES_BOOT]);
}

#[test]
fn invalid_bound_ends_only_the_reboot() {
    for bound in ["abc", "-5m"] {
        let words = words(&requested(Some(bound), 1, Vec::new()));
        let [untainted, failed, reported] = &words[..] else {
            panic!("{words:?}")
        };
        assert_eq!(untainted, "update node/n (no taints)");
        assert_eq!(failed, "update nodeclaim/a (Ready=True, Rebooting=False)");
        assert!(
            reported.starts_with("RebootFailed: annotation karpenter.sh/reboot-term"),
            "{reported}"
        );
        assert!(reported.contains(&format!("is \"{bound}\"")), "{reported}");
    }
}

#[test]
fn ec2_is_called_after_the_boot_id_is_recorded_and_once_a_minute() {
    let drained = |last: Option<i64>, first: Option<i64>| {
        let mut snapshot = requested(Some("0s"), 1, Vec::new());
        let claim = &mut snapshot.node_claims[0];
        annotate(claim, annotation::REBOOT_PRE_BOOT_ID, "first");
        for (key, ago) in [
            (annotation::REBOOT_LAST_CALL, last),
            (annotation::REBOOT_FIRST_CALL, first),
        ] {
            if let Some(ago) = ago {
                annotate(claim, key, &format!("{:.0}", now() - secs(ago)));
            }
        }
        snapshot
    };
    assert_eq!(words(&drained(None, None)), ["call for i-a"]);
    let call = reboot(&drained(None, None)).calls.remove(0);
    let noted: Vec<&str> = call
        .first
        .set_annotations
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        noted,
        [
            "whittle.sh/reboot-first-call",
            "whittle.sh/reboot-last-call"
        ]
    );
    assert_eq!(
        call.first.resource_version, "1",
        "only one of two turns calls EC2"
    );
    let waiting = drained(Some(59), Some(200));
    assert_eq!((words(&waiting), due_in(&waiting)), (Vec::new(), Some(1)));
    assert_eq!(words(&drained(Some(60), Some(200))), ["call for i-a"]);
    let reported = words(&drained(Some(60), Some(300)));
    let last = "RebootFailed: EC2 accepted no request to reboot the instance within 5 minutes";
    assert_eq!(reported.last().unwrap(), last);
}

#[test]
fn finished_reboot_is_not_repeated() {
    let mut snapshot = requested(Some("0s"), 1, Vec::new());
    annotate(
        &mut snapshot.node_claims[0],
        annotation::REBOOT_PRE_BOOT_ID,
        "first",
    );
    let snapshot = back(snapshot, ConditionStatus::False);
    let words = words(&snapshot);
    assert_eq!(
        words,
        ["update nodeclaim/a (Initialized=Unknown, Ready=Unknown, Rebooting=True)"]
    );
}

#[test]
fn rebooted_node_loses_its_taint_and_is_awaited_until_ready() {
    let snapshot = back(issued(60), ConditionStatus::False);
    assert_eq!(
        words(&snapshot),
        [
            "update node/n (no taints)",
            "RebootObserved: New boot observed (bootID changed); awaiting node readiness",
        ]
    );
    assert_eq!(words(&issued(60)), Vec::<String>::new());
    assert_eq!(due_in(&issued(60)), Some(60));
}

#[test]
fn ready_node_ends_the_reboot_and_is_initialized_again() {
    let mut snapshot = back(issued(60), ConditionStatus::True);
    set(
        &mut snapshot.node_claims[0],
        DISRUPTION_REASON,
        "Unhealthy",
        90,
    );
    snapshot.nodes[0].taints.clear();
    let ended = ["update nodeclaim/a (Ready=Unknown, Rebooting=False, no DisruptionReason)"];
    assert_eq!(words(&snapshot), ended);
    for condition in &mut snapshot.node_claims[0].status.conditions {
        if condition.kind == REBOOTING {
            condition.status = ConditionStatus::False;
            condition.reason = REBOOT_SUCCEEDED.to_owned();
        }
    }
    let words = words(&snapshot);
    let [tidied] = &words[..] else {
        panic!("{words:?}")
    };
    assert!(
        tidied.contains("no annotation karpenter.sh/reboot-pre-boot-id"),
        "{tidied}"
    );
}

#[test]
fn node_that_does_not_rejoin_is_deleted() {
    assert_eq!(due_in(&issued(1_199)), Some(1));
    let mut snapshot = issued(1_200);
    let cause = "the node did not come back within 20 minutes";
    let failed = format!(
        "update nodeclaim/a (annotation whittle.sh/reboot-failed={cause}, Ready=Unknown, Rebooting=False)"
    );
    let reported = format!("RebootFailed: {cause}");
    let untainted = "update node/n (no taints)".to_owned();
    assert_eq!(words(&snapshot), [untainted, failed, reported]);
    let claim = &mut snapshot.node_claims[0];
    annotate(claim, annotation::REBOOT_FAILED, cause);
    for condition in &mut claim.status.conditions {
        if condition.kind == REBOOTING {
            condition.status = ConditionStatus::False;
            condition.reason = REBOOT_FAILED.to_owned();
        }
    }
    snapshot.nodes[0].taints.clear();
    assert_eq!(words(&snapshot), ["delete nodeclaim/a"]);
    let claim = &mut snapshot.node_claims[0];
    claim.deleted_at = Some(now());
    assert_eq!(deadline(claim), Some(now() + secs(600)));
    assert_eq!(words(&snapshot), Vec::<String>::new());
}

#[test]
fn node_rebooted_by_karpenter_is_awaited_from_the_loss_of_initialized() {
    let taken_over = |ago| {
        let mut snapshot = issued(ago);
        let annotations = &mut snapshot.node_claims[0].annotations;
        annotations.remove(annotation::REBOOT_LAST_CALL);
        snapshot
    };
    assert_eq!(due_in(&taken_over(1_199)), Some(1));
    let reported = words(&taken_over(1_200));
    let failed = "RebootFailed: the node did not come back within 20 minutes";
    assert_eq!(reported.last().unwrap(), failed);
    let ended = words(&back(taken_over(60), ConditionStatus::True));
    assert!(
        ended.iter().any(|word| word.contains("Rebooting=False")),
        "{ended:?}"
    );
}

#[test]
fn refused_reboot_is_left_to_repair_if_enabled() {
    let mut snapshot = requested(Some("10m0s"), 10, Vec::new());
    let refused = |snapshot: &Snapshot| {
        let refused = reboot_refused(snapshot, &snapshot.node_claims[0], "denied");
        let actions = refused.plan.actions.iter();
        let actions = actions.map(|planned| planned.action.to_string());
        actions.collect::<Vec<_>>().join("; ")
    };
    assert!(refused(&snapshot).contains("whittle.sh/reboot-failed=denied"));
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert("NodeRepair".to_owned(), true);
    let kept = "update node/n (no taints); update nodeclaim/a (Ready=True, Rebooting=False)";
    assert_eq!(refused(&snapshot), kept);
}

#[test]
fn voluntary_reboot_waits_during_a_pause() {
    let paused = |chosen: bool| {
        let mut snapshot = requested(Some("10m0s"), 1, vec![fixtures::pod("web", "n")]);
        if chosen {
            set(
                &mut snapshot.node_claims[0],
                DISRUPTION_REASON,
                "Unhealthy",
                1,
            );
        }
        snapshot.pauses = vec![Pause {
            scope: PauseScope::Cluster,
            owner: "ann".to_owned(),
            level: PauseLevel::All,
            reason: "a release".to_owned(),
            since: now(),
            until: now() + secs(40),
        }];
        snapshot
    };
    let held = paused(true);
    assert_eq!((words(&held), due_in(&held)), (Vec::new(), Some(40)));
    assert!(words(&paused(false)).contains(&"evict pod default/web".to_owned()));
}
