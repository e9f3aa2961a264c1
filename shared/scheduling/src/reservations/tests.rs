//! Reservations held by new nodes.

use model::{Offering, labels, pod::Pod, snapshot::ReservedOfferingMode};

use crate::{
    Reason, SolveResult,
    test_cluster::{TestCluster, ZONES, instance_type, offering, pod, pods, reserved},
};

const LABEL: &str = "example.com/reservation";

fn cluster(offerings: Vec<Offering>, pods: Vec<Pod>) -> TestCluster {
    let mut instance_type = instance_type("m", 4, 16, 10);
    instance_type.offerings = offerings;
    let mut cluster = TestCluster::new(vec![instance_type], pods);
    cluster.options.reserved = Some(ReservedOfferingMode::Strict);
    cluster.options.reservation_id_label = LABEL;
    cluster
}

fn in_zone(mut pod: Pod, zone: &str) -> Pod {
    pod.node_selector
        .insert(labels::ZONE.to_owned(), zone.to_owned());
    pod
}

/// Per new node, its pods and the reservations it may launch into.
fn held(result: &SolveResult) -> Vec<(Vec<usize>, Vec<String>)> {
    let nodes = result.new_nodes.iter().map(|node| {
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
    let result = cluster(vec![reserved("cr-a", a), reserved("cr-b", b)], pods).solve();
    assert!(result.unplaced.is_empty());
    assert_eq!(
        held(&result),
        [
            (vec![0, 1], vec!["cr-a".to_owned()]),
            (vec![2], vec!["cr-b".to_owned()])
        ]
    );
}

#[test]
fn pod_is_deferred_while_others_hold_its_reservation() {
    let pods = pods("web", 2, 3_000, 0);
    let result = cluster(vec![reserved("cr-a", ZONES[0])], pods).solve();
    assert_eq!(result.new_nodes.len(), 1);
    let [left] = result.unplaced.as_slice() else {
        panic!("{:?}", result.unplaced);
    };
    assert!(left.deferred);
    assert_eq!(left.reasons, [(Some(0), Reason::Reservation)]);
}

#[test]
fn pod_that_cannot_use_reservations_does_not_release_them() {
    let [a, b] = ZONES;
    let pods = vec![pod("anywhere", 2_000), in_zone(pod("other", 1_000), b)];
    let result = cluster(vec![reserved("cr-a", a), offering(b, 10)], pods).solve();
    assert!(result.unplaced.is_empty());
    assert_eq!(
        held(&result),
        [(vec![0], vec!["cr-a".to_owned()]), (vec![1], Vec::new())]
    );
}
