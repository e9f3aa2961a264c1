//! Garbage collection of single instances and NodeClaims, and the brake on mass absence (docs/design.md#mass-absence,
//! docs/protocol.md#collecting).

use api::names::finalizer;
use fakes::{Fault, World};
use model::{InterruptionKind, node_claim::NodeClaim};
use stories::{Relay, Rig, add_stray, all_bound, consistent, secs, settled, transcript};

use crate::{claim, is_gone, serving, serving_apart};

#[tokio::test]
async fn instance_without_a_node_claim_is_collected() {
    let mut rig = serving(8).await;
    let stray = rig.sim.with(add_stray);
    let is_ended = move |world: &mut World| !world.account.instances[&stray].state.is_alive();
    let collected = rig.until(secs(600), is_ended).await;
    assert!(
        collected.is_some_and(|took| took >= 120),
        "two sweeps: {collected:?} {:#?}",
        rig.transcript
    );
    assert!(rig.sim.with(all_bound));
    transcript!(rig);
}

#[tokio::test]
async fn node_claim_of_a_terminated_instance_is_deleted() {
    let mut rig = serving(4).await;
    let lost = claim(&rig);
    rig.sim.with(|world| {
        let id = lost.status.provider_id.rsplit('/').next().unwrap().into();
        let instance = world.account.instances.get_mut(&id).unwrap();
        instance.state = model::launch::InstanceState::Terminated;
        // There is neither an event nor a cloud controller.
        instance.private_dns = None;
        for node in world.api.nodes.values_mut() {
            if node.provider_id == lost.status.provider_id {
                node.ready.status = model::node::ConditionStatus::Unknown;
            }
        }
    });
    let gone = rig.until(secs(900), is_gone(&lost)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    assert!(
        rig.until(secs(600), |world| all_bound(world) && consistent(world))
            .await
            .is_some(),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

#[tokio::test]
async fn intent_without_node_claim_and_instance_is_deleted() {
    let mut rig = serving(4).await;
    let lost = claim(&rig);
    rig.sim.with(|world| {
        // The finalizer was removed by hand, and no event announces the instance's termination.
        world.api.node_claims.remove(&lost.name);
        world
            .api
            .nodes
            .retain(|_, node| node.provider_id != lost.status.provider_id);
        let id = lost.status.provider_id.rsplit('/').next().unwrap().into();
        let instance = world.account.instances.get_mut(&id).unwrap();
        instance.state = model::launch::InstanceState::Terminated;
        instance.private_dns = None;
    });
    let is_known = |world: &mut World| {
        let rows = world.ledger.of(&Rig::cluster());
        rows.claims.contains_key(&lost.name) || rows.intents.contains_key(&lost.name)
    };
    rig.pass(secs(119)).await;
    assert!(rig.sim.with(is_known), "two sweeps");
    let forgotten = rig.until(secs(600), |world| !is_known(world)).await;
    assert!(forgotten.is_some(), "{:#?}", rig.transcript);
    assert!(
        rig.until(secs(600), |world| all_bound(world) && consistent(world))
            .await
            .is_some(),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

/// The pods get another node immediately, as if the NodeClaim had never existed, whatever happens to its instance, even if it is the
/// only one.
#[tokio::test]
async fn node_claim_force_deleted_before_registration_delays_no_pod() {
    for others in [0, 4] {
        let mut rig = serving_apart(others).await;
        rig.scale(others + 1);
        let alive = |count| move |world: &mut World| world.account.alive().count() == count;
        let launched = rig.until(secs(60), alive(others + 1)).await;
        assert!(launched.is_some(), "{:#?}", rig.transcript);
        rig.pass(secs(2)).await;
        let lost = rig.sim.with(|world| {
            let unregistered = |claim: &&NodeClaim| claim.status.node_name.is_none();
            let lost = world.api.node_claims.values().find(unregistered).cloned();
            let lost = lost.unwrap();
            world.api.node_claims.remove(&lost.name);
            let id = lost.status.provider_id.rsplit('/').next().unwrap().into();
            world.account.instances.get_mut(&id).unwrap().private_dns = None;
            lost
        });
        let again = rig.until(secs(5), alive(others + 2)).await;
        assert!(again.is_some(), "{others}: {:#?}", rig.transcript);
        let served = rig.until(secs(120), all_bound).await;
        assert!(served.is_some(), "{others}: {:#?}", rig.transcript);
        let collected = rig.until(secs(600), is_gone(&lost)).await;
        assert!(collected.is_some(), "{others}: {:#?}", rig.transcript);
        rig.pass(secs(300)).await;
        assert!(rig.sim.with(all_bound) && rig.sim.with(consistent));
        assert!(rig.sim.with(alive(others + 1)));
        transcript!(rig, format!("{others}-others"));
    }
}

/// The node runs pods, so it is drained as if a user had deleted its Node.
#[tokio::test]
async fn ready_node_of_a_force_deleted_node_claim_is_drained_and_removed() {
    let mut rig = serving_apart(4).await;
    let lost = claim(&rig);
    let node = lost.status.node_name.clone().unwrap();
    rig.sim.with(|world| {
        world.api.node_claims.remove(&lost.name);
        let node = world.api.nodes.get_mut(&node).unwrap();
        node.finalizers.clear();
    });
    rig.pass(secs(100)).await;
    let is_deleted = {
        let node = node.clone();
        move |world: &mut World| world.api.nodes[&node].deleted_at.is_some()
    };
    assert!(!rig.sim.with(&is_deleted), "one sweep is not enough");
    let ordered = rig.until(secs(300), is_deleted).await;
    assert!(ordered.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        let finalizers = &world.api.nodes[&node].finalizers;
        assert!(finalizers.iter().any(|name| name == finalizer::TERMINATION));
    });
    let gone = rig.until(secs(600), is_gone(&lost)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    let evicted = "evict pod default/web-";
    assert!(
        rig.transcript.iter().any(|line| line.contains(evicted)),
        "{:#?}",
        rig.transcript
    );
    let served = rig.until(secs(600), |world| all_bound(world) && consistent(world));
    assert!(served.await.is_some(), "{:#?}", rig.transcript);
    transcript!(rig);
}

#[tokio::test]
async fn reclaimed_node_of_a_force_deleted_node_claim_is_replaced_in_time() {
    let mut rig = serving_apart(2).await;
    let lost = claim(&rig);
    rig.sim
        .with(|world| world.api.node_claims.remove(&lost.name));
    let instance = lost.status.provider_id.rsplit('/').next().unwrap().into();
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&instance, kind, Some(secs(120)))
        .await
        .unwrap();
    let launched = rig.until(secs(60), |world| world.api.node_claims.len() == 2);
    assert!(launched.await.is_some(), "{:#?}", rig.transcript);
    transcript!(rig);
}

/// A backup without the NodeClaims may have been restored, which is no reason to drain ready nodes.
#[tokio::test]
async fn ready_nodes_stay_when_all_node_claims_vanish() {
    let mut rig = serving_apart(4).await;
    rig.sim.with(|world| world.api.node_claims.clear());
    rig.pass(secs(1_800)).await;
    rig.sim.with(|world| {
        assert!(
            world
                .api
                .nodes
                .values()
                .all(|node| node.deleted_at.is_none())
        );
        assert_eq!(world.account.alive().count(), 4);
        assert!(all_bound(world));
    });
    assert!(
        rig.transcript
            .iter()
            .any(|line| line.contains("4 of 4 instances")),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

/// The launches ended in the ledger because EC2 did not show their instances for a while; that does not explain why the nodes
/// should be removed and others be launched for their pods.
#[tokio::test]
async fn brake_keeps_nodes_that_reappear_after_their_launches_failed() {
    let mut rig = serving_apart(4).await;
    rig.sim.with(|world| {
        world.account.blind = true;
        let names: Vec<_> = world.api.node_claims.keys().take(2).cloned().collect();
        for name in names {
            let claim = world.api.node_claims.remove(&name).unwrap();
            world.api.silent.insert(claim.status.node_name.unwrap());
        }
    });
    rig.pass(secs(900)).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        assert_eq!(rows.claims.len(), 2, "two launches have ended");
        world.account.blind = false;
        world.api.silent.clear();
    });
    rig.pass(secs(900)).await;
    assert_eq!(
        rig.sim.with(|world| world.account.instances.len()),
        4,
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

/// Nodes of a cluster with silent kubelets stay, regardless of EC2's list.
#[tokio::test]
async fn empty_instance_list_terminates_nothing() {
    for nodes in [1, 4] {
        let mut rig = serving_apart(nodes).await;
        let before = rig.sim.with(|world| {
            world.account.blind = true;
            world.api.silent = world.api.nodes.keys().cloned().collect();
            world.api.node_claims.len()
        });
        rig.pass(secs(1_800)).await;
        rig.sim.with(|world| {
            assert_eq!(world.api.node_claims.len(), before);
            assert!(
                world
                    .api
                    .node_claims
                    .values()
                    .all(|claim| claim.deleted_at.is_none())
            );
            world.account.blind = false;
            world.api.silent.clear();
        });
        assert!(
            rig.transcript
                .iter()
                .any(|line| line.contains("nothing was terminated")),
            "{:#?}",
            rig.transcript
        );
        rig.pass(secs(600)).await;
        assert!(rig.sim.with(consistent) && rig.sim.with(settled) && rig.sim.with(all_bound));
        transcript!(rig, format!("{nodes}-nodes"));
    }
}

#[tokio::test]
async fn failing_instance_list_terminates_nothing() {
    for fault in [Fault::Unavailable, Fault::Denied, Fault::Throttled] {
        let mut rig = serving(4).await;
        rig.sim
            .with(|world| world.api.silent = world.api.nodes.keys().cloned().collect());
        for _ in 0..60 {
            rig.sim.fail_next("list_instances", fault);
            rig.sim.fail_next("describe_instances", fault);
        }
        rig.pass(secs(900)).await;
        rig.sim.with(|world| {
            assert!(
                world
                    .account
                    .instances
                    .values()
                    .all(|instance| instance.state.is_alive())
            );
            assert!(
                world
                    .api
                    .node_claims
                    .values()
                    .all(|claim| claim.deleted_at.is_none())
            );
        });
        transcript!(rig, format!("{fault:?}"));
    }
}

#[tokio::test]
async fn failing_cluster_lists_terminate_nothing() {
    let mut rig = serving(4).await;
    rig.relay = Relay::Dead;
    for _ in 0..60 {
        rig.sim.fail_next("node_claims", Fault::Unavailable);
        rig.sim.fail_next("nodes", Fault::Unavailable);
    }
    rig.pass(secs(900)).await;
    rig.sim.with(|world| {
        assert!(
            world
                .account
                .instances
                .values()
                .all(|instance| instance.state.is_alive())
        );
    });
    transcript!(rig);
}

#[tokio::test]
async fn restored_etcd_without_the_newest_node_claims_terminates_nothing() {
    let mut rig = serving_apart(8).await;
    rig.sim.with(|world| {
        // The backup is older than half of the nodes.
        let half = world.api.node_claims.len() / 2;
        let lost: Vec<_> = world.api.node_claims.keys().take(half).cloned().collect();
        for name in lost {
            let claim = world.api.node_claims.remove(&name).unwrap();
            world
                .api
                .nodes
                .retain(|_, node| node.provider_id != claim.status.provider_id);
            // The kubelets do not recreate their Nodes.
            for instance in world.account.instances.values_mut() {
                if claim.status.provider_id.ends_with(instance.id.as_str()) {
                    instance.private_dns = None;
                }
            }
        }
    });
    let before = rig.sim.with(|world| world.account.instances.len());
    rig.pass(secs(1_800)).await;
    rig.sim.with(|world| {
        let alive = world.account.alive().count();
        assert!(alive >= before, "{alive} of {before}");
    });
    assert!(
        rig.transcript
            .iter()
            .any(|line| line.contains("nothing was terminated")),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

#[tokio::test]
async fn braked_instances_are_terminated_only_with_approval() {
    let mut rig = serving_apart(4).await;
    rig.relay = Relay::Dead;
    rig.sim.with(|world| {
        world.api.deployments.clear();
        world.api.pods.clear();
        world.api.node_claims.clear();
        world.api.nodes.clear();
        for instance in world.account.instances.values_mut() {
            instance.private_dns = None;
        }
    });
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(|world| world.account.alive().count()), 4);
    let approve = |rig: &Rig, seconds: i64| {
        rig.sim.with(|world| {
            let until = (world.now + secs(seconds)).to_string();
            let entry = world.registry[0].body.as_mut().unwrap();
            entry["approvals"] = serde_json::json!({"collectUntil": until});
        });
    };
    approve(&rig, -60);
    rig.pass(secs(300)).await;
    assert_eq!(
        rig.sim.with(|world| world.account.alive().count()),
        4,
        "the approval has expired"
    );
    approve(&rig, 600);
    rig.pass(secs(600)).await;
    assert_eq!(
        rig.sim.with(|world| world.account.alive().count()),
        0,
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}
