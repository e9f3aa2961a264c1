//! Plans with few pods, for which only those pods' own rules require the topology check.

use super::*;

/// Violations of a plan with a single launch for pods of one workload, in a cluster without other pods.
fn only(mut world: World, kind: &str, at: usize) -> Vec<Violation> {
    let is_one = |name: &str| name.starts_with(kind);
    world.snapshot.pods.retain(|pod| is_one(&pod.key.name));
    let mut launch = world.plan.actions.swap_remove(at);
    if let Action::Launch(launch) = &mut launch.action {
        launch.pods.retain(|pod| is_one(&pod.key.name));
    }
    world.plan = Plan {
        actions: vec![launch],
        ..Plan::default()
    };
    check(&world.snapshot, &world.plan)
}

fn assert_violation(violations: &[Violation], text: &str) {
    let found = violations
        .iter()
        .any(|violation| violation.text.contains(text));
    assert!(found, "{violations:#?}");
}

#[test]
fn pods_with_mutual_anti_affinity_do_not_share_a_node() {
    let mut world = World::valid();
    let other = world.launch(ZONE_B).pods.remove(1);
    world.launch(ZONE_A).pods.push(other);
    assert_violation(&only(world, "apart-", ZONE_A), "against anti-affinity");
}

#[test]
fn affinity_of_a_lone_pod_to_other_pods_is_violated() {
    let mut world = World::valid();
    world.pod("follower-0").pod_affinity.required = vec![near("nobody", ZONE)];
    assert_violation(
        &only(world, "follower-", ZONE_A),
        "pod default/follower-0 has no pod that matches its affinity",
    );
}

#[test]
fn spread_pods_are_not_all_in_one_zone() {
    let mut world = World::valid();
    let other = world.launch(ZONE_C).pods.remove(0);
    world.launch(ZONE_A).pods.push(other);
    assert_violation(&only(world, "spread-", ZONE_A), "would be number");
}
