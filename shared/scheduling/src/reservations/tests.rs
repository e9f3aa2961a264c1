//! Reservations held by new nodes.

use model::{Offering, labels, pod::Pod, snapshot::ReservedOfferingMode};

use crate::{
    Reason, SolveResult,
    test_cluster::{TestCluster, ZONES, kind, offering, pod, pods, reserved},
};

const LABEL: &str = "example.com/reservation";

fn scene(offerings: Vec<Offering>, pods: Vec<Pod>) -> TestCluster {
    let mut kind = kind("m", 4, 16, 10);
    kind.offerings = offerings;
    let mut scene = TestCluster::new(vec![kind], pods);
    scene.options.reserved = Some(ReservedOfferingMode::Strict);
    scene.options.reservation_id_label = LABEL;
    scene
}

fn in_zone(mut pod: Pod, zone: &str) -> Pod {
    pod.node_selector
        .insert(labels::ZONE.to_owned(), zone.to_owned());
    pod
}

/// Per new node, its pods and the reservations it may launch into.
fn held(answer: &SolveResult) -> Vec<(Vec<usize>, Vec<String>)> {
    let nodes = answer.new_nodes.iter().map(|node| {
        let ids = node.requirements.get(LABEL).filter(|ids| !ids.complement);
        let ids = ids.into_iter().flat_map(|ids| ids.values.iter().cloned());
        (node.pods.clone(), ids.collect())
    });
    nodes.collect()
}

#[test]
fn reservation_is_released_when_a_node_can_no_longer_use_it() {
    let [a, b] = ZONES;
    let pods = vec![
        pod("anywhere", 3_000),
        in_zone(pod("first", 900), a),
        in_zone(pod("second", 800), b),
    ];
    let answer = scene(vec![reserved("cr-a", a), reserved("cr-b", b)], pods).solve();
    assert!(answer.unplaced.is_empty());
    assert_eq!(
        held(&answer),
        [
            (vec![0, 1], vec!["cr-a".to_owned()]),
            (vec![2], vec!["cr-b".to_owned()])
        ]
    );
}

#[test]
fn pod_is_deferred_while_others_hold_its_reservation() {
    let pods = pods("web", 2, 3_000, 0);
    let answer = scene(vec![reserved("cr-a", ZONES[0])], pods).solve();
    assert_eq!(answer.new_nodes.len(), 1);
    let [left] = answer.unplaced.as_slice() else {
        panic!("{:?}", answer.unplaced);
    };
    assert!(left.deferred);
    assert_eq!(left.reasons, [(Some(0), Reason::Reservation)]);
}

#[test]
fn pod_that_cannot_use_reservations_does_not_release_them() {
    let [a, b] = ZONES;
    let pods = vec![pod("anywhere", 2_000), in_zone(pod("other", 1_000), b)];
    let answer = scene(vec![reserved("cr-a", a), offering(b, 10)], pods).solve();
    assert!(answer.unplaced.is_empty());
    assert_eq!(
        held(&answer),
        [(vec![0], vec!["cr-a".to_owned()]), (vec![1], Vec::new())]
    );
}
