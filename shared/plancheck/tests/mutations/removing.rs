//! Deletions, updates and terminations.

use super::*;

pub(crate) const MUTATIONS: &[Mutation] = &[
    (
        "a node that is not empty is deleted",
        |w| w.snapshot.pods.push(running("busy-0", 100, "n-4")),
        at(DELETE),
        "is not empty: pod default/busy-0",
    ),
    (
        "a node is deleted under a nominated pod",
        |w| w.plan.nominations.push(nominate("late-0", "n-4")),
        at(DELETE),
        "while pod default/late-0 is expected there",
    ),
    (
        "a node nominated earlier is deleted",
        |w| {
            w.snapshot
                .nominated
                .insert("n-4".into(), "2026-01-01T12:00:10Z".parse().unwrap());
        },
        at(DELETE),
        "is nominated for a pending pod",
    ),
    (
        "a node must not be disrupted",
        |w| w.node("n-4").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]),
        at(DELETE),
        "carries the annotation",
    ),
    (
        "a pod must not be disrupted",
        |w| w.pod("logs-n-4").annotations = labels(&[("karpenter.sh/do-not-disrupt", "2h")]),
        at(DELETE),
        "runs pod default/logs-n-4, which carries the annotation",
    ),
    (
        "a disruption budget keeps a pod",
        |w| {
            w.snapshot.disruption_budgets = vec![PodDisruptionBudget {
                key: key("logs"),
                selector: app("logs-n"),
                ..PodDisruptionBudget::default()
            }]
        },
        at(DELETE),
        "which a disruption budget keeps",
    ),
    (
        "a NodePool's budget is used up",
        |w| w.pool("default").disruption.budgets[0].nodes = "0".into(),
        at(DELETE),
        "one more than the budgets of NodePool default allow",
    ),
    (
        "another node is not ready and uses the budget",
        |w| w.node("n-2").ready.status = ConditionStatus::False,
        at(DELETE),
        "one more than the budgets",
    ),
    (
        "consolidation is off",
        |w| w.pool("default").disruption.consolidate_after = ConsolidateAfter::Never,
        at(DELETE),
        "may never be consolidated",
    ),
    (
        "consolidateAfter is not over",
        |w| w.pool("default").disruption.consolidate_after = ConsolidateAfter::Seconds(86_400),
        at(DELETE),
        "may not be consolidated yet",
    ),
    (
        "a NodeClaim was changed meanwhile",
        |w| w.delete_target().resource_version = "0".into(),
        at(DELETE),
        "is not the one that the plan was based on",
    ),
    (
        "a NodeClaim is gone",
        |w| w.delete_target().name = "claim-x".into(),
        at(DELETE),
        "NodeClaim claim-x does not exist",
    ),
    (
        "a NodeClaim is deleted twice",
        |w| {
            let twice = w.plan.actions[DELETE].clone();
            w.plan.actions.push(twice)
        },
        at(14),
        "is deleted or rebooted twice",
    ),
    (
        "a node was recreated",
        |w| w.node("n-1").uid = "other".into(),
        at(UPDATE_NODE),
        "node n-1 is not the one that the plan was based on",
    ),
    (
        "a node is not ours",
        |w| {
            w.claim("claim-n-1").status.provider_id.clear();
            w.node("n-1").labels.clear();
            w.node("n-1").provider_id = "x".into()
        },
        at(UPDATE_NODE),
        "node n-1 is not managed",
    ),
    (
        "a finalizer is removed too early",
        |w| {
            let live = "claim-n-1";
            w.update(UPDATE_CLAIM).name = live.into();
            w.update(UPDATE_CLAIM).uid = format!("{live}-uid").into()
        },
        at(UPDATE_CLAIM),
        "loses its finalizer but is not being deleted",
    ),
    (
        "a finalizer is removed while a launch is open",
        |w| {
            let mut launch = w.launch(PLAIN).clone();
            launch.name = "claim-n-3".into();
            launch.pods.clear();
            w.snapshot.intents = vec![intent(launch)]
        },
        at(UPDATE_CLAIM),
        "while it may still be launched",
    ),
    (
        "a pod is evicted from a node that stays",
        |w| w.claim("claim-n-3").deleted_at = None,
        at(EVICT),
        "its node stays",
    ),
    (
        "a protected pod is evicted",
        |w| w.pod("moving-0").annotations = labels(&[("karpenter.sh/do-not-disrupt", "true")]),
        at(EVICT),
        "may not be evicted",
    ),
    (
        "another pod of the name is evicted",
        |w| w.pod("moving-0").uid = "other".into(),
        at(EVICT),
        "is not the one that the plan was based on",
    ),
    (
        "a pod is deleted past its budgets",
        |w| {
            w.pod("stuck-0").deletion = None;
            w.claim("claim-n-3").annotations.clear()
        },
        at(DELETE_POD),
        "is deleted without eviction",
    ),
    (
        "an instance in use is terminated",
        |w| w.claim("claim-n-3").deleted_at = None,
        at(TERMINATE),
        "is not being deleted",
    ),
    (
        "another instance is terminated",
        |w| w.claim("claim-n-3").status.provider_id = "aws:///c/i-other".into(),
        at(TERMINATE),
        "that of NodeClaim claim-n-3 is i-other",
    ),
];

#[test]
fn nodes_deleted_by_the_plan_do_not_count_against_limits() {
    let mut world = World::valid();
    let limited = |world: &mut World, cpu: i64| {
        world.pool("default").limits = Resources::from([("cpu", cpu)]);
        check(&world.snapshot, &world.plan)
    };
    let mut limits = (1..=30).map(|number| number * 4_000);
    let least = limits.find(|cpu| limited(&mut world, *cpu).is_empty());
    let actions = &mut world.plan.actions;
    actions.retain(|planned| planned.action.deletion().is_none());
    let violations = limited(&mut world, least.unwrap());
    assert!(
        violations
            .iter()
            .any(|violation| violation.text.contains("is limited to")),
        "{violations:?}"
    );
}
