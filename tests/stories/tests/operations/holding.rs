//! Launches that are in flight when a pause begins (docs/protocol.md#c4).

use fakes::{Fault, World};
use jiff::Timestamp;
use model::ledger::{PauseLevel, PauseScope};
use stories::{Relay, Rig, add_node_claim, all_bound, secs};

use crate::{alive, in_service, mode};

/// Pauses everything in the scope for five minutes.
fn pause(world: &mut World, scope: PauseScope) {
    crate::pause(world, "ann", scope, PauseLevel::All, secs(300));
}

fn of_pool() -> PauseScope {
    PauseScope::NodePool("default".into())
}

fn scopes() -> [PauseScope; 3] {
    [PauseScope::Account, PauseScope::Cluster, of_pool()]
}

/// Waits three minutes for the pods; a full look may come only ten minutes later.
async fn pods_are_served(rig: &mut Rig, story: &str) {
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{story}: {:#?}", rig.transcript);
}

#[tokio::test]
async fn pending_pods_get_nodes_when_a_pause_ends() {
    for scope in scopes() {
        let mut rig = Rig::ready(Relay::Dead).await;
        rig.sim.with(|world| pause(world, scope.clone()));
        rig.scale(1);
        rig.sim.with(|world| {
            let rows = world.ledger.of(&Rig::cluster());
            rows.make_due(model::Lane::Provisioner, Timestamp::UNIX_EPOCH);
        });
        rig.pass(secs(295)).await;
        assert_eq!(rig.sim.with(alive), 0, "{scope}: {:#?}", rig.transcript);
        pods_are_served(&mut rig, &scope.to_string()).await;
    }
}

/// A committed launch that has not been carried out.
async fn unfinished_launch() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.fail_next("launch", Fault::Unavailable);
    rig.scale(1);
    let left = |world: &mut World| {
        let intents = &world.ledger.of(&Rig::cluster()).intents;
        intents.values().any(model::ledger::Intent::is_in_flight)
    };
    assert!(rig.until(secs(120), left).await.is_some());
    assert_eq!(rig.sim.with(alive), 0, "{:#?}", rig.transcript);
    rig
}

#[tokio::test]
async fn unfinished_launch_waits_for_the_end_of_a_pause() {
    for scope in scopes() {
        let mut rig = unfinished_launch().await;
        rig.sim.with(|world| pause(world, scope.clone()));
        rig.pass(secs(295)).await;
        assert_eq!(rig.sim.with(alive), 0, "{scope}: {:#?}", rig.transcript);
        pods_are_served(&mut rig, &scope.to_string()).await;
    }
}

#[tokio::test]
async fn unfinished_launch_waits_while_its_node_pool_is_in_shadow_mode() {
    let mut rig = unfinished_launch().await;
    mode(&rig, Some("shadow"));
    rig.pass(secs(600)).await;
    assert_eq!(rig.sim.with(alive), 0, "{:#?}", rig.transcript);
    mode(&rig, None);
    pods_are_served(&mut rig, "watched").await;
}

#[tokio::test]
async fn pause_takes_effect_at_the_next_step_of_a_turn() {
    // Before the plan is committed, and before it is carried out.
    for call in ["pod", "create_node_claim"] {
        let mut rig = Rig::ready(Relay::Watching).await;
        rig.sim.with(|world| {
            world.on_call = Some((call, |world| pause(world, of_pool())));
        });
        rig.scale(1);
        rig.pass(secs(295)).await;
        assert_eq!(rig.sim.with(alive), 0, "{call}: {:#?}", rig.transcript);
        pods_are_served(&mut rig, call).await;
    }
}

#[tokio::test]
async fn manual_node_claims_wait_for_the_end_of_a_pause() {
    for scope in scopes() {
        let mut rig = in_service(1).await;
        rig.sim.with(|world| {
            pause(world, scope.clone());
            add_node_claim(world, "by-hand", |_| {});
        });
        rig.pass(secs(295)).await;
        assert_eq!(rig.sim.with(alive), 1, "{scope}: {:#?}", rig.transcript);
        let launched = rig.until(secs(180), |world| alive(world) == 2).await;
        assert!(launched.is_some(), "{scope}: {:#?}", rig.transcript);
    }
}
