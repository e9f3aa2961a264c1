//! Nodes that go although pods run on them.

use model::node_pool::ConsolidationPolicy;

use super::*;

/// The node that the plan deletes runs a pod, and the plan has another place for it.
fn moving() -> World {
    let mut world = World::valid();
    world.snapshot.pods.push(running("busy-0", 100, "n-4"));
    world.plan.nominations.push(nominate("busy-0", "n-1"));
    world
}

#[test]
fn a_node_may_go_if_its_pods_have_other_places() {
    let world = moving();
    assert_eq!(check(&world.snapshot, &world.plan), []);
}

#[test]
fn what_moves_is_held_to_the_rules_of_who_may_be_disturbed() {
    type Spoil = fn(&mut World);
    let spoiled: [(Spoil, &str); 6] = [
        (
            |w| w.snapshot.pods.push(running("busy-1", 100, "n-4")),
            "is not empty: pod default/busy-1 has no other place",
        ),
        (
            |w| w.pod("busy-0").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]),
            "runs pod default/busy-0, which carries the annotation",
        ),
        (
            |w| {
                w.snapshot.disruption_budgets = vec![PodDisruptionBudget {
                    key: key("busy"),
                    selector: app("busy"),
                    ..PodDisruptionBudget::default()
                }]
            },
            "runs pod default/busy-0, which a disruption budget keeps",
        ),
        (
            |w| w.pool("default").disruption.policy = ConsolidationPolicy::WhenEmpty,
            "is not empty, as NodePool default wants nodes to be that go",
        ),
        (
            |w| {
                let budgets = &mut w.pool("default").disruption.budgets;
                budgets[0].nodes = "0".into();
                budgets[0].reasons = vec!["Underutilized".into()];
            },
            "one more than the budgets of NodePool default allow",
        ),
        (
            |w| w.pod("busy-0").requests.set("cpu", 1_000_000),
            "pod default/busy-0 does not fit node n-1",
        ),
    ];
    for (spoil, text) in spoiled {
        let mut world = moving();
        spoil(&mut world);
        let offences = check(&world.snapshot, &world.plan);
        assert!(
            offences.iter().any(|offence| offence.text.contains(text)),
            "{text}: {offences:?}"
        );
    }
}

#[test]
fn a_drifted_node_with_a_grace_period_goes_whatever_its_pods_say() {
    let mut world = moving();
    world.pod("busy-0").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]);
    let claim = world.claim("claim-n-4");
    claim.spec.termination_grace_period = Some("1h".into());
    let mut drifted = claim.status.conditions[0].clone();
    drifted.kind = "Drifted".into();
    claim.status.conditions.push(drifted);
    world.plan.nominations.pop();
    assert_eq!(check(&world.snapshot, &world.plan), []);
}
