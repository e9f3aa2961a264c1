//! NodePools and EC2NodeClasses whose change is denied, and NodeClaims that cannot be created or marked as tagged: each is
//! reported on its owner and tried again, and blocks no other.

use fakes::{Admission, Fault, Protected, World, node_class};
use model::Lane;
use stories::{Rig, all_bound, secs};

use crate::{
    change_claim, claim, count,
    refusals::{events, freeze},
    serving,
    static_capacity::{nodes, scale, with_replicas},
};

const REFUSED: &str = "ChangeRefused";

/// Whether the status of the EC2NodeClass is about its present generation.
fn class_is_current(name: &'static str) -> impl Fn(&mut World) -> bool {
    move |world| {
        let class = &world.api.node_classes[name];
        let status = class.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| {
            condition.r#type == "Ready"
                && condition.observed_generation == class.metadata.generation
        })
    }
}

#[tokio::test]
async fn frozen_node_class_is_reported_and_blocks_no_other() {
    let mut rig = serving(1).await;
    freeze(
        &rig,
        Protected::NodeClass("default".into()),
        Admission::Denied,
    );
    rig.sim.with(|world| {
        let frozen = world.api.node_classes.get_mut("default").unwrap();
        frozen.metadata.generation = Some(2);
        let other = node_class("other");
        world.api.node_classes.insert("other".into(), other);
    });
    let ready = rig.until(secs(700), class_is_current("other")).await;
    assert!(ready.is_some(), "{:#?}", rig.transcript);
    let reported = events(&rig, REFUSED, "default");
    assert!(
        reported
            .iter()
            .any(|text| text.contains("EC2NodeClass default is frozen")),
        "{reported:?}"
    );
    rig.sim.with(|world| world.api.protected.clear());
    let current = rig.until(secs(30), class_is_current("default")).await;
    assert!(current.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn node_class_status_is_written_again_soon_after_the_api_server_failed() {
    for fault in [Fault::Unavailable, Fault::Throttled, Fault::Conflict] {
        let mut rig = serving(1).await;
        rig.sim.fail_next("update_node_class_status", fault);
        rig.sim.with(|world| {
            let class = world.api.node_classes.get_mut("default").unwrap();
            class.metadata.generation = Some(2);
        });
        let failed = |world: &mut World| world.calls.contains(&"update_node_class_status");
        rig.sim.with(|world| world.calls.clear());
        assert!(rig.until(secs(700), failed).await.is_some(), "{fault:?}");
        let current = rig.until(secs(30), class_is_current("default")).await;
        assert!(current.is_some(), "{fault:?}: {:#?}", rig.transcript);
    }
}

#[tokio::test]
async fn frozen_node_pool_is_reported_and_updated_once_it_may_be() {
    let mut rig = serving(1).await;
    let pool_nodes = |world: &World| {
        let status = world.api.node_pools["default"].status.as_ref();
        status.map(|status| status.nodes)
    };
    let before = rig.sim.look(pool_nodes);
    freeze(
        &rig,
        Protected::NodePool("default".into()),
        Admission::Invalid,
    );
    rig.scale(8);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(60)).await;
    let reported = events(&rig, REFUSED, "default");
    assert!(
        reported
            .iter()
            .any(|text| text.contains("NodePool default is frozen")),
        "{reported:?}"
    );
    assert_eq!(rig.sim.look(pool_nodes), before);
    rig.sim.with(|world| world.api.protected.clear());
    let updated = rig
        .until(secs(30), |world| pool_nodes(world) > before)
        .await;
    assert!(updated.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn static_node_claims_that_may_not_be_created_are_tried_every_minute_or_two() {
    let mut rig = with_replicas(1, 10, true).await;
    freeze(
        &rig,
        Protected::NodeClaimsOf("default".into()),
        Admission::Denied,
    );
    scale(&rig, 4);
    rig.sim.with(|world| world.calls.clear());
    let is_tried = |world: &mut World| world.calls.contains(&"create_node_claim");
    assert!(rig.until(secs(600), is_tried).await.is_some());
    rig.pass(secs(600)).await;
    let tries = count(&rig, "create_node_claim");
    assert!((3..=12).contains(&tries), "{tries}: {:#?}", rig.transcript);
    let reported = events(&rig, REFUSED, "default");
    assert!(
        reported
            .iter()
            .any(|text| text.contains("NodeClaims of NodePool default")),
        "{reported:?}"
    );
    rig.sim.with(|world| world.api.protected.clear());
    let created = rig.until(secs(300), nodes(4)).await;
    assert!(created.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn instance_of_a_frozen_node_claim_is_not_tagged_by_every_turn() {
    const TAGGED: &str = "karpenter.k8s.aws/tagged";
    let mut rig = serving(2).await;
    let frozen = claim(&rig);
    assert!(frozen.annotations.contains_key(TAGGED));
    change_claim(&rig, &frozen.name, |claim| {
        claim.annotations.remove(TAGGED);
    });
    freeze(
        &rig,
        Protected::NodeClaim(frozen.name.clone()),
        Admission::Denied,
    );
    rig.sim.with(|world| world.calls.clear());
    for _ in 0..5 {
        let turn = rig.next_turn();
        let (cluster, lane) = (Rig::cluster(), Lane::Lifecycle);
        let turn = turns::run(&rig.world, &cluster, lane, &turn, rig.deadline(lane));
        Box::pin(turn).await.unwrap();
    }
    assert_eq!(count(&rig, "tag"), 1, "{:#?}", rig.transcript);
    let reported = events(&rig, REFUSED, frozen.name.as_str());
    assert!(!reported.is_empty(), "{:#?}", rig.transcript);
    rig.sim.with(|world| world.api.protected.clear());
    let is_tagged = |world: &mut World| {
        let claim = &world.api.node_claims[&frozen.name];
        claim.annotations.contains_key(TAGGED)
    };
    let tagged = rig.until(secs(300), is_tagged).await;
    assert!(tagged.is_some(), "{:#?}", rig.transcript);
}
