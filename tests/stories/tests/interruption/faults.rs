//! Interruptions while everything fails: the relay is dead, both lanes are busy, the API server does not answer.

use model::{Lane, ids::TurnId, ledger::Lease};
use stories::{Relay, Rig, all_bound, secs};

use crate::{claim_of, deliver, instances, is_deleting, is_tainted, running, spot};

/// Calls that the terminator and the provisioner depend on.
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
async fn pods_are_rescheduled_before_the_reclaim_without_a_relay() {
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
async fn replacement_is_launched_before_the_first_pod_is_pending() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    // A budget forbids voluntary evictions of the pods.
    rig.sim.with(|world| {
        for pod in world.api.pods.values_mut() {
            pod.annotations
                .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        }
    });
    let body = spot(&rig, &victim);
    deliver(&mut rig, &[body]).await;
    let launched = |world: &mut fakes::World| world.account.alive().count() == 2;
    assert!(
        rig.until(secs(3), launched).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim
        .with(|world| assert!(world.api.pods.values().all(|pod| pod.node_name.is_some())));
}

#[tokio::test]
async fn busy_lanes_delay_neither_taint_nor_deletion_and_run_again_afterwards() {
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
            assert!(rows.lanes[&lane].again, "{lane} is marked for repetition");
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
async fn notice_is_retried_every_few_seconds_while_the_api_server_is_down() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.with(|world| world.down.extend(API_CALLS));
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert!(delivery.kept.is_empty(), "the fact is recorded");
    rig.sim.with(|world| {
        assert_eq!(
            world.ledger.unavailable.len(),
            1,
            "EC2 reports the interruption"
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
async fn shortened_grace_period_is_an_event_on_the_pod() {
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
        let reported = events.find(|event| event.reason == "Evicted").unwrap();
        assert!(
            reported
                .message
                .contains("s of grace-period because its node is terminated then"),
            "{reported:?}"
        );
    });
}
