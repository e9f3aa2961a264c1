//! Any sender of the interrupt queue can claim anything. Events that EC2 would never send for an instance are rejected.

use fakes::Fault;
use model::{CapacityType, InstanceId, InterruptionKind};
use stories::{Relay, Rig, secs};

use crate::{counts, deliver, instances, is_deleting, is_tainted, running, warning};

fn is_untouched(rig: &Rig, instance: &InstanceId) {
    rig.sim.with(|world| {
        assert!(!is_deleting(world, instance) && !is_tainted(world, instance));
        assert!(world.account.alive().any(|alive| alive.id == *instance));
    });
}

#[tokio::test]
async fn spot_notice_for_an_on_demand_instance_is_rejected_and_its_node_is_kept() {
    let mut rig = running(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    let body = warning(&rig, &node);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/refuted", 1)]);
    let launched = rig.sim.with(|world| world.account.instances.len());
    rig.pass(secs(300)).await;
    is_untouched(&rig, &node);
    rig.sim.with(|world| {
        assert_eq!(
            world.account.instances.len(),
            launched,
            "no replacement is launched"
        );
        let mut open = world.ledger.of(&Rig::cluster()).notices.values();
        assert!(open.all(|notice| notice.done), "no notice is left");
    });
}

#[tokio::test]
async fn spot_notice_for_an_on_demand_instance_is_rejected_once_the_api_server_answers() {
    let mut rig = running(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    rig.sim.fail_next("node_pools", Fault::Throttled);
    let body = warning(&rig, &node);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    rig.pass(secs(300)).await;
    is_untouched(&rig, &node);
    let offerings = rig.sim.with(|world| world.ledger.unavailable.len());
    assert_eq!(offerings, 0, "no offering counts as unavailable");
}

#[tokio::test]
async fn rebalance_recommendation_for_an_on_demand_instance_is_rejected() {
    let mut rig = running(Relay::Dead, 1).await;
    crate::annotate(&rig, "whittle.sh/rebalance", "drain");
    let node = instances(&rig)[0].clone();
    let kind = InterruptionKind::RebalanceRecommendation;
    let outcome = rig.send(&node, kind, None).await;
    assert_eq!(outcome.unwrap().as_str(), "refuted");
    rig.pass(secs(60)).await;
    is_untouched(&rig, &node);
}

#[tokio::test]
async fn notice_for_an_instance_of_unknown_capacity_type_is_accepted() {
    let mut rig = running(Relay::Dead, 1).await;
    let node = instances(&rig)[0].clone();
    rig.sim.with(|world| {
        for claim in world.api.node_claims.values_mut() {
            claim.labels.remove(model::labels::CAPACITY_TYPE);
        }
        assert!(
            world
                .account
                .alive()
                .all(|instance| instance.capacity_type == CapacityType::OnDemand)
        );
    });
    let body = warning(&rig, &node);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    rig.sim.with(|world| assert!(is_deleting(world, &node)));
}
