//! Plans about few pods: nothing but their own rules says that these have to be looked at.

use super::*;

/// All that is planned is one launch, for pods of one kind, and nobody else is there.
fn only(mut world: World, kind: &str, at: usize) -> Vec<Offence> {
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

fn says(offences: &[Offence], text: &str) {
    let found = offences.iter().any(|one| one.text.contains(text));
    assert!(found, "{offences:#?}");
}

#[test]
fn pods_that_all_shun_each_other_do_not_share_a_node() {
    let mut world = World::valid();
    let other = world.launch(ZONE_B).pods.remove(1);
    world.launch(ZONE_A).pods.push(other);
    says(&only(world, "apart-", ZONE_A), "against anti-affinity");
}

#[test]
fn a_pod_that_is_alone_is_not_near_whom_it_wants() {
    let mut world = World::valid();
    world.pod("follower-0").pod_affinity.required = vec![near("nobody", ZONE)];
    says(
        &only(world, "follower-", ZONE_A),
        "pod default/follower-0 has no pod that it wants to be near",
    );
}

#[test]
fn pods_that_are_to_be_spread_are_not_all_in_one_zone() {
    let mut world = World::valid();
    let other = world.launch(ZONE_C).pods.remove(0);
    world.launch(ZONE_A).pods.push(other);
    says(&only(world, "spread-", ZONE_A), "would be number");
}
