//! Nodes with an announced end: their NodePool may choose to cordon them, and capacity blocks announce theirs by their end time.

use api::karpenter::{
    CapacityReservation, CapacityReservationState, CapacityReservationType, InstanceMatchCriteria,
};
use fakes::Fault;
use jiff::Timestamp;
use model::{InstanceId, InterruptionKind};
use stories::{Relay, Rig, all_bound, secs};

use crate::{
    annotate, claim_of, counts, deliver, event, instances, is_cordoned, is_deleting, is_tainted,
    running, spot, state,
};

#[tokio::test]
async fn cordon_action_taints_the_node_and_launches_capacity_without_evictions() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    annotate(&rig, "whittle.sh/interruption", "cordon");
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    rig.sim.with(|world| {
        assert!(is_cordoned(world, &victim));
        assert!(!is_deleting(world, &victim) && !is_tainted(world, &victim));
    });
    let launched = |world: &mut fakes::World| world.account.alive().count() == 2;
    assert!(rig.until(secs(60), launched).await.is_some());
    rig.pass(secs(50)).await;
    rig.sim.with(|world| assert!(!is_deleting(world, &victim)));
    rig.sim.with(|world| {
        let now = world.now;
        world.account.terminate(&victim, now);
    });
    let body = state(&rig, &victim, "shutting-down");
    deliver(&mut rig, &[body]).await;
    let moved = |world: &mut fakes::World| all_bound(world) && claim_of(world, &victim).is_none();
    let took = rig.until(secs(120), moved).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn node_of_deleted_node_pool_is_drained_by_terminator() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    annotate(&rig, "whittle.sh/interruption", "cordon");
    rig.sim.fail_next("node_pools", Fault::Throttled);
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert!(delivery.kept.is_empty(), "the fact is recorded");
    rig.sim
        .with(|world| assert!(!is_deleting(world, &victim) && !is_cordoned(world, &victim)));
    let cordoned = |world: &mut fakes::World| is_cordoned(world, &victim);
    let took = rig.until(secs(5), cordoned).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| assert!(!is_deleting(world, &victim)));
}

#[tokio::test]
async fn notice_of_an_instance_that_stays_past_its_deadline_expires() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    annotate(&rig, "whittle.sh/interruption", "cordon");
    let kind = InterruptionKind::ScheduledChange;
    let outcome = rig.announce(&victim, kind, Some(secs(60))).await;
    assert!(outcome.is_ok());
    let open = |world: &mut fakes::World| {
        let notices = &world.ledger.of(&Rig::cluster()).notices;
        notices.values().any(|notice| !notice.done)
    };
    rig.pass(secs(150)).await;
    assert!(rig.sim.with(open), "the deadline has just passed");
    rig.pass(secs(150)).await;
    assert!(!rig.sim.with(open), "{:#?}", rig.transcript);
}

/// Puts the node into the capacity block that the only NodeClass of the cluster selects.
fn in_block(rig: &Rig, node: &InstanceId, end: Timestamp) {
    let block = CapacityReservation {
        availability_zone: "us-east-1a".into(),
        end_time: Some(end),
        id: "cr-0block".into(),
        instance_match_criteria: InstanceMatchCriteria::Targeted,
        instance_type: "m5.xlarge".into(),
        interruptible: Some(false),
        owner_id: "123456789012".into(),
        reservation_type: CapacityReservationType::CapacityBlock,
        state: CapacityReservationState::Active,
    };
    rig.sim.with(|world| {
        let class = world.api.node_classes.get_mut("default").unwrap();
        let status = class.status.as_mut().unwrap();
        status.capacity_reservations = Some(vec![block]);
        let name = claim_of(world, node).unwrap().name;
        let claim = world.api.node_claims.get_mut(&name).unwrap();
        let key = api::names::label::CAPACITY_RESERVATION_ID;
        claim.labels.insert(key.into(), "cr-0block".into());
    });
}

#[tokio::test]
async fn nodes_of_a_capacity_block_are_drained_forty_minutes_before_its_end() {
    let mut rig = running(Relay::Watching, 2).await;
    let all = instances(&rig);
    let end = rig.sim.with(|world| world.now) + secs(3600);
    in_block(&rig, &all[0], end);
    rig.pass(secs(19 * 60)).await;
    rig.sim.with(|world| assert!(!is_deleting(world, &all[0])));
    rig.sim.with(|world| world.calls.clear());
    let deleting = |world: &mut fakes::World| is_deleting(world, &all[0]);
    assert!(rig.until(secs(75), deleting).await.is_some());
    rig.sim.with(|world| {
        let left = end.duration_since(world.now);
        assert!(left <= secs(40 * 60) && left > secs(39 * 60), "{left}");
        assert!(is_tainted(world, &all[0]) && !is_deleting(world, &all[1]));
        let notices = world.ledger.of(&Rig::cluster()).notices.values();
        let deadlines: Vec<_> = notices.map(|notice| notice.deadline).collect();
        let taken_back = end - secs(30 * 60);
        assert_eq!(deadlines, [Some(taken_back)], "EC2 takes instances back");
        let reported = world.api.events.iter();
        let reported = reported.filter(|event| event.reason == "CapacityBlockExpiring");
        assert_eq!(reported.count(), 2, "on the NodeClaim and the Node");
    });
    let moved = |world: &mut fakes::World| all_bound(world) && claim_of(world, &all[0]).is_none();
    let took = rig.until(secs(9 * 60), moved).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn announced_end_of_a_block_without_a_node_class_drains_its_nodes() {
    let mut rig = running(Relay::Dead, 2).await;
    let all = instances(&rig);
    rig.sim.with(|world| {
        let instance = world.account.instances.get_mut(&all[0]).unwrap();
        instance.reservation = Some("cr-0block".into());
    });
    let end = rig.sim.with(|world| world.now) + secs(40 * 60);
    let body = event(
        &rig,
        "Capacity Block Reservation Expiration Warning",
        serde_json::json!({ "capacity-reservation-id": "cr-0block", "end-date": end.to_string() }),
    );
    // A failing read does not prove that the block is empty.
    rig.sim
        .fail_next("instances_of_reservation", Fault::Throttled);
    let delivery = deliver(&mut rig, std::slice::from_ref(&body)).await;
    assert!(
        delivery.kept["0"].contains("throttles"),
        "{:?}",
        delivery.kept
    );
    rig.sim.with(|world| world.calls.clear());
    let urgent = spot(&rig, &all[1]);
    let delivery = deliver(&mut rig, &[body, urgent]).await;
    assert_eq!(
        counts(&delivery),
        [
            ("capacity_block_expiring/recorded", 1),
            ("spot_interrupted/recorded", 1)
        ]
    );
    rig.sim.with(|world| {
        let at = |call: &str| world.calls.iter().position(|other| *other == call);
        assert!(at("record_unfenced") < at("instances_of_reservation"));
    });
    rig.sim.with(|world| {
        assert!(is_tainted(world, &all[0]) && is_deleting(world, &all[0]));
        let mut notices = world.ledger.of(&Rig::cluster()).notices.values();
        let of_block = notices.find(|notice| notice.instance == all[0]).unwrap();
        let taken_back = end - secs(30 * 60);
        assert_eq!(of_block.deadline, Some(taken_back));
    });
    let moved = |world: &mut fakes::World| all_bound(world) && claim_of(world, &all[0]).is_none();
    let took = rig.until(secs(9 * 60), moved).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn end_of_an_empty_capacity_block_changes_nothing() {
    let mut rig = running(Relay::Dead, 1).await;
    let body = event(
        &rig,
        "Capacity Block Expiration Warning",
        serde_json::json!({ "capacity-reservation-id": "cr-0other" }),
    );
    let delivery = deliver(&mut rig, &[body]).await;
    assert!(delivery.kept.is_empty());
    assert_eq!(counts(&delivery), [("block-without-nodes", 1)]);
}
