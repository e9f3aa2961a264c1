//! Caps on what nodes cost and number: what is there stays, and nothing new is bought past them.

use fakes::World;
use model::InterruptionKind;
use serde_json::json;
use stories::{Rig, all_bound, secs};

use crate::{alive, in_service, told};

/// What a NodePool's nodes may cost an hour.
fn cap_pool(rig: &Rig, dollars: &str) {
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let annotations = &mut pool.metadata.annotations;
        annotations.insert(model::caps::Caps::ANNOTATION.into(), dollars.into());
    });
}

fn cap_cluster(rig: &Rig, guards: serde_json::Value) {
    rig.configure(&json!({ "guards": guards }));
}

fn of_one_node(world: &mut World) -> bool {
    world.account.alive().count() == 1
}

#[tokio::test]
async fn nothing_is_launched_past_a_cap_and_pods_are_told() {
    let node_cap = "the cluster is capped at 1 nodes and has 1: nothing is removed for that";
    let price_cap = "is capped at $0.1000 an hour and costs $0.0960";
    for (cap, message) in [
        (
            Box::new(|rig: &Rig| cap_pool(rig, "0.10")) as Box<dyn Fn(&Rig)>,
            price_cap,
        ),
        (
            Box::new(|rig: &Rig| cap_cluster(rig, json!({"dollarsPerHour": "0.10"}))),
            price_cap,
        ),
        (
            Box::new(|rig: &Rig| cap_cluster(rig, json!({"nodes": 1}))),
            node_cap,
        ),
    ] {
        let mut rig = in_service(1).await;
        cap(&rig);
        rig.scale(9);
        rig.pass(secs(300)).await;
        assert_eq!(rig.sim.with(alive), 1, "{message}: {:#?}", rig.transcript);
        let events = told(&rig, "FailedScheduling");
        assert!(
            events.iter().any(|event| event.contains(message)),
            "{message}: {events:?}"
        );
    }
}

#[tokio::test]
async fn a_cap_below_what_is_there_removes_nothing_and_lifting_it_lets_pods_have_nodes() {
    let mut rig = in_service(3).await;
    let before = rig.sim.with(alive);
    cap_cluster(&rig, json!({"dollarsPerHour": "0.01", "nodes": 0}));
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(alive), before);
    rig.scale(20);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), before);
    cap_cluster(&rig, json!({}));
    let bound = rig.until(secs(900), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn what_replaces_an_interrupted_node_waits_for_no_cap() {
    let mut rig = in_service(1).await;
    cap_cluster(&rig, json!({"nodes": 1}));
    let first = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&first, kind, Some(secs(120))).await.unwrap();
    let replaced = rig
        .until(secs(300), |world| {
            let mut alive = world.account.alive();
            alive.any(|one| one.id != first)
        })
        .await;
    assert!(replaced.is_some(), "{:#?}", rig.transcript);
    let settled = rig
        .until(secs(600), |world| all_bound(world) && of_one_node(world))
        .await;
    assert!(settled.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn a_cap_that_cannot_be_read_buys_nothing_and_says_so() {
    let mut rig = in_service(1).await;
    cap_pool(&rig, "a lot");
    rig.scale(9);
    rig.pass(secs(300)).await;
    assert_eq!(rig.sim.with(alive), 1);
    let events = told(&rig, "FailedScheduling");
    let named = |event: &String| {
        event.contains("whittle.sh/max-dollars-per-hour") && event.contains("a lot")
    };
    assert!(events.iter().any(named), "{events:?}");
}
