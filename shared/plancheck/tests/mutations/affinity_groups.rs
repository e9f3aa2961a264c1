//! Pods with affinity to their own workload: which of them may be the first.

use model::snapshot::Optimize;

use super::*;

/// Whether two new pods with affinity to each other may be placed in zone c while a matching pod runs in zone a.
fn may_start_again(optimize: Optimize, selector: &[(&str, &str)]) -> bool {
    let mut world = World::valid();
    world.snapshot.settings.optimize = optimize;
    let mut old = running("peer-9", 100, "n-1");
    old.labels = labels(&[("app", "peer")]);
    world.snapshot.pods.push(old);
    for pod in ["peer-0", "peer-1"] {
        world.pod(pod).node_selector = labels(selector);
    }
    let refused = world.refusals();
    !refused
        .iter()
        .any(|text| text.contains("peer-0 has no pod"))
}

#[test]
fn first_matching_pod_is_first_in_the_whole_cluster() {
    let in_c = [(ZONE, "c")];
    assert!(!may_start_again(Optimize::Cost, &in_c));
    assert!(!may_start_again(Optimize::Cost, &[]));
    // In upstream mode, matching pods in domains closed to the pod are ignored.
    assert!(may_start_again(Optimize::Upstream, &in_c));
    assert!(!may_start_again(Optimize::Upstream, &[]));
}

/// A plan with a matching pod without affinity in zone b.
fn beside_a_new_one_in_zone_b() -> World {
    let mut world = World::valid();
    world.pod("zonal-0").labels = labels(&[("app", "peer")]);
    world
}

#[test]
fn group_may_start_before_matching_pod_is_placed_elsewhere() {
    assert_eq!(beside_a_new_one_in_zone_b().refusals(), [""; 0]);
}

#[test]
fn group_starts_after_other_pods_it_has_affinity_to() {
    let mut world = beside_a_new_one_in_zone_b();
    for pod in ["peer-0", "peer-1"] {
        let wanted = &mut world.pod(pod).pod_affinity.required;
        wanted.push(near("spread", ZONE));
    }
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn group_starts_before_matching_pod_that_joins_others_elsewhere() {
    let mut world = World::valid();
    for (pod, wanted) in [("zonal-0", "peer"), ("apart-0", "follower")] {
        world.pod(pod).labels = labels(&[("app", "peer")]);
        world.pod(pod).pod_affinity.required = vec![near(wanted, ZONE)];
        world.pod(pod).pod_anti_affinity.required.clear();
    }
    for pod in ["peer-0", "peer-1"] {
        world.pod(pod).labels = labels(&[("app", "other")]);
        world.pod(pod).pod_affinity.required.clear();
    }
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn several_groups_may_each_start_first() {
    let mut world = beside_a_new_one_in_zone_b();
    for pod in ["apart-0", "port-1"] {
        world.pod(pod).labels = labels(&[("app", "second")]);
    }
    world.pod("apart-0").pod_anti_affinity.required.clear();
    world.pod("apart-0").pod_affinity.required = vec![near("second", ZONE)];
    assert_eq!(world.refusals(), [""; 0]);
}

#[test]
fn group_starts_only_once() {
    let mut world = beside_a_new_one_in_zone_b();
    let moved = world.launch(ZONE_C).pods.pop().unwrap();
    world.launch(ZONE_A).pods.push(moved);
    let refused = world.refusals();
    assert!(
        matches!(&refused[..], [one] if one.contains("peer-0 has no pod")),
        "{refused:?}"
    );
}
