//! Launches that are under way already when somebody holds back all (docs/protocol.md#c4).

use fakes::{Fault, World};
use jiff::Timestamp;
use model::ledger::{PauseLevel, PauseScope};
use stories::{Relay, Rig, add_node_claim, all_bound, secs};

use crate::{alive, in_service, mode};

/// Somebody pauses everything for five minutes.
fn pause(world: &mut World, scope: PauseScope) {
    crate::pause(world, "ann", scope, PauseLevel::All, secs(300));
}

fn of_pool() -> PauseScope {
    PauseScope::NodePool("default".into())
}

fn scopes() -> [PauseScope; 3] {
    [PauseScope::Account, PauseScope::Cluster, of_pool()]
}

/// Within three minutes: a full look may come ten minutes later.
async fn pods_are_served(rig: &mut Rig, story: &str) {
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{story}: {:#?}", rig.transcript);
}

#[tokio::test]
async fn pods_that_wait_get_nodes_when_the_pause_ends_whoever_tells_of_it() {
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

/// A launch that is committed, and has come to nothing yet.
async fn left_behind() -> Rig {
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
async fn a_launch_that_a_turn_left_behind_waits_for_the_end_of_the_pause() {
    for scope in scopes() {
        let mut rig = left_behind().await;
        rig.sim.with(|world| pause(world, scope.clone()));
        rig.pass(secs(295)).await;
        assert_eq!(rig.sim.with(alive), 0, "{scope}: {:#?}", rig.transcript);
        pods_are_served(&mut rig, &scope.to_string()).await;
    }
}

#[tokio::test]
async fn a_launch_that_a_turn_left_behind_waits_while_its_node_pool_is_only_watched() {
    let mut rig = left_behind().await;
    mode(&rig, Some("shadow"));
    rig.pass(secs(600)).await;
    assert_eq!(rig.sim.with(alive), 0, "{:#?}", rig.transcript);
    mode(&rig, None);
    pods_are_served(&mut rig, "watched").await;
}

#[tokio::test]
async fn a_pause_counts_from_the_next_step_of_a_turn_on() {
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
async fn node_claims_that_were_made_by_hand_wait_for_the_end_of_the_pause() {
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
