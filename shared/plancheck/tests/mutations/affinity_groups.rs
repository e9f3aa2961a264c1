//! Pods that want to be near their own kind: who may come first.

use model::snapshot::Optimize;

use super::*;

/// Whether the herd may be together in zone c, where one of its kind runs in zone a.
fn may_begin_again(optimize: Optimize, selector: &[(&str, &str)]) -> bool {
    let mut world = World::valid();
    world.snapshot.settings.optimize = optimize;
    let mut old = running("herd-9", 100, "n-1");
    old.labels = labels(&[("app", "herd")]);
    world.snapshot.pods.push(old);
    for pod in ["herd-0", "herd-1"] {
        world.pod(pod).node_selector = labels(selector);
    }
    let refused = world.refusals();
    !refused
        .iter()
        .any(|text| text.contains("herd-0 has no pod"))
}

#[test]
fn the_first_of_its_kind_is_the_first_anywhere() {
    let in_c = [(ZONE, "c")];
    assert!(!may_begin_again(Optimize::Cost, &in_c));
    assert!(!may_begin_again(Optimize::Cost, &[]));
    // To upstream, those that it cannot join do not matter.
    assert!(may_begin_again(Optimize::Upstream, &in_c));
    assert!(!may_begin_again(Optimize::Upstream, &[]));
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
