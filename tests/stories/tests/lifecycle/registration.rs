//! NodeClaims from launch to initialization, and timeouts, expiration and repair.

use std::collections::{BTreeMap, BTreeSet};

use fakes::World;
use model::node::ConditionStatus;
use ports::cluster::EventTarget;
use stories::{Relay, Rig, all_bound, consistent, secs, settled, transcript};

use crate::{change_claim, change_node, claim, delete_claim, has_event, is_gone, node, serving};

#[tokio::test]
async fn each_lifecycle_step_of_a_node_claim_emits_an_event() {
    let rig = serving(1).await;
    for reason in ["Launched", "Registered", "Initialized", "Ready"] {
        assert!(rig.sim.with(has_event(reason)), "{reason}");
    }
    assert!(claim(&rig).is_true("ConsistentStateFound"));
    assert!(!rig.sim.with(has_event("UnregisteredTaintMissing")));
    transcript!(rig);
}

#[tokio::test]
async fn instance_that_never_joins_times_out_and_two_make_the_node_pool_unhealthy() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.api.closed = true);
    rig.scale(1);
    let healthy = |world: &mut fakes::World, status: api::ConditionStatus| {
        let pool = &world.api.node_pools["default"];
        let conditions = pool
            .status
            .as_ref()
            .and_then(|status| status.conditions.clone());
        conditions.into_iter().flatten().any(|condition| {
            condition.r#type == "NodeRegistrationHealthy" && condition.status == status
        })
    };
    rig.until(secs(60), |world| world.account.alive().count() == 1)
        .await
        .unwrap();
    let first = claim(&rig);
    let gone = rig.until(secs(1_200), is_gone(&first)).await;
    assert!(
        gone.is_some_and(|took| took >= 880),
        "fifteen minutes: {gone:?} {:#?}",
        rig.transcript
    );
    let again = rig
        .until(secs(60), |world| world.account.alive().count() == 1)
        .await;
    assert!(
        again.is_some(),
        "the pod is rescheduled: {:#?}",
        rig.transcript
    );
    assert!(
        rig.sim
            .with(|world| !healthy(world, api::ConditionStatus::False))
    );
    let unhealthy = rig
        .until(secs(1_200), |world| {
            healthy(world, api::ConditionStatus::False)
        })
        .await;
    assert!(unhealthy.is_some(), "{:#?}", rig.transcript);

    rig.sim.with(|world| world.api.closed = false);
    assert!(rig.until(secs(1_200), all_bound).await.is_some());
    assert!(
        rig.sim
            .with(|world| healthy(world, api::ConditionStatus::False)),
        "one success after two failures is not enough"
    );
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
    transcript!(rig);
}

#[tokio::test]
async fn launch_and_registration_timeouts_are_configurable() {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"] = serde_json::json!({"registrationTimeout": "4m"});
        world.api.closed = true;
    });
    rig.pass(secs(150)).await;
    rig.scale(1);
    rig.until(secs(60), |world| world.account.alive().count() == 1)
        .await
        .unwrap();
    let first = claim(&rig);
    let gone = rig.until(secs(400), is_gone(&first)).await;
    assert!(gone.is_some_and(|took| took >= 220), "{gone:?}");
    transcript!(rig);
}

#[tokio::test]
async fn expired_node_is_deleted_and_its_pods_are_rescheduled() {
    let mut rig = serving(2).await;
    let old = claim(&rig);
    change_claim(&rig, &old.name, |claim| {
        claim.spec.expire_after = Some("10m".into());
    });
    let age = rig
        .sim
        .with(|world| world.now.duration_since(old.created_at.unwrap()));
    let gone = rig.until(secs(900), is_gone(&old)).await;
    let due = 600 - age.as_secs();
    assert!(
        gone.is_some_and(|took| took >= due && took < due + 180),
        "{gone:?}, due after {due} {:#?}",
        rig.transcript
    );
    assert!(rig.until(secs(300), all_bound).await.is_some());
    assert!(rig.sim.with(consistent));
    transcript!(rig);
}

#[tokio::test]
async fn node_with_less_capacity_than_its_instance_type_is_reported_and_kept() {
    let mut rig = serving(1).await;
    let name = node(&rig);
    change_node(&rig, &name, |node| node.capacity.set("memory", 1 << 30));
    let inconsistent = |world: &mut fakes::World| {
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| {
            claim
                .condition("ConsistentStateFound")
                .is_some_and(|condition| condition.status == ConditionStatus::False)
        })
    };
    assert!(rig.until(secs(700), inconsistent).await.is_some());
    assert!(rig.sim.with(has_event("FailedConsistencyCheck")));
    assert!(rig.sim.with(all_bound));
    transcript!(rig);
}

/// A cluster with forced repair, and a node for each pod.
pub(crate) async fn with_repair(nodes: usize) -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"] = serde_json::json!({
            "featureGates": {"NodeRepair": true}, "legacyNodeRepair": true,
        });
        world.catalog.retain(|kind| kind.name == "m5.large");
    });
    rig.pass(secs(150)).await;
    rig.scale(nodes);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(30)).await;
    rig
}

#[tokio::test]
async fn unready_node_is_repaired_regardless_of_its_pods() {
    let mut rig = with_repair(3).await;
    let sick = claim(&rig);
    let name = node(&rig);
    rig.sim.with(|world| {
        world.api.silent.insert(name.clone());
        for pod in world.api.pods.values_mut() {
            pod.annotations =
                BTreeMap::from([("karpenter.sh/do-not-disrupt".into(), "true".into())]);
        }
    });
    let gone = rig.until(secs(2_400), is_gone(&sick)).await;
    assert!(
        gone.is_some_and(|took| took >= 1_800),
        "half an hour is tolerated: {gone:?} {:#?}",
        rig.transcript
    );
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.sim.with(|world| {
        assert_eq!(world.account.alive().count(), 3);
        let name = "karpenter_nodeclaims_unhealthy_disrupted_total";
        let counted = world.metrics.iter().filter(|metric| metric.name == name);
        let conditions: Vec<&str> = counted.map(|metric| &*metric.labels["condition"]).collect();
        assert_eq!(conditions, ["ready"]);
    });
    transcript!(rig);
}

#[tokio::test]
async fn abandoned_repair_leaves_no_termination_deadline() {
    let mut rig = with_repair(3).await;
    let sick = claim(&rig);
    let name = node(&rig);
    rig.sim.with(|world| {
        world.api.silent.insert(name.clone());
        for pod in world.api.pods.values_mut() {
            pod.annotations =
                BTreeMap::from([("karpenter.sh/do-not-disrupt".into(), "true".into())]);
        }
        let claim = world.api.node_claims.get_mut(&sick.name).unwrap();
        claim.spec.termination_grace_period = Some("1h".into());
        // The node is due for replacement, and deleting its NodeClaim fails.
        world.down.insert("delete_node_claim");
    });
    rig.pass(secs(2_000)).await;
    assert!(
        rig.transcript.iter().any(|line| line.contains("unhealthy")),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| world.api.silent.clear());
    rig.pass(secs(60)).await;
    rig.sim.with(|world| world.down.clear());
    rig.pass(secs(600)).await;
    let claim_now = |world: &mut World| world.api.node_claims[&sick.name].clone();
    let recovered = rig.sim.with(claim_now);
    assert_eq!(recovered.deleted_at, None, "{:#?}", rig.transcript);
    let deadline = "karpenter.sh/nodeclaim-termination-timestamp";
    assert_eq!(recovered.annotations.get(deadline), None);
    delete_claim(&rig, &sick.name);
    rig.pass(secs(1_200)).await;
    let deleted = rig.sim.with(claim_now);
    let at = deleted.deleted_at.unwrap() + secs(3_600);
    assert_eq!(deleted.annotations[deadline], format!("{at:.0}"));
    rig.sim.with(|world| {
        let mut pods = world.api.pods.values();
        let stays = pods.any(|pod| pod.node_name == Some(name.clone()) && pod.deletion.is_none());
        assert!(
            stays,
            "the pods keep their hour of grace: {:#?}",
            rig.transcript
        );
    });
    transcript!(rig);
}

#[tokio::test]
async fn many_unready_nodes_suspend_repair() {
    let mut rig = with_repair(3).await;
    let before = rig.sim.with(|world| {
        world.api.silent = world.api.nodes.keys().take(2).cloned().collect();
        world.account.instances.len()
    });
    rig.pass(secs(2_700)).await;
    let after = rig.sim.with(|world| world.account.instances.len());
    assert_eq!(after, before, "{:#?}", rig.transcript);
    assert!(rig.sim.with(has_event("NodeRepairBlocked")));
    transcript!(rig);
}

#[tokio::test]
async fn unready_node_stays_without_the_node_repair_gate() {
    let mut rig = serving(1).await;
    let name = node(&rig);
    rig.sim.with(|world| world.api.silent.insert(name));
    rig.pass(secs(2_700)).await;
    assert_eq!(rig.sim.with(|world| world.account.instances.len()), 1);
    transcript!(rig);
}

#[tokio::test]
async fn node_pool_readiness_is_an_event() {
    let rig = Rig::ready(Relay::Watching).await;
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        let ready = events.filter(|event| {
            matches!(event.about, EventTarget::NodePool(..)) && event.reason == "Ready"
        });
        ready.map(|event| event.message.clone()).collect::<Vec<_>>()
    });
    let expected =
        "Status condition transitioned, Type: Ready, Status: Unknown -> True, Reason: Ready";
    assert_eq!(reported, [expected]);
    transcript!(rig);
}

#[tokio::test]
async fn events_beyond_the_share_of_a_turn_are_posted_by_later_turns() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| world.catalog.clear());
    rig.scale(70);
    rig.pass(secs(400)).await;
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        let pods = events.filter(|event| event.reason == "FailedScheduling");
        pods.map(|event| event.about.clone())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(reported.len(), 70);
    transcript!(rig);
}
