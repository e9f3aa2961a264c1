//! Launches into capacity reservations.

use fakes::{ReservedInstances, World};
use model::{CapacityType, catalog::Reservation};

use crate::{Scene, launch};

const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// A reservation of `total` instances of one type, which are all that launches may have.
async fn reserved(total: u32) -> Scene {
    let mut scene = Scene::new().await;
    let class = scene.classes.get_mut(&"default".into()).unwrap();
    let mut kind = class.types.first().cloned().unwrap();
    let mut offering = kind.offerings.first().cloned().unwrap();
    offering.capacity_type = CapacityType::Reserved;
    offering.reservation = Some(Reservation {
        id: "cr-1".to_owned(),
        capacity: total,
        is_full: false,
    });
    let held = ReservedInstances {
        instance_type: kind.name.clone(),
        zone: offering.zone.clone(),
        total,
    };
    kind.offerings = vec![offering];
    class.types = vec![kind].into();
    scene.sim.with(|world: &mut World| {
        world.account.reservations.insert("cr-1".to_owned(), held);
    });
    scene
}

/// Terminate-first disruptions, the end of capacity blocks and pods that select a reservation depend on that label.
#[tokio::test]
async fn node_claim_names_the_reservation_that_its_instance_runs_in() {
    let scene = reserved(1).await;
    let outcome = scene.launch(vec![scene.intend(launch("a"))]).await;
    assert_eq!(outcome.launched.len(), 1, "{outcome:#?}");
    let labels = scene.node_claim("a").labels;
    assert_eq!(labels.get(RESERVATION_ID).map(String::as_str), Some("cr-1"));
    assert_eq!(labels["karpenter.sh/capacity-type"], "reserved");
}

#[tokio::test]
async fn reservation_gives_no_more_instances_than_it_holds() {
    let scene = reserved(1).await;
    let intents = vec![scene.intend(launch("a")), scene.intend(launch("b"))];
    let outcome = scene.launch(intents).await;
    assert_eq!(scene.instances().len(), 1);
    assert_eq!(outcome.launched.len(), 1, "{outcome:#?}");
    assert_eq!(outcome.failed.len(), 1, "{outcome:#?}");
}
