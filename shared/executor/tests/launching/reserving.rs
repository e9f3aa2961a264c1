//! Launches into capacity reservations.

use fakes::{ReservedInstances, World};
use model::{CapacityType, catalog::Reservation};

use crate::{TestCluster, launch};

const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// A reservation of `total` instances of one type, which are all that launches may have.
async fn reserved(total: u32) -> TestCluster {
    let mut test_cluster = TestCluster::new().await;
    let class = test_cluster.classes.get_mut(&"default".into()).unwrap();
    let mut instance_type = class.types.first().cloned().unwrap();
    let mut offering = instance_type.offerings.first().cloned().unwrap();
    offering.capacity_type = CapacityType::Reserved;
    offering.reservation = Some(Reservation {
        id: "cr-1".to_owned(),
        capacity: total,
        is_full: false,
    });
    let held = ReservedInstances {
        instance_type: instance_type.name.clone(),
        zone: offering.zone.clone(),
        total,
    };
    instance_type.offerings = vec![offering];
    class.types = vec![instance_type].into();
    test_cluster.sim.with(|world: &mut World| {
        world.account.reservations.insert("cr-1".to_owned(), held);
    });
    test_cluster
}

/// Terminate-first disruptions, the end of capacity blocks and pods that select a reservation depend on that label.
#[tokio::test]
async fn node_claim_names_the_reservation_that_its_instance_runs_in() {
    let test_cluster = reserved(1).await;
    let outcome = test_cluster
        .launch(vec![test_cluster.intend(launch("a"))])
        .await;
    assert_eq!(outcome.launched.len(), 1, "{outcome:#?}");
    let labels = test_cluster.node_claim("a").labels;
    assert_eq!(labels.get(RESERVATION_ID).map(String::as_str), Some("cr-1"));
    assert_eq!(labels["karpenter.sh/capacity-type"], "reserved");
}

#[tokio::test]
async fn reservation_gives_no_more_instances_than_it_holds() {
    let test_cluster = reserved(1).await;
    let intents = vec![
        test_cluster.intend(launch("a")),
        test_cluster.intend(launch("b")),
    ];
    let outcome = test_cluster.launch(intents).await;
    assert_eq!(test_cluster.instances().len(), 1);
    assert_eq!(outcome.launched.len(), 1, "{outcome:#?}");
    assert_eq!(outcome.failed.len(), 1, "{outcome:#?}");
}
