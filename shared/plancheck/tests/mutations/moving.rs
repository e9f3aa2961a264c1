//! Disruption of nodes with running pods.

use model::node_pool::ConsolidationPolicy;

use super::*;

/// The plan deletes a node with a pod, and moves the pod to another node.
fn moving() -> World {
    let mut world = World::valid();
    world.snapshot.pods.push(running("busy-0", 100, "n-4"));
    world.plan.nominations.push(nominate("busy-0", "n-1"));
    world
}

#[test]
fn node_may_be_deleted_if_its_pods_are_placed_elsewhere() {
    let world = moving();
    assert_eq!(check(&world.snapshot, &world.plan), []);
}

#[test]
fn moved_pods_are_subject_to_disruption_rules() {
    type Mutate = fn(&mut World);
    let spoiled: [(Mutate, &str); 6] = [
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
            "is not empty, but NodePool default consolidates empty nodes only",
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
        let violations = check(&world.snapshot, &world.plan);
        assert!(
            violations
                .iter()
                .any(|violation| violation.text.contains(text)),
            "{text}: {violations:?}"
        );
    }
}

#[test]
fn pods_do_not_block_drifted_node_with_grace_period() {
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
