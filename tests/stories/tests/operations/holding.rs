//! What is under way already when somebody holds back all that is launched (PROTOCOL C4).

use fakes::{Fault, World};
use jiff::Timestamp;
use model::{
    ledger::{Pause, PauseLevel, PauseScope},
    node_claim::NodeClaimStatus,
};
use stories::{Relay, Rig, all_bound, secs};

use crate::alive;

/// Five minutes, from now on.
fn pause(world: &mut World, scope: PauseScope) {
    let pause = Pause {
        scope: scope.clone(),
        owner: "ann".into(),
        level: PauseLevel::All,
        reason: "a migration".into(),
        since: world.now,
        until: world.now + secs(300),
    };
    match scope {
        PauseScope::Account => world.ledger.pauses.push(pause),
        PauseScope::Cluster | PauseScope::NodePool(_) => {
            world.ledger.of(&Rig::cluster()).pauses.push(pause);
        }
    }
}

fn of_pool() -> PauseScope {
    PauseScope::NodePool("default".into())
}

fn scopes() -> [PauseScope; 3] {
    [PauseScope::Account, PauseScope::Cluster, of_pool()]
}

fn watch(world: &mut World, only: bool) {
    for pool in world.api.node_pools.values_mut() {
        let mode = if only { "shadow" } else { "active" };
        let annotations = &mut pool.metadata.annotations;
        annotations.insert("whittle.sh/mode".into(), mode.into());
    }
}

/// Pods that nobody tells of wait for what is looked at, at the latest.
async fn pods_are_served(rig: &mut Rig, whose: &str) {
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{whose}: {:#?}", rig.transcript);
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
    rig.sim.with(|world| watch(world, true));
    rig.pass(secs(600)).await;
    assert_eq!(rig.sim.with(alive), 0, "{:#?}", rig.transcript);
    rig.sim.with(|world| watch(world, false));
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
        let mut rig = crate::in_service(1).await;
        rig.sim.with(|world| {
            pause(world, scope.clone());
            let mut made = world.api.node_claims.values().next().unwrap().clone();
            made.name = "by-hand".into();
            made.uid = "by-hand-uid".into();
            made.status = NodeClaimStatus::default();
            made.finalizers.clear();
            made.created_at = Some(world.now);
            world.api.node_claims.insert(made.name.clone(), made);
        });
        rig.pass(secs(295)).await;
        assert_eq!(rig.sim.with(alive), 1, "{scope}: {:#?}", rig.transcript);
        let launched = rig.until(secs(180), |world| alive(world) == 2).await;
        assert!(launched.is_some(), "{scope}: {:#?}", rig.transcript);
    }
}
