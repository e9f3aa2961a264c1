//! Nothing works: the relay is dead, both lanes are busy, the API server does not answer.

use model::{Lane, ids::TurnId, ledger::Lease};
use stories::{Relay, Rig, all_bound, secs};

use crate::{claim_of, deliver, instances, is_deleting, is_tainted, running, spot};

/// What the terminator and the provisioner cannot do without.
const API_CALLS: [&str; 12] = [
    "node_claim",
    "node",
    "nodes",
    "node_claims",
    "node_pools",
    "node_classes",
    "pods",
    "leader_lease",
    "update_node",
    "delete_node_claim",
    "evict",
    "post_event",
];

#[tokio::test]
async fn with_the_relay_dead_the_pods_have_new_places_before_their_node_goes() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    let body = spot(&rig, &victim);
    deliver(&mut rig, &[body]).await;
    let elsewhere =
        |world: &mut fakes::World| all_bound(world) && claim_of(world, &victim).is_none();
    let took = rig.until(secs(120), elsewhere).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn the_replacement_is_bought_before_the_first_pod_is_pending() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    // Its pods may not be evicted by choice.
    rig.sim.with(|world| {
        for pod in world.api.pods.values_mut() {
            pod.annotations
                .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        }
    });
    let body = spot(&rig, &victim);
    deliver(&mut rig, &[body]).await;
    let bought = |world: &mut fakes::World| world.account.alive().count() == 2;
    assert!(
        rig.until(secs(3), bought).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim
        .with(|world| assert!(world.api.pods.values().all(|pod| pod.node_name.is_some())));
}

#[tokio::test]
async fn busy_lanes_delay_neither_the_taint_nor_the_deletion_and_look_again_when_they_end() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    let held = rig.sim.with(|world| world.now) + secs(30);
    for lane in [Lane::Provisioner, Lane::Terminator] {
        let lease = Lease {
            owner: TurnId("a slow turn".into()),
            until: held,
        };
        rig.sim.with(|world| {
            let row = world
                .ledger
                .of(&Rig::cluster())
                .lanes
                .entry(lane)
                .or_default();
            row.lease = Some(lease);
        });
    }
    let body = spot(&rig, &victim);
    deliver(&mut rig, &[body]).await;
    rig.sim
        .with(|world| assert!(is_tainted(world, &victim) && is_deleting(world, &victim)));
    rig.pass(secs(29)).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        for lane in [Lane::Provisioner, Lane::Terminator] {
            assert!(rows.lanes[&lane].again, "{lane} was told to look again");
        }
    });
    let elsewhere =
        |world: &mut fakes::World| all_bound(world) && claim_of(world, &victim).is_none();
    assert!(
        rig.until(secs(150), elsewhere).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn while_the_api_server_is_away_the_fact_stays_and_is_tried_every_few_seconds() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.with(|world| world.down.extend(API_CALLS));
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert!(delivery.kept.is_empty(), "the fact is on record");
    rig.sim.with(|world| {
        assert_eq!(
            world.ledger.unavailable.len(),
            1,
            "EC2 says what was interrupted"
        );
    });
    rig.pass(secs(70)).await;
    let alarms = rig
        .transcript
        .iter()
        .filter(|line| line.contains("alarm") && line.contains("cannot be drained"));
    assert!(alarms.count() >= 1, "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let mut metrics = world.metrics.iter();
        assert!(metrics.any(|metric| metric.name == "whittle_alarms_total"));
    });
    rig.sim.with(|world| world.down.clear());
    let seen = rig
        .until(secs(10), |world| {
            is_tainted(world, &victim) && is_deleting(world, &victim)
        })
        .await;
    assert!(seen.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn what_is_cut_short_is_told_to_the_owner_of_the_pod() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.with(|world| {
        for pod in world.api.pods.values_mut() {
            pod.termination_grace_seconds = Some(600);
        }
    });
    let body = spot(&rig, &victim);
    deliver(&mut rig, &[body]).await;
    rig.pass(secs(30)).await;
    rig.sim.with(|world| {
        let mut events = world.api.events.iter();
        let told = events.find(|event| event.reason == "Evicted").unwrap();
        assert!(
            told.message
                .contains("s of grace-period because its node goes then"),
            "{told:?}"
        );
    });
}
