//! Decisions that are dropped because they depend on a refused one.

use super::*;

/// Launches in one zone, each for a pod with affinity to the pod of the previous launch.
fn chain(length: usize) -> World {
    let mut world = World::valid();
    world.plan = Plan::default();
    for link in 0..length {
        let (name, before) = (
            format!("link{link}-0"),
            format!("link{}", link.wrapping_sub(1)),
        );
        let mut pod = pending(&name, 100);
        if link > 0 {
            pod.pod_affinity.required = vec![near(&before, ZONE)];
        }
        world.snapshot.pods.push(pod);
        let in_a = [one_of(ZONE, &["a"]), one_of(CAPACITY_TYPE, &["on-demand"])];
        let launch = launch_of(
            &world.snapshot,
            &format!("c{link}"),
            "default",
            &in_a,
            &[&name],
        );
        world.plan.actions.push(launch);
    }
    let late = nominate("late-0", "n-2");
    world.plan.nominations.push(late);
    assert_eq!(check(&world.snapshot, &world.plan), []);
    world.launch(0).spec.taints = vec![taint("surprise")];
    world
}

#[test]
fn chain_of_dependants_is_dropped_with_its_first_launch() {
    let world = chain(7);
    let checked = filter(&world.snapshot, world.plan);
    assert_eq!(checked.plan.actions, []);
    assert_eq!(checked.plan.nominations.len(), 1);
}

#[test]
fn nomination_to_earlier_launch_is_kept() {
    let mut world = World::valid();
    let in_flight = intent(world.launch(ZONAL).clone());
    world.snapshot.intents = vec![in_flight];
    world.plan.nominations[1].node = Expected::NodeClaim("on-its-way".into());
    world.launch(PLAIN).spec.taints = vec![taint("surprise")];
    let checked = filter(&world.snapshot, world.plan);
    assert_eq!(checked.plan.nominations.len(), 2);
}

#[test]
fn violation_names_its_decision() {
    let mut world = World::valid();
    world.plan.nominations[1].node = Expected::Node("gone".into());
    let violations = check(&world.snapshot, &world.plan);
    assert_eq!(
        violations[0].to_string(),
        "nomination 1: node/gone does not exist"
    );
}
