//! Garbage collection of orphans, and of nothing else (docs/protocol.md#collecting).

use crate::{crash_after_first, run, with_pending_pods};
use fakes::{Fault, Tokens};
use model::{Lane, node::ConditionStatus, node_claim::NodeClaim};
use stories::{Relay, Rig, all_bound, consistent, secs, settled};

#[tokio::test]
async fn g1_g2_surplus_of_a_cloud_that_ignores_tokens_is_collected_after_two_sweeps() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.with(|world| {
        world.account.tokens = Tokens::Ignored;
        // EC2 does not show the launch until long after the call was repeated.
        world.account.describe_lag = secs(150);
    });
    rig.sim.fail_next("launch", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    assert!(
        rig.until(secs(600), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        assert_eq!(
            world.account.instances.len(),
            2,
            "the repetition launched again"
        )
    });
    let clean = rig
        .until(secs(900), |world| consistent(world) && settled(world))
        .await;
    assert!(clean.is_some(), "{:#?}", rig.transcript);
    assert!(rig.sim.with(all_bound), "the used one stays");
}

/// Four pods, each on its own node.
async fn with_four_nodes() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.scale(4);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig
}

#[tokio::test]
async fn g1_instances_of_an_open_attempt_are_not_collected() {
    // There are enough nodes that one more missing does not trigger the brake.
    let mut rig = with_four_nodes().await;
    rig.pass(secs(70)).await;
    rig.scale(5);
    rig.sim.advance(secs(1));
    crash_after_first(&mut rig, "launch").await;
    for _ in 0..10 {
        rig.sim.advance(secs(60));
        let turn = rig.next_turn();
        turns::housekeep(&rig.world, &turn).await.unwrap();
        rig.sim.take_wakes();
    }
    rig.sim
        .with(|world| assert_eq!(world.account.alive().count(), 5, "g1"));
}

#[tokio::test]
async fn g3_many_unexplained_absences_terminate_nothing() {
    let mut rig = with_four_nodes().await;
    rig.pass(secs(60)).await;
    rig.relay = Relay::Dead;
    rig.scale(0);
    rig.sim.with(|world| {
        world.api.deployments.clear();
        world.api.pods.clear();
        // The CRDs were deleted, or an old backup was restored.
        world.api.node_claims.clear();
        world.api.nodes.clear();
        for instance in world.account.instances.values_mut() {
            instance.private_dns = None;
        }
    });
    rig.pass(secs(900)).await;
    rig.sim
        .with(|world| assert_eq!(world.account.alive().count(), 4, "g3"));
    assert!(
        rig.transcript.iter().any(
            |line| line.contains("4 of 4 instances") && line.contains("nothing was terminated")
        ),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn g3_sweep_killed_after_collecting_has_counted_its_terminations() {
    let mut rig = with_four_nodes().await;
    rig.pass(secs(60)).await;
    let vanish = |world: &mut fakes::World| {
        let node = world.api.nodes.values_mut().find(|node| {
            let (_, id) = node.provider_id.rsplit_once('/').unwrap();
            world.account.instances.remove(&id.into()).is_some()
        });
        let node = node.unwrap();
        node.ready.status = ConditionStatus::Unknown;
        node.provider_id.clone()
    };
    rig.sim.with(vanish);
    rig.sim
        .with(|world| world.crash_after = Some("delete_node_claim"));
    rig.pass(secs(1200)).await;
    rig.sim
        .with(|world| assert_eq!(world.crash_after, None, "the deletion took effect"));
    let second = rig.sim.with(vanish);
    rig.pass(secs(1500)).await;
    rig.sim.with(|world| {
        let mut claims = world.api.node_claims.values();
        let stays =
            |claim: &NodeClaim| claim.status.provider_id == second && claim.deleted_at.is_none();
        assert!(claims.any(stays), "g3: two within an hour");
    });
}

#[tokio::test]
async fn instance_terminated_before_registration_is_replaced_within_minutes() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    let launched = |world: &mut fakes::World| world.account.alive().count() == 1;
    assert!(rig.until(secs(60), launched).await.is_some());
    let first = rig.sim.with(|world| {
        let id = world.account.alive().next().unwrap().id.clone();
        // No event announces the termination.
        world.account.terminate(&id, world.now);
        id
    });
    let served = rig.until(secs(480), all_bound).await;
    assert!(
        served.is_some(),
        "long before a registration times out: {:#?}",
        rig.transcript
    );
    rig.sim
        .with(|world| assert!(world.account.alive().all(|other| other.id != first)));
}

#[tokio::test]
async fn g4_unmanaged_instance_is_described_once_and_an_unknown_one_stays_in_the_queue() {
    let mut rig = Rig::ready(Relay::Dead).await;
    let spot = model::InterruptionKind::SpotInterrupted;
    let unknown = rig.announce(&"i-unknown".into(), spot, None).await;
    assert!(unknown.is_err(), "g4: absence proves nothing");
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let unmanaged = rig.sim.with(|world| {
        let mut instance = world.account.instances.values().next().unwrap().clone();
        instance.id = "i-stranger".into();
        instance.tags.clear();
        world
            .account
            .instances
            .insert(instance.id.clone(), instance.clone());
        instance.id
    });
    let report = rig.announce(&unmanaged, spot, None).await.unwrap();
    assert_eq!(report, turns::InterruptionReport::NotOurs);
    rig.sim.with(|world| world.calls.clear());
    rig.announce(&unmanaged, spot, None).await.unwrap();
    rig.sim.with(|world| {
        assert!(
            !world.calls.contains(&"describe_instances"),
            "g4: remembered"
        )
    });
}

#[tokio::test]
async fn g3_brake_releases_explained_absences() {
    let mut rig = with_four_nodes().await;
    rig.pass(secs(60)).await;
    let dead = rig.sim.with(|world| {
        let claims: Vec<NodeClaim> = world.api.node_claims.values().cloned().collect();
        let (dead, others) = claims.split_first().unwrap();
        let id = |claim: &NodeClaim| claim.status.provider_id.rsplit('/').next().unwrap().into();
        // EC2 reports this instance as terminated; the others are missing without an explanation.
        let instance = world.account.instances.get_mut(&id(dead)).unwrap();
        instance.state = model::launch::InstanceState::Terminated;
        instance.private_dns = None;
        for other in others {
            world.account.instances.remove(&id(other));
        }
        for node in world.api.nodes.values_mut() {
            node.ready.status = ConditionStatus::Unknown;
        }
        dead.clone()
    });
    let others = rig.sim.with(|world| world.api.node_claims.len()) - 1;
    let gone = |world: &mut fakes::World| !world.api.node_claims.contains_key(&dead.name);
    let took = rig.until(secs(900), gone).await;
    assert!(took.is_some(), "g3: {:#?}", rig.transcript);
    rig.sim.with(|world| {
        let kept = world.api.node_claims.values();
        let kept =
            kept.filter(|claim| !claim.status.provider_id.is_empty() && claim.deleted_at.is_none());
        assert!(kept.count() >= others, "g3: the unexplained stay");
    });
}
