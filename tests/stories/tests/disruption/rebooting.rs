//! Nodes with a GPU error that a reboot repairs are rebooted in place (`awsFeatureGates.rebootForRepair`).

use api::conditions::types::{INITIALIZED, REBOOTING};
use fakes::{Fault, Protection, World};
use model::{
    InstanceId,
    node::{ConditionStatus, NodeCondition},
    node_claim::{Condition, NodeClaim},
    pod::Pod,
};
use serde_json::json;
use stories::{Relay, Rig, all_bound, consistent, secs, settled};

use crate::{event_messages, no_node_is_marked, repairing::forbid_evictions, wait};

/// Three nodes with a pod each; the GPU of the first has failed.
pub(crate) async fn failing() -> (Rig, NodeClaim) {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"] = json!({
            "featureGates": {"NodeRepair": true},
            "awsFeatureGates": {"rebootForRepair": true},
        });
        world.catalog.retain(|kind| kind.name == "m5.large");
    });
    rig.pass(secs(150)).await;
    rig.scale(3);
    wait(&mut rig, 180, all_bound).await;
    rig.pass(secs(30)).await;
    let sick = rig.sim.with(|world| {
        let (name, node) = world.api.nodes.iter_mut().next().unwrap();
        node.conditions.push(NodeCondition {
            kind: "AcceleratedHardwareReady".into(),
            status: ConditionStatus::False,
            reason: "NvidiaXID46Error".into(),
            since: Some(world.now),
        });
        let name = name.clone();
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| claim.status.node_name.as_ref() == Some(&name));
        claim.cloned().unwrap()
    });
    (rig, sick)
}

pub(crate) fn reboots(world: &World, sick: &NodeClaim) -> usize {
    let id = sick.status.provider_id.rsplit('/').next();
    let id = InstanceId::from(id.unwrap());
    world.account.reboots.get(&id).map_or(0, Vec::len)
}

pub(crate) fn reason(world: &World, sick: &NodeClaim) -> Option<String> {
    let claim = world.api.node_claims.get(&sick.name)?;
    Some(claim.condition(REBOOTING)?.reason.clone())
}

/// Results of reboots, as counted by the metric.
fn counted(world: &World) -> Vec<String> {
    let metrics = world.metrics.iter();
    let own = metrics.filter(|metric| metric.name == "karpenter_nodes_reboots_total");
    own.map(|metric| metric.labels["result"].clone()).collect()
}

#[tokio::test]
async fn node_is_drained_rebooted_and_uncordoned_without_a_replacement() {
    let (mut rig, sick) = failing().await;
    let launched = rig.sim.with(|world| world.account.requests.len());
    rig.pass(secs(580)).await;
    assert_eq!(
        rig.sim.with(|world| reason(world, &sick)),
        None,
        "ten minutes are tolerated"
    );
    let requested = |world: &mut World| reason(world, &sick).is_some();
    wait(&mut rig, 90, requested).await;
    rig.sim.with(|world| {
        let claim = &world.api.node_claims[&sick.name];
        let bound = claim
            .annotations
            .get("karpenter.sh/reboot-termination-grace-period");
        assert_eq!(bound.map(String::as_str), Some("10m0s"));
        assert!(claim.is_true("DisruptionReason"));
    });
    wait(&mut rig, 120, |world| reboots(world, &sick) == 1).await;
    rig.pass(secs(20)).await;
    rig.sim.with(|world| {
        let claim = &world.api.node_claims[&sick.name];
        assert!(!claim.is_true(INITIALIZED));
        let node = &world.api.nodes[claim.status.node_name.as_ref().unwrap()];
        assert!(!node.labels.contains_key("karpenter.sh/initialized"));
    });
    let succeeded = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootSucceeded");
    wait(&mut rig, 180, succeeded).await;
    wait(&mut rig, 120, |world| {
        let claim = &world.api.node_claims[&sick.name];
        claim.is_true(INITIALIZED) && all_bound(world)
    })
    .await;
    rig.pass(secs(120)).await;
    let requests = rig.sim.with(|world| world.account.requests.len());
    let story = format!("pods wait for the node to return: {:#?}", rig.transcript);
    assert_eq!(requests, launched, "{story}");
    rig.sim.with(|world| {
        assert_eq!(reboots(world, &sick), 1);
        assert_eq!(event_messages(world, "RebootObserved").len(), 1);
        let claim = &world.api.node_claims[&sick.name];
        assert_eq!(claim.uid, sick.uid);
        let left = claim
            .annotations
            .keys()
            .filter(|key| key.contains("reboot"));
        assert_eq!(left.collect::<Vec<_>>(), ["whittle.sh/reboots"]);
        assert_eq!(counted(world), ["succeeded"]);
        let label = "karpenter.sh/initialized";
        let node = world
            .api
            .nodes
            .get(&claim.status.node_name.clone().unwrap());
        assert_eq!(node.unwrap().labels[label], "true");
        let counted: Vec<String> = world
            .metrics
            .iter()
            .map(|metric| format!("{metric:?}"))
            .collect();
        for name in [
            "karpenter_nodes_reboots_total",
            "karpenter_nodes_reboot_duration_seconds",
            "karpenter_nodes_reboot_recovery_duration_seconds",
        ] {
            let own = counted.iter().filter(|text| text.contains(name));
            assert_eq!(own.count(), 1, "{name}: {counted:#?}");
        }
    });
    assert!(rig.sim.with(consistent) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn pod_that_its_budget_protects_is_rebooted_with_the_node_at_the_bound() {
    let (mut rig, sick) = failing().await;
    forbid_evictions(&rig);
    rig.pass(secs(580)).await;
    wait(&mut rig, 90, |world| reason(world, &sick).is_some()).await;
    let kept = rig.sim.with(|world| {
        let mut pods = world.api.pods.values();
        let is_on_node = |pod: &&Pod| pod.node_name == sick.status.node_name;
        pods.find(is_on_node).unwrap().uid.clone()
    });
    rig.pass(secs(590)).await;
    assert_eq!(rig.sim.with(|world| reboots(world, &sick)), 0);
    wait(&mut rig, 60, |world| reboots(world, &sick) == 1).await;
    let stays = |world: &mut World| world.api.pods.values().any(|pod| pod.uid == kept);
    assert!(rig.sim.with(stays));
    let succeeded = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootSucceeded");
    wait(&mut rig, 300, succeeded).await;
}

#[tokio::test]
async fn node_that_ec2_does_not_reboot_is_replaced_first() {
    let (mut rig, sick) = failing().await;
    rig.sim.with(|world| {
        let id = sick.status.provider_id.rsplit('/').next().unwrap();
        let protected = &mut world.account.protected;
        protected.insert(id.into(), Protection::Unauthorized);
    });
    rig.pass(secs(580)).await;
    let failed = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootFailed");
    wait(&mut rig, 240, failed).await;
    rig.sim.with(|world| {
        assert_eq!(event_messages(world, "RebootFailed").len(), 1);
        assert_eq!(counted(world), ["provider_error"]);
        assert_eq!(reboots(world, &sick), 0);
        world.account.protected.clear();
    });
    let replaced = |world: &mut World| !world.api.node_claims.contains_key(&sick.name);
    wait(&mut rig, 600, replaced).await;
    wait(&mut rig, 120, all_bound).await;
    rig.pass(secs(60)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled) && rig.sim.with(no_node_is_marked));
}

#[tokio::test]
async fn throttled_reboot_is_retried_for_five_minutes() {
    let (mut rig, sick) = failing().await;
    rig.pass(secs(580)).await;
    for _ in 0..100 {
        rig.sim.fail_next("reboot", Fault::Throttled);
    }
    let asked = |world: &World| world.calls.iter().filter(|call| **call == "reboot").count();
    wait(&mut rig, 240, |world| asked(world) > 0).await;
    rig.pass(secs(4 * 60)).await;
    rig.sim.with(|world| {
        let stands = reason(world, &sick);
        assert_eq!(stands.as_deref(), Some("RebootRequested"));
        assert!(asked(world) > 3, "{} times", asked(world));
        assert_eq!(counted(world), [""; 0]);
    });
    let failed = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootFailed");
    wait(&mut rig, 120, failed).await;
    rig.sim.with(|world| {
        assert_eq!(counted(world), ["provider_error"]);
        assert_eq!(reboots(world, &sick), 0);
    });
}

#[tokio::test]
async fn reboot_throttled_once_succeeds_at_the_next_attempt() {
    let (mut rig, sick) = failing().await;
    rig.pass(secs(580)).await;
    rig.sim.fail_next("reboot", Fault::Throttled);
    wait(&mut rig, 300, |world| reboots(world, &sick) == 1).await;
    let succeeded = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootSucceeded");
    wait(&mut rig, 300, succeeded).await;
    assert_eq!(rig.sim.with(|world| counted(world)), ["succeeded"]);
}

#[tokio::test]
async fn node_that_stays_unhealthy_after_a_reboot_is_deleted_after_twenty_minutes() {
    let (mut rig, sick) = failing().await;
    rig.pass(secs(580)).await;
    wait(&mut rig, 240, |world| reboots(world, &sick) == 1).await;
    rig.sim.with(|world| {
        let name = sick.status.node_name.clone().unwrap();
        world.api.silent.insert(name);
    });
    rig.pass(secs(1_190)).await;
    let lives = |world: &mut World| {
        let claim = world.api.node_claims.get(&sick.name);
        claim.is_some_and(|claim| claim.deleted_at.is_none())
    };
    assert!(rig.sim.with(lives));
    wait(&mut rig, 120, |world| !lives(world)).await;
    assert_eq!(rig.sim.with(|world| counted(world)), ["recovery_timeout"]);
    wait(&mut rig, 900, all_bound).await;
    let gone = |world: &mut World| !world.api.node_claims.contains_key(&sick.name);
    wait(&mut rig, 900, gone).await;
    assert!(rig.sim.with(consistent));
}

#[tokio::test]
async fn reboot_is_resumed_after_a_turn_was_killed_before_recording_it() {
    let (mut rig, sick) = failing().await;
    rig.pass(secs(580)).await;
    rig.sim.with(|world| world.crash_after = Some("reboot"));
    wait(&mut rig, 240, |world| reboots(world, &sick) == 1).await;
    let succeeded = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootSucceeded");
    wait(&mut rig, 300, succeeded).await;
    assert_eq!(
        rig.sim.with(|world| reboots(world, &sick)),
        1,
        "EC2 was not asked again"
    );
}

#[tokio::test]
async fn reboot_that_karpenter_has_issued_is_completed_without_another_call() {
    let (mut rig, sick) = failing().await;
    rig.sim.with(|world| {
        let now = world.now;
        let id = sick.status.provider_id.rsplit('/').next().unwrap();
        world.account.reboots.insert(id.into(), vec![now]);
        let claim = world.api.node_claims.get_mut(&sick.name).unwrap();
        let name = claim.status.node_name.clone().unwrap();
        let boot_id = world.api.nodes[&name].boot_id.clone();
        let before = "karpenter.sh/reboot-pre-boot-id".to_owned();
        claim.annotations.insert(before, boot_id);
        claim
            .status
            .conditions
            .retain(|condition| condition.kind != INITIALIZED);
        for (kind, status, reason) in [
            (REBOOTING, ConditionStatus::True, "RebootIssued"),
            (INITIALIZED, ConditionStatus::Unknown, "Rebooting"),
        ] {
            claim.status.conditions.push(Condition {
                kind: kind.to_owned(),
                status,
                reason: reason.to_owned(),
                message: String::new(),
                last_transition: now,
                observed_generation: Some(1),
            });
        }
    });
    let succeeded = |world: &mut World| reason(world, &sick).as_deref() == Some("RebootSucceeded");
    wait(&mut rig, 300, succeeded).await;
    let initialized = |world: &mut World| world.api.node_claims[&sick.name].is_true(INITIALIZED);
    wait(&mut rig, 120, initialized).await;
    rig.sim.with(|world| {
        assert!(!world.calls.contains(&"reboot"));
        let claim = &world.api.node_claims[&sick.name];
        let keys = claim.annotations.keys();
        assert!(
            keys.clone().all(|key| !key.contains("pre-boot-id")),
            "{keys:?}"
        );
    });
}
