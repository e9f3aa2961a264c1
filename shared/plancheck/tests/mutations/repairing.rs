//! Repair of unhealthy nodes.

use model::{
    ledger::{Choice, FreedInstance, Method},
    node::NodeCondition,
};

use super::{budgeted::command, *};

/// The plan deletes one of four nodes, whose accelerator has failed for an hour, and moves its pod.
fn repairing() -> World {
    let mut world = World::valid();
    world
        .snapshot
        .settings
        .feature_gates
        .insert("NodeRepair".into(), true);
    world.snapshot.pods.push(running("busy-0", 100, "n-4"));
    world.plan.nominations.push(nominate("busy-0", "n-1"));
    world.pod("busy-0").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]);
    world.node("n-4").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]);
    set_unhealthy(&mut world, "n-4", "XID79", 60);
    world
}

fn set_unhealthy(world: &mut World, node: &str, reason: &str, minutes: i64) {
    let since = world.snapshot.now - jiff::SignedDuration::from_mins(minutes);
    let node = world.node(node);
    node.created_at = None;
    node.conditions.push(NodeCondition {
        kind: "AcceleratedHardwareReady".into(),
        status: ConditionStatus::False,
        reason: reason.into(),
        since: Some(since),
    });
}

#[test]
fn do_not_disrupt_does_not_block_repair() {
    let world = repairing();
    assert_eq!(check(&world.snapshot, &world.plan), []);
    let mut known = repairing();
    known.node("n-4").conditions.clear();
    set_unhealthy(&mut known, "n-4", "XID79", 11);
    assert_eq!(check(&known.snapshot, &known.plan), []);
}

#[test]
fn unready_nodes_do_not_count_against_repair_budget() {
    let mut world = repairing();
    world.pool("default").disruption.budgets[0].nodes = "1".into();
    world.node("n-3").ready.status = ConditionStatus::False;
    world.node("n-3").ready.since = None;
    let violations = check(&world.snapshot, &world.plan);
    assert!(
        violations
            .iter()
            .all(|violation| !violation.text.contains("budgets")),
        "{violations:?}"
    );
}

#[test]
fn repair_rules_are_enforced() {
    type Mutate = fn(&mut World);
    let spoiled: [(Mutate, &str); 8] = [
        (
            |w| w.snapshot.settings.feature_gates.clear(),
            "carries the annotation karpenter.sh/do-not-disrupt",
        ),
        (
            |w| w.snapshot.settings.legacy_node_repair = true,
            "carries the annotation karpenter.sh/do-not-disrupt",
        ),
        (
            |w| {
                w.node("n-4").conditions.clear();
                set_unhealthy(w, "n-4", "XID790", 11);
            },
            "carries the annotation karpenter.sh/do-not-disrupt",
        ),
        (
            |w| w.node("n-4").annotations = labels(&[("karpenter.sh/do-not-repair", "true")]),
            "carries the annotation karpenter.sh/do-not-repair",
        ),
        (
            |w| {
                w.claim("claim-n-4").annotations = labels(&[("karpenter.sh/do-not-repair", "true")])
            },
            "carries the annotation karpenter.sh/do-not-repair",
        ),
        (
            |w| set_unhealthy(w, "n-3", "Unheard", 0),
            "is one of too many unhealthy nodes of NodePool default",
        ),
        (
            |w| _ = w.plan.nominations.pop(),
            "pod default/busy-0 has no other place",
        ),
        (
            |w| {
                let budgets = &mut w.pool("default").disruption.budgets;
                budgets[0].nodes = "0".into();
                budgets[0].reasons = vec!["Unhealthy".into()];
            },
            "one more than the budgets of NodePool default allow to be repaired",
        ),
    ];
    for (spoil, text) in spoiled {
        let mut world = repairing();
        spoil(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        let is_reported = violations
            .iter()
            .any(|violation| violation.text.contains(text));
        assert!(is_reported, "{text}: {violations:?}");
    }
}

#[test]
fn node_freeing_a_reserved_instance_may_terminate_first_with_feature_gate() {
    let is_refused = |reserved: bool, gate: &str| {
        let mut world = repairing();
        world.plan.nominations.pop();
        let gates = &mut world.snapshot.settings.feature_gates;
        gates.insert(gate.into(), true);
        if reserved {
            let of_reservation = labels(&[
                (model::labels::CAPACITY_TYPE, "reserved"),
                (RESERVATION_LABEL, "cr-1"),
            ]);
            world.claim("claim-n-4").labels.extend(of_reservation);
        }
        let violations = check(&world.snapshot, &world.plan);
        violations
            .iter()
            .any(|violation| violation.text.contains("has no other place"))
    };
    assert!(!is_refused(true, "TerminateFirstRepair"));
    assert!(
        is_refused(true, "TerminateFirstDrift"),
        "each for its own reason"
    );
    assert!(
        is_refused(false, "TerminateFirstRepair"),
        "other nodes need a place for their pods first"
    );
}

/// Adds a node of the NodePool that was terminated first within the last hour, with a pod of its workload still
/// pending.
fn terminated_first(world: &mut World) {
    let owner = model::Uid::from("uid-of-queue");
    let mut pod = running("queue-0", 100, "n-1");
    pod.node_name = None;
    pod.owner = Some(model::pod::Owner {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "queue".into(),
        uid: owner.clone(),
    });
    pod.created_at = Some(world.snapshot.now);
    world.snapshot.pods.push(pod);
    let choice = Choice {
        freed: Some(FreedInstance {
            reservation: "cr-1".into(),
            node_pool: "default".into(),
            owners: [owner].into(),
        }),
        terminate_first: true,
        method: Method::Drift,
        validate_at: None,
        instance_types: Vec::new(),
        others: Vec::new(),
        wanted: Vec::new(),
        evicts: Default::default(),
        repair: None,
    };
    let mut command = command("claim-gone", CommandState::Done);
    command.choice = Some(choice);
    world.snapshot.commands = vec![command];
}

/// The plan deletes a node before its replacement is launched, which frees an instance of a reservation.
fn terminating_first() -> World {
    let mut world = repairing();
    world.plan.nominations.pop();
    let gates = &mut world.snapshot.settings.feature_gates;
    gates.insert("TerminateFirstRepair".into(), true);
    let of_reservation = labels(&[
        (model::labels::CAPACITY_TYPE, "reserved"),
        (RESERVATION_LABEL, "cr-1"),
    ]);
    world.claim("claim-n-4").labels.extend(of_reservation);
    // Another node is being removed already.
    world.pool("default").disruption.budgets[0].nodes = "2".into();
    world
}

#[test]
fn node_terminated_first_counts_against_budget_until_replaced() {
    type Change = fn(&mut World);
    let changes: [(&str, Change, bool); 9] = [
        ("no node was terminated first", |_| {}, true),
        ("one node was terminated first", terminated_first, false),
        (
            "its instance terminates, and its pods are not recreated yet",
            |w| {
                terminated_first(w);
                w.pod("queue-0").owner = None;
                // A terminated node counts once, although its NodeClaim is still being removed.
                w.pool("default").disruption.budgets[0].nodes = "1".into();
                w.snapshot.commands[0].delete = vec![target("claim-n-3")];
                let now = w.snapshot.now;
                let claim = w.claim("claim-n-3");
                claim.deleted_at = Some(now);
                let mut ending = claim.status.conditions[0].clone();
                ending.kind = "InstanceTerminating".into();
                ending.status = ConditionStatus::True;
                claim.status.conditions.push(ending);
                w.snapshot.commands[0].delete[0].uid = w.claim("claim-n-3").uid.clone();
            },
            false,
        ),
        (
            "its pods have nodes",
            |w| {
                terminated_first(w);
                w.pod("queue-0").node_name = Some("n-1".into());
            },
            true,
        ),
        (
            "pods of other workloads are pending",
            |w| {
                terminated_first(w);
                w.pod("queue-0").owner = None;
            },
            true,
        ),
        (
            "its pods have waited for an hour",
            |w| {
                terminated_first(w);
                let hour = jiff::SignedDuration::from_hours(1);
                w.pod("queue-0").created_at = Some(w.snapshot.now - hour);
            },
            true,
        ),
        (
            "it is of another NodePool",
            |w| {
                terminated_first(w);
                let choice = w.snapshot.commands[0].choice.as_mut().unwrap();
                choice.freed.as_mut().unwrap().node_pool = "dedicated".into();
            },
            true,
        ),
        (
            "its command was rolled back",
            |w| {
                terminated_first(w);
                w.snapshot.commands[0].state = CommandState::RolledBack;
            },
            true,
        ),
        (
            "the budget allows one more",
            |w| {
                terminated_first(w);
                w.pool("default").disruption.budgets[0].nodes = "3".into();
            },
            true,
        ),
    ];
    for (name, change, may_go) in changes {
        let mut world = terminating_first();
        change(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        let about_budgets = violations
            .iter()
            .filter(|violation| violation.text.contains("budgets"));
        let texts: Vec<&str> = about_budgets
            .map(|violation| violation.text.as_str())
            .collect();
        match may_go {
            true => assert!(texts.is_empty(), "{name}: {texts:?}"),
            false => {
                let [text] = texts[..] else {
                    panic!("{name}: {texts:?}")
                };
                assert!(
                    text.contains("terminated earlier is replaced"),
                    "{name}: {text}"
                );
            }
        }
    }
}

#[test]
fn unready_node_is_subject_to_budgets_if_repair_is_voluntary() {
    let unready = |repairs: bool| {
        let mut world = World::valid();
        if repairs {
            let gates = &mut world.snapshot.settings.feature_gates;
            gates.insert("NodeRepair".into(), true);
        }
        world.pool("default").disruption.budgets[0].nodes = "0".into();
        let now = world.snapshot.now;
        let node = world.node("n-4");
        node.ready.status = ConditionStatus::False;
        node.ready.since = None;
        node.created_at = Some(now);
        check(&world.snapshot, &world.plan)
    };
    assert_eq!(unready(false), []);
    let violations = unready(true);
    assert!(
        violations
            .iter()
            .any(|violation| violation.text.contains("budgets")),
        "{violations:?}"
    );
}

/// The plan reboots one of four nodes, whose accelerator reports an error that a reboot fixes.
fn rebooting() -> World {
    let mut world = repairing();
    let gates = &mut world.snapshot.settings.feature_gates;
    gates.insert("RebootForRepair".into(), true);
    world.plan.nominations.pop();
    let mut actions = world.plan.actions.iter_mut();
    let deletion = actions.find(|planned| planned.action.deletion().is_some());
    let deletion = deletion.unwrap();
    deletion.action = Action::Reboot(deletion.action.deletion().unwrap().clone());
    world.node("n-4").conditions.clear();
    set_unhealthy(&mut world, "n-4", "XID46", 11);
    world
}

#[test]
fn node_with_reboot_fixable_error_may_reboot_with_its_pods() {
    let world = rebooting();
    assert_eq!(check(&world.snapshot, &world.plan), []);
}

#[test]
fn reboot_rules_are_enforced() {
    fn rebooted(world: &mut World, status: ConditionStatus, reason: &str, minutes: i64) {
        let last_transition = world.snapshot.now - jiff::SignedDuration::from_mins(minutes);
        let condition = model::node_claim::Condition {
            kind: "Rebooting".into(),
            status,
            reason: reason.into(),
            message: String::new(),
            last_transition,
            observed_generation: None,
        };
        world.claim("claim-n-4").status.conditions.push(condition);
    }
    fn error(world: &mut World, reason: &str, minutes: i64) {
        world.node("n-4").conditions.clear();
        set_unhealthy(world, "n-4", reason, minutes);
    }
    type Mutate = fn(&mut World);
    let none = "has no condition that a reboot is due for";
    let spoiled: [(Mutate, &str); 10] = [
        (
            |w| _ = w.snapshot.settings.feature_gates.remove("RebootForRepair"),
            none,
        ),
        (|w| error(w, "XID79", 11), none),
        (|w| error(w, "XID46", 9), none),
        (|w| error(w, "XID46", 31), none),
        (
            |w| {
                error(w, "XID46", 60);
                rebooted(w, ConditionStatus::False, "RebootSucceeded", 9);
            },
            none,
        ),
        (
            |w| rebooted(w, ConditionStatus::True, "RebootRequested", 1),
            "is being deleted, or reboots already",
        ),
        (
            |w| {
                let before = w.snapshot.now - jiff::SignedDuration::from_hours(3);
                let written = format!("{before},{}", w.snapshot.now);
                w.claim("claim-n-4").annotations = labels(&[("whittle.sh/reboots", &written)]);
            },
            "has been rebooted twice within 24 hours",
        ),
        (
            |w| rebooted(w, ConditionStatus::False, "RebootFailed", 60),
            "failed to reboot within 24 hours",
        ),
        (
            |w| w.node("n-4").annotations = labels(&[("karpenter.sh/do-not-repair", "true")]),
            "carries the annotation karpenter.sh/do-not-repair",
        ),
        (
            |w| w.pool("default").disruption.budgets[0].nodes = "0".into(),
            "one more than the budgets of NodePool default allow to be repaired",
        ),
    ];
    for (spoil, text) in spoiled {
        let mut world = rebooting();
        spoil(&mut world);
        let violations = check(&world.snapshot, &world.plan);
        let is_reported = violations
            .iter()
            .any(|violation| violation.text.contains(text));
        assert!(is_reported, "{text}: {violations:?}");
    }
}

#[test]
fn rebooting_node_counts_against_budgets_and_accepts_pods() {
    let mut world = repairing();
    let last_transition = world.snapshot.now;
    world
        .claim("claim-n-3")
        .status
        .conditions
        .push(model::node_claim::Condition {
            kind: "Rebooting".into(),
            status: ConditionStatus::True,
            reason: "RebootRequested".into(),
            message: String::new(),
            last_transition,
            observed_generation: None,
        });
    world.pool("default").disruption.budgets[0].nodes = "1".into();
    let violations = check(&world.snapshot, &world.plan);
    let text = "one more than the budgets of NodePool default allow";
    assert!(
        violations
            .iter()
            .any(|violation| violation.text.contains(text)),
        "{violations:?}"
    );
    let mut world = repairing();
    let taint = model::taint::Taint {
        key: "karpenter.sh/rebooting".into(),
        value: String::new(),
        effect: model::taint::TaintEffect::NoSchedule,
    };
    world.pool("default").disruption.budgets.clear();
    world.node("n-1").taints.push(taint);
    assert_ne!(check(&world.snapshot, &world.plan), []);
    world
        .claim("claim-n-1")
        .status
        .conditions
        .push(model::node_claim::Condition {
            kind: "Rebooting".into(),
            status: ConditionStatus::True,
            reason: "RebootIssued".into(),
            message: String::new(),
            last_transition,
            observed_generation: None,
        });
    assert_eq!(check(&world.snapshot, &world.plan), []);
}
