//! Nodes that go because they stay unhealthy.

use model::node::NodeCondition;

use super::*;

/// The plan deletes a node of four whose accelerator fails for an hour, and has a place for its pod.
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
    ill(&mut world, "n-4", "XID79", 60);
    world
}

fn ill(world: &mut World, node: &str, reason: &str, minutes: i64) {
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
fn node_that_stays_unhealthy_goes_whatever_forbids_to_disrupt_it() {
    let world = repairing();
    assert_eq!(check(&world.snapshot, &world.plan), []);
    let mut known = repairing();
    known.node("n-4").conditions.clear();
    ill(&mut known, "n-4", "XID79", 11);
    assert_eq!(check(&known.snapshot, &known.plan), []);
}

#[test]
fn unready_nodes_use_up_no_budget_of_repair() {
    let mut world = repairing();
    world.pool("default").disruption.budgets[0].nodes = "1".into();
    world.node("n-3").ready.status = ConditionStatus::False;
    world.node("n-3").ready.since = None;
    let told = check(&world.snapshot, &world.plan);
    assert!(
        told.iter().all(|one| !one.text.contains("budgets")),
        "{told:?}"
    );
}

#[test]
fn repair_is_held_to_its_rules() {
    type Spoil = fn(&mut World);
    let spoiled: [(Spoil, &str); 8] = [
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
                ill(w, "n-4", "XID790", 11);
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
            |w| ill(w, "n-3", "Unheard", 0),
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
        let offences = check(&world.snapshot, &world.plan);
        let told = offences.iter().any(|offence| offence.text.contains(text));
        assert!(told, "{text}: {offences:?}");
    }
}

#[test]
fn node_that_gives_its_instance_back_to_a_reservation_goes_first_where_its_gate_lets_it() {
    let told = |reserved: bool, gate: &str| {
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
        let offences = check(&world.snapshot, &world.plan);
        offences
            .iter()
            .any(|one| one.text.contains("has no other place"))
    };
    assert!(!told(true, "TerminateFirstRepair"));
    assert!(told(true, "TerminateFirstDrift"), "each for its own reason");
    assert!(
        told(false, "TerminateFirstRepair"),
        "elsewhere a place is looked for first"
    );
}

#[test]
fn node_that_is_not_ready_goes_by_choice_only_where_nodes_are_repaired_by_choice() {
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
    let told = unready(true);
    assert!(
        told.iter().any(|one| one.text.contains("budgets")),
        "{told:?}"
    );
}
