//! Pauses of a cluster, a NodePool or the account, at every level (docs/operations.md#pause).

use fakes::World;
use jiff::SignedDuration;
use model::{
    InterruptionKind, Lane,
    ledger::{CommandState, Pause, PauseLevel, PauseScope},
};
use stories::{Rig, add_stray, all_bound, all_gone, secs};

use crate::{alive, event_messages, in_service};

fn pause(rig: &Rig, by: &str, scope: PauseScope, level: PauseLevel, time: SignedDuration) {
    rig.sim
        .with(|world| crate::pause(world, by, scope, level, time));
}

fn is_replacing(world: &mut World) -> bool {
    let commands = &world.ledger.of(&Rig::cluster()).commands;
    let mut states = commands.values().map(|command| command.state);
    states.any(|state| state == CommandState::Replacing)
}

#[tokio::test]
async fn pause_of_voluntary_disruption_keeps_empty_nodes_and_allows_launches() {
    for scope in [
        PauseScope::Cluster,
        PauseScope::Account,
        PauseScope::NodePool("default".into()),
    ] {
        let mut rig = in_service(1).await;
        pause(&rig, "ann", scope.clone(), PauseLevel::Voluntary, secs(900));
        rig.scale(0);
        rig.pass(secs(600)).await;
        assert_eq!(rig.sim.with(alive), 1, "{scope}: {:#?}", rig.transcript);
        rig.scale(6);
        let bound = rig.until(secs(200), all_bound).await;
        assert!(bound.is_some(), "{scope}: {:#?}", rig.transcript);
        let events = event_messages(&rig, "DisruptionBlocked");
        let paused = format!("No allowed disruptions: {scope} is paused (voluntary) by ann until ");
        let named = |event: &String| event.starts_with(&paused) && event.ends_with(": a migration");
        assert!(events.iter().any(named), "{scope}: {events:?}");
        rig.scale(0);
        let gone = rig.until(secs(900), all_gone).await;
        assert!(gone.is_some(), "{scope}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn pause_of_a_node_pool_affects_no_other() {
    let mut rig = in_service(1).await;
    let other = PauseScope::NodePool("other".into());
    pause(&rig, "ann", other, PauseLevel::All, secs(9_000));
    rig.scale(0);
    let gone = rig.until(secs(900), all_gone).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn full_pause_is_an_event_on_pending_pods_and_delays_their_nodes() {
    for scope in [PauseScope::Cluster, PauseScope::NodePool("default".into())] {
        let mut rig = in_service(1).await;
        pause(&rig, "ann", scope.clone(), PauseLevel::All, secs(600));
        rig.scale(9);
        rig.pass(secs(500)).await;
        assert_eq!(rig.sim.with(alive), 1, "{scope}: nothing is launched");
        let events = event_messages(&rig, "FailedScheduling");
        let paused = format!("{scope} is paused (all) by ann until ");
        assert!(
            events.iter().any(|event| event.contains(&paused)),
            "{scope}: {events:?}"
        );
        let bound = rig.until(secs(300), all_bound).await;
        assert!(bound.is_some(), "{scope}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn pauses_of_two_people_are_independent() {
    let mut rig = in_service(1).await;
    let cluster = || PauseScope::Cluster;
    pause(&rig, "ann", cluster(), PauseLevel::Voluntary, secs(9_000));
    pause(&rig, "ben", cluster(), PauseLevel::Voluntary, secs(9_000));
    let lane = Lane::Disruption;
    let (turn, deadline) = (rig.next_turn(), rig.deadline(lane));
    let report = turns::run(&rig.world, &Rig::cluster(), lane, &turn, deadline).await;
    let paused = report.unwrap().paused;
    assert!(
        matches!(&paused[..], [ann, ben] if ann.contains("by ann") && ben.contains("by ben")),
        "{paused:?}"
    );
    rig.sim.with(|world| {
        let pauses = &mut world.ledger.of(&Rig::cluster()).pauses;
        (_, *pauses) = Pause::lift(pauses, &cluster(), "ann", world.now);
    });
    rig.scale(0);
    rig.pass(secs(600)).await;
    assert_eq!(rig.sim.with(alive), 1, "ben's pause stands");
}

#[tokio::test]
async fn pause_rolls_back_a_disruption_that_waits_for_its_replacement() {
    let mut rig = in_service(5).await;
    rig.scale(1);
    let replacing = rig.until(secs(300), is_replacing).await;
    assert!(replacing.is_some(), "{:#?}", rig.transcript);
    let before = rig.sim.with(alive);
    pause(
        &rig,
        "ann",
        PauseScope::Cluster,
        PauseLevel::Voluntary,
        secs(9_000),
    );
    rig.pass(secs(600)).await;
    rig.sim.with(|world| {
        assert!(
            world.account.alive().count() >= before,
            "no node is removed"
        );
        let marked = |node: &model::node::Node| {
            let mut taints = node.taints.iter();
            taints.any(|taint| taint.key == api::names::taint::DISRUPTED)
        };
        assert!(!world.api.nodes.values().any(marked));
    });
    assert!(!rig.sim.with(is_replacing));
}

#[tokio::test]
async fn expired_node_stays_during_a_pause_and_is_deleted_afterwards() {
    let mut rig = in_service(1).await;
    rig.sim.with(|world| {
        for claim in world.api.node_claims.values_mut() {
            claim.spec.expire_after = Some("10m".into());
        }
    });
    pause(
        &rig,
        "ann",
        PauseScope::Cluster,
        PauseLevel::Voluntary,
        secs(1_200),
    );
    rig.pass(secs(1_150)).await;
    let leaving = |world: &mut World| {
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| claim.deleted_at.is_some())
    };
    assert!(!rig.sim.with(leaving));
    assert!(rig.until(secs(120), leaving).await.is_some());
}

/// A drain that Whittle began because of the node's age and that a pod blocks.
async fn draining() -> Rig {
    let mut rig = in_service(1).await;
    rig.sim.with(|world| {
        for pod in world.api.pods.values_mut() {
            pod.annotations
                .insert(api::names::annotation::DO_NOT_DISRUPT.into(), "true".into());
        }
        for claim in world.api.node_claims.values_mut() {
            claim.spec.expire_after = Some("5m".into());
        }
    });
    let begun = rig
        .until(secs(600), |world| {
            let mut nodes = world.api.nodes.values();
            nodes.any(|node| node.deleted_at.is_some() && !node.taints.is_empty())
        })
        .await;
    assert!(begun.is_some(), "{:#?}", rig.transcript);
    rig
}

fn release_pod(rig: &Rig) {
    rig.sim.with(|world| {
        for pod in world.api.pods.values_mut() {
            pod.annotations.clear();
        }
    });
}

#[tokio::test]
async fn only_a_full_pause_stops_drains_that_have_begun() {
    for (level, ends) in [(PauseLevel::Voluntary, true), (PauseLevel::All, false)] {
        let mut rig = draining().await;
        let first = rig
            .sim
            .with(|world| world.account.alive().next().unwrap().id.clone());
        pause(&rig, "ann", PauseScope::Cluster, level, secs(1_200));
        release_pod(&rig);
        let is_gone =
            |world: &mut World| !world.account.alive().any(|instance| instance.id == first);
        let gone = rig.until(secs(900), is_gone).await;
        assert_eq!(gone.is_some(), ends, "{level}: {:#?}", rig.transcript);
        let after = rig.until(secs(900), is_gone).await;
        assert!(after.is_some(), "{level}: when the pause is over");
    }
}

#[tokio::test]
async fn pauses_delay_neither_interruptions_nor_cleanup_of_terminated_instances() {
    for level in [PauseLevel::Voluntary, PauseLevel::All] {
        let mut rig = in_service(1).await;
        let first = rig
            .sim
            .with(|world| world.account.alive().next().unwrap().id.clone());
        pause(&rig, "ann", PauseScope::Account, level, secs(9_000));
        let kind = InterruptionKind::SpotInterrupted;
        rig.announce(&first, kind, Some(secs(120))).await.unwrap();
        let is_gone =
            |world: &mut World| !world.account.alive().any(|instance| instance.id == first);
        let gone = rig.until(secs(120), is_gone).await;
        assert!(gone.is_some(), "{level}: {:#?}", rig.transcript);

        let mut rig = in_service(1).await;
        pause(&rig, "ann", PauseScope::Cluster, level, secs(9_000));
        rig.sim.with(|world| {
            for instance in world.account.instances.values_mut() {
                instance.state = model::launch::InstanceState::Terminated;
            }
        });
        let removed = rig
            .until(secs(900), |world| {
                world.api.node_claims.values().all(|claim| {
                    // A replacement may exist where launches continue.
                    !claim.status.provider_id.is_empty() && claim.deleted_at.is_none()
                }) && alive(world) == world.api.node_claims.len()
            })
            .await;
        assert!(removed.is_some(), "{level}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn orphans_are_terminated_after_a_full_pause() {
    let pools = [("default", 2), ("other", 1)];
    let scopes = pools.map(|(pool, left)| (PauseScope::NodePool(pool.into()), left));
    for (scope, left) in scopes.into_iter().chain([(PauseScope::Cluster, 2)]) {
        let mut rig = in_service(1).await;
        pause(&rig, "ann", scope.clone(), PauseLevel::All, secs(900));
        rig.sim.with(add_stray);
        rig.pass(secs(800)).await;
        assert_eq!(rig.sim.with(alive), left, "{scope}: {:#?}", rig.transcript);
        let gone = rig.until(secs(600), |world| alive(world) == 1).await;
        assert!(gone.is_some(), "{scope}: {:#?}", rig.transcript);
    }
}
