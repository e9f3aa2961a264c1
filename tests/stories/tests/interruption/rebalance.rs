//! Rebalance recommendations: the NodePool's annotation decides what happens to the node (spec/troubles, row 35).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{
    CapacityType, InstanceId,
    InterruptionKind::{RebalanceRecommendation, SpotInterrupted},
};
use stories::{Relay, Rig, all_bound, secs};

use crate::{annotate, claim_of, instances, is_cordoned, is_deleting, is_tainted, on_spot};

fn policy(rig: &Rig, value: &str) {
    annotate(rig, "whittle.sh/rebalance", value);
}

async fn recommend(rig: &mut Rig, instance: &InstanceId) -> &'static str {
    let outcome = rig.announce(instance, RebalanceRecommendation, None).await;
    outcome.unwrap().as_str()
}

#[tokio::test]
async fn rebalance_recommendation_is_ignored_without_the_annotation() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    for value in ["ignore", "Drain it!"] {
        policy(&rig, value);
        assert_eq!(recommend(&mut rig, &node).await, "tolerated", "{value}");
    }
    rig.pass(secs(120)).await;
    assert_eq!(instances(&rig), [node]);
    rig.sim
        .with(|world| assert!(world.ledger.unavailable.is_empty()));
}

#[tokio::test]
async fn rebalance_policy_drain_drains_immediately() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    policy(&rig, "drain");
    assert_eq!(recommend(&mut rig, &node).await, "recorded");
    rig.sim.with(|world| assert!(is_deleting(world, &node)));
    let moved = |world: &mut fakes::World| all_bound(world) && claim_of(world, &node).is_none();
    assert!(
        rig.until(secs(240), moved).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn rebalance_policy_cordon_evicts_no_pod() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    policy(&rig, "cordon");
    assert_eq!(recommend(&mut rig, &node).await, "recorded");
    rig.sim
        .with(|world| assert!(is_cordoned(world, &node) && !is_deleting(world, &node)));
    rig.pass(secs(5 * 60)).await;
    assert_eq!(instances(&rig), std::slice::from_ref(&node));
    rig.sim.with(|world| {
        assert!(all_bound(world) && !is_tainted(world, &node));
        let notices = &world.ledger.of(&Rig::cluster()).notices;
        assert!(notices.values().all(|notice| notice.done));
    });
}

#[tokio::test]
async fn invalid_rebalance_policy_is_an_event_on_the_node_pool_and_means_the_default() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    annotate(&rig, "whittle.sh/rebalance", "Drain it!");
    annotate(&rig, "whittle.sh/interruption", "never");
    rig.pass(secs(11 * 60)).await;
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        let reported = events.filter(|event| event.reason == "InvalidAnnotation");
        reported
            .map(|event| event.message.clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(
        reported,
        [
            "annotation whittle.sh/rebalance is \"Drain it!\": expected one of ignore, replace, drain, cordon; \
             ignore is used instead; annotation whittle.sh/interruption is \"never\": expected one of drain, \
             cordon; drain is used instead"
        ]
    );
    assert_eq!(recommend(&mut rig, &node).await, "tolerated");
    let warned = rig.announce(&node, SpotInterrupted, Some(secs(120))).await;
    assert_eq!(warned.unwrap().as_str(), "recorded");
    rig.sim.with(|world| assert!(is_deleting(world, &node)));
}

#[tokio::test]
async fn rebalance_policy_replace_drains_once_every_pod_fits_on_ready_nodes() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    policy(&rig, "replace");
    assert_eq!(recommend(&mut rig, &node).await, "recorded");
    let mut left_early = 0;
    for _ in 0..240 {
        rig.pass(secs(1)).await;
        rig.sim.with(|world| {
            let mut nodes = world.api.nodes.values();
            let ready = nodes.any(|other| {
                !other.provider_id.ends_with(node.as_str())
                    && other
                        .labels
                        .get("karpenter.sh/initialized")
                        .map(String::as_str)
                        == Some("true")
            });
            left_early += usize::from(
                is_deleting(world, &node) && !ready && claim_of(world, &node).is_some(),
            );
            let pending = world
                .api
                .pods
                .values()
                .filter(|pod| pod.node_name.is_none())
                .count();
            // An evicted pod is bound within a second, because its node is ready.
            assert!(pending <= 2, "{pending} pods wait");
        });
    }
    assert_eq!(left_early, 0);
    let replaced = rig
        .sim
        .with(|world| claim_of(world, &node).is_none() && all_bound(world));
    assert!(replaced, "{:#?}", rig.transcript);
    assert_ne!(instances(&rig), [node]);
}

#[tokio::test]
async fn failed_replacement_leaves_the_node_in_service() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    policy(&rig, "replace");
    rig.sim.with(|world| world.api.closed = true);
    recommend(&mut rig, &node).await;
    rig.pass(secs(20 * 60)).await;
    rig.sim.with(|world| {
        assert!(!is_deleting(world, &node));
        assert!(
            world
                .ledger
                .of(&Rig::cluster())
                .notices
                .values()
                .all(|notice| notice.done)
        );
    });
}

#[tokio::test]
async fn repeated_rebalance_recommendations_do_not_cause_a_replacement_loop() {
    let mut rig = on_spot(Relay::Dead, 1).await;
    policy(&rig, "drain");
    let mut risky: BTreeMap<(String, String), Timestamp> = BTreeMap::new();
    let mut reported = BTreeSet::new();
    for _ in 0..60 {
        for node in instances(&rig) {
            if !reported.insert(node.clone()) {
                continue;
            }
            let (now, one) = rig
                .sim
                .with(|world| (world.now, world.account.instances[&node].clone()));
            if one.capacity_type != CapacityType::Spot {
                continue;
            }
            let offering = (one.instance_type, one.zone);
            // Nodes of one plan are launched together; launches after a recommendation belong to another plan.
            let since = risky
                .get(&offering)
                .zip(one.launched_at)
                .map(|(at, launched)| launched.duration_since(*at));
            assert!(
                since.is_none_or(|since| since < secs(0) || since >= secs(180)),
                "{offering:?} {since:?}"
            );
            recommend(&mut rig, &node).await;
            risky.insert(offering, now);
        }
        rig.pass(secs(60)).await;
    }
    // The intervals grow until no spot offering is left.
    assert!(reported.len() < 40, "{} nodes in an hour", reported.len());
    rig.sim.with(|world| assert!(all_bound(world)));
}
