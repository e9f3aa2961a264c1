//! Pods that want to be near their own kind: who may come first.

use super::*;

/// The herd wants to be together in zone c, and one of its kind runs in zone a.
fn beside_one_in_zone_a(selector: &[(&str, &str)]) -> Vec<String> {
    let mut world = World::valid();
    let mut old = running("herd-9", 100, "n-1");
    old.labels = labels(&[("app", "herd")]);
    world.snapshot.pods.push(old);
    for pod in ["herd-0", "herd-1"] {
        world.pod(pod).node_selector = labels(selector);
    }
    world.refusals()
}

#[test]
fn the_first_where_its_kind_can_go_needs_no_other() {
    assert_eq!(beside_one_in_zone_a(&[(ZONE, "c")]), [""; 0]);
    let refused = beside_one_in_zone_a(&[]);
    assert!(refused[0].contains("herd-0 has no pod"), "{refused:?}");
}

/// A new pod in zone b is of the herd's kind and wants to be near nobody.
fn beside_a_new_one_in_zone_b() -> World {
    let mut world = World::valid();
    world.pod("zonal-0").labels = labels(&[("app", "herd")]);
    world
}

#[test]
fn a_herd_may_begin_before_a_pod_of_its_kind_comes_elsewhere() {
    assert_eq!(beside_a_new_one_in_zone_b().refusals(), [""; 0]);
}

#[test]
fn it_begins_after_other_pods_that_it_wants_to_be_near() {
    let mut world = beside_a_new_one_in_zone_b();
    for pod in ["herd-0", "herd-1"] {
        let wanted = &mut world.pod(pod).pod_affinity.required;
        wanted.push(near("spread", ZONE));
    }
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn it_begins_before_a_pod_of_its_kind_that_finds_another_elsewhere() {
    let mut world = World::valid();
    for (pod, wanted) in [("zonal-0", "herd"), ("apart-0", "follower")] {
        world.pod(pod).labels = labels(&[("app", "herd")]);
        world.pod(pod).pod_affinity.required = vec![near(wanted, ZONE)];
        world.pod(pod).pod_anti_affinity.required.clear();
    }
    for pod in ["herd-0", "herd-1"] {
        world.pod(pod).labels = labels(&[("app", "other")]);
        world.pod(pod).pod_affinity.required.clear();
    }
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn several_herds_may_each_begin_first() {
    let mut world = beside_a_new_one_in_zone_b();
    for pod in ["apart-0", "port-1"] {
        world.pod(pod).labels = labels(&[("app", "second")]);
    }
    world.pod("apart-0").pod_anti_affinity.required.clear();
    world.pod("apart-0").pod_affinity.required = vec![near("second", ZONE)];
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn it_begins_once() {
    let mut world = beside_a_new_one_in_zone_b();
    let moved = world.launch(ZONE_C).pods.pop().unwrap();
    world.launch(ZONE_A).pods.push(moved);
    let refused = world.refusals();
    assert!(
        matches!(&refused[..], [one] if one.contains("herd-0 has no pod")),
        "{refused:?}"
    );
}
