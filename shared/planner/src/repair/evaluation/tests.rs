use model::node::{NodeCondition, Ready};

use super::{super::POLICIES, *};
use crate::fixtures::{claim, node, now};

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

/// A node created yesterday whose condition has lasted for this many minutes.
fn unhealthy(condition: &str, status: ConditionStatus, reason: &str, ago: i64) -> Node {
    let mut node = node("n", &claim("a", &[]));
    node.created_at = Some(now() - SignedDuration::from_hours(24));
    add(&mut node, condition, status, reason, ago);
    node
}

fn add(node: &mut Node, condition: &str, status: ConditionStatus, reason: &str, ago: i64) {
    let since = Some(now() - minutes(ago));
    match condition {
        "Ready" => node.ready = Ready { status, since },
        _ => node.conditions.push(NodeCondition {
            kind: condition.to_owned(),
            status,
            reason: reason.to_owned(),
            since,
        }),
    }
}

fn gpu(reason: &str, ago: i64) -> Node {
    unhealthy(
        "AcceleratedHardwareReady",
        ConditionStatus::False,
        reason,
        ago,
    )
}

fn due(node: &Node) -> Option<DueRepair<'_>> {
    Evaluation::new(POLICIES, node, &Reboots::default(), now()).due
}

#[test]
fn condition_is_tolerated_according_to_its_policy() {
    let lost = |ago| unhealthy("Ready", ConditionStatus::False, "", ago);
    let node = lost(29);
    let evaluation = Evaluation::new(POLICIES, &node, &Reboots::default(), now());
    assert!(evaluation.is_unhealthy && evaluation.due.is_none());
    assert_eq!(evaluation.next, Some(now() + minutes(1)));
    let node = lost(31);
    assert_eq!(due(&node).unwrap().since, now() - minutes(1));
    assert_eq!(due(&node).unwrap().drain_bound, Some(minutes(10)));
    let silent = unhealthy("Ready", ConditionStatus::Unknown, "", 31);
    assert_eq!(due(&silent).unwrap().drain_bound, Some(minutes(0)));
    let node = unhealthy("StorageReady", ConditionStatus::Unknown, "", 90);
    let evaluation = Evaluation::new(POLICIES, &node, &Reboots::default(), now());
    assert!(!evaluation.is_unhealthy, "no policy is about this status");
}

#[test]
fn toleration_starts_at_creation_of_the_node_at_the_earliest() {
    let mut node = unhealthy("Ready", ConditionStatus::False, "", 120);
    node.created_at = Some(now() - minutes(5));
    let evaluation = Evaluation::new(POLICIES, &node, &Reboots::default(), now());
    assert_eq!(evaluation.due, None);
    assert_eq!(evaluation.next, Some(now() + minutes(25)));
    node.ready.since = None;
    let evaluation = Evaluation::new(POLICIES, &node, &Reboots::default(), now());
    assert_eq!(evaluation.next, Some(now() + minutes(25)));
}

#[test]
fn known_accelerator_errors_have_shorter_tolerations() {
    for (reason, at_11, at_31) in [
        ("NvidiaXID46Error", true, true),
        ("GPU-XID140-fault", true, true),
        ("XID79", true, true),
        ("XID460", false, true),
        ("DCGM_FI_DEV_XID_ERRORS", false, true),
    ] {
        assert!(due(&gpu(reason, 9)).is_none(), "{reason}");
        assert_eq!(due(&gpu(reason, 11)).is_some(), at_11, "{reason}");
        assert_eq!(due(&gpu(reason, 31)).is_some(), at_31, "{reason}");
    }
    assert_eq!(
        due(&gpu("XID79", 11)).unwrap().drain_bound,
        Some(minutes(10))
    );
}

const fn policy(condition: &'static str, reasons: Reasons, priority: u8) -> Policy {
    Policy {
        condition,
        status: ConditionStatus::False,
        reasons,
        toleration: SignedDuration::from_mins(10),
        drain_bound: None,
        priority,
        action: RepairAction::Replace,
    }
}

#[test]
fn shortest_bound_and_highest_priority_of_due_policies_apply() {
    let policies = [
        policy("Ready", Reasons::Others, 0),
        Policy {
            drain_bound: Some(minutes(10)),
            ..policy("KernelReady", Reasons::Any, 50)
        },
        Policy {
            drain_bound: Some(minutes(2)),
            ..policy("StorageReady", Reasons::Any, 0)
        },
    ];
    let mut node = unhealthy("StorageReady", ConditionStatus::False, "Full", 60);
    add(&mut node, "KernelReady", ConditionStatus::False, "Oops", 20);
    let due = Evaluation::new(&policies, &node, &Reboots::default(), now())
        .due
        .unwrap();
    assert_eq!(due.drain_bound, Some(minutes(2)));
    assert_eq!((due.condition, due.reason), ("KernelReady", "Oops"));
    // 50 minutes for storage, and 10 plus one priority level for the kernel.
    assert_eq!(due.urgency, minutes(50));
}

#[test]
fn priority_level_equals_half_an_hour() {
    let policies = [
        policy("Ready", Reasons::Others, 0),
        policy("KernelReady", Reasons::Any, 50),
        policy("StorageReady", Reasons::Any, 100),
    ];
    let urgency = |condition, ago| {
        let node = unhealthy(condition, ConditionStatus::False, "", ago);
        Evaluation::new(&policies, &node, &Reboots::default(), now())
            .due
            .unwrap()
            .urgency
    };
    // Due for a minute by the policy of 100, and for 59 minutes by that of 50.
    assert!(urgency("KernelReady", 69) > urgency("StorageReady", 11));
    assert!(urgency("KernelReady", 39) < urgency("StorageReady", 11));
}

#[test]
fn unlisted_reason_uses_the_fallback_policy() {
    let policies = [
        Policy {
            toleration: minutes(20),
            drain_bound: Some(minutes(3)),
            ..policy("Ready", Reasons::Others, 0)
        },
        policy("AcceleratedHardwareReady", Reasons::Xid(&["79"]), 0),
    ];
    let due = |reason, ago| {
        let node = gpu(reason, ago);
        Evaluation::new(&policies, &node, &Reboots::default(), now())
            .due
            .map(|due| due.drain_bound)
    };
    assert_eq!(due("XID79", 11), Some(None));
    assert_eq!(due("Unheard", 11), None);
    assert_eq!(due("Unheard", 21), Some(Some(minutes(3))));
}

/// History of a node that may be rebooted.
fn may_reboot() -> Reboots {
    Reboots {
        may_reboot: true,
        last_ended: None,
    }
}

#[test]
fn errors_repaired_by_reboot_reboot_unless_another_needs_replacement() {
    let action = |reason: &str, ago, reboots: &Reboots| {
        let node = gpu(reason, ago);
        let due = Evaluation::new(POLICIES, &node, reboots, now()).due;
        due.map(|due| due.action)
    };
    use RepairAction::{Reboot, Replace};
    for reason in ["NvidiaXID46Error", "GPU-XID140-fault"] {
        assert_eq!(action(reason, 9, &may_reboot()), None, "{reason}");
        assert_eq!(action(reason, 11, &may_reboot()), Some(Reboot), "{reason}");
        assert_eq!(action(reason, 31, &may_reboot()), Some(Replace), "{reason}");
        let off = Reboots::default();
        assert_eq!(action(reason, 11, &off), Some(Replace), "{reason}");
    }
    assert_eq!(action("XID79", 11, &may_reboot()), Some(Replace));
    assert_eq!(action("XID460", 11, &may_reboot()), None);
    assert_eq!(action("XID460", 31, &may_reboot()), Some(Replace));
}

#[test]
fn replacement_names_the_condition_that_requires_it() {
    let mut node = gpu("NvidiaXID46Error", 60);
    add(
        &mut node,
        "StorageReady",
        ConditionStatus::False,
        "Full",
        31,
    );
    node.conditions
        .retain(|condition| condition.kind != "KernelReady");
    let policies = [
        policy("Ready", Reasons::Others, 0),
        Policy {
            action: RepairAction::Reboot,
            ..policy("AcceleratedHardwareReady", Reasons::Any, 100)
        },
        policy("StorageReady", Reasons::Any, 0),
    ];
    let due = Evaluation::new(&policies, &node, &may_reboot(), now()).due;
    let due = due.unwrap();
    let selected = (due.action, due.condition);
    assert_eq!(selected, (RepairAction::Replace, "StorageReady"));
}

#[test]
fn tolerations_restart_after_a_reboot() {
    let reboots = Reboots {
        last_ended: Some(now() - minutes(9)),
        ..may_reboot()
    };
    let node = gpu("NvidiaXID46Error", 60);
    let evaluation = Evaluation::new(POLICIES, &node, &reboots, now());
    assert!(evaluation.is_unhealthy && evaluation.due.is_none());
    assert_eq!(evaluation.next, Some(now() + minutes(1)));
}
