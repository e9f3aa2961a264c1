//! A cluster whose registry entry was renamed: its nodes are tagged with the former name.

use api::names::tag;
use model::{InstanceId, InterruptionKind, NodeClaimName};

use super::*;

/// Unregisters the cluster and registers it under another name. Returns its first NodeClaim with its instance.
async fn rename(rig: &mut Rig) -> (NodeClaimName, InstanceId) {
    rig.sim.with(|world| world.registry.clear());
    rig.pass(secs(240)).await;
    rig.sim.with(|world| {
        world
            .registry
            .push(entry("demo-eu", "endpoint", "https://127.0.0.1"))
    });
    rig.pass(secs(240)).await;
    assert_eq!(mode(rig, "demo-eu"), Some(Mode::Active));
    rig.sim.with(|world| {
        let claim = world.api.node_claims.values().next().unwrap();
        let id = claim.status.provider_id.rsplit('/').next().unwrap();
        (claim.name.clone(), id.into())
    })
}

#[tokio::test]
async fn node_claim_of_renamed_cluster_waits_until_its_instance_is_renamed_too() {
    let mut rig = serving(2).await;
    let (name, instance) = rename(&mut rig).await;
    rig.sim
        .with(|world| world.api.request_deletion(&name, world.now));
    rig.pass(secs(1_200)).await;
    rig.sim.with(|world| {
        assert!(world.api.node_claims.contains_key(&name));
        assert!(world.account.instances[&instance].state.is_alive());
        let reported = world.api.events.iter().find(|event| {
            event.reason == "InstanceOfAnotherCluster"
                && event
                    .message
                    .contains("the name of cluster demo, not demo-eu")
        });
        assert!(reported.is_some(), "{:#?}", world.api.events);
        let tags = &mut world.account.instances.get_mut(&instance).unwrap().tags;
        tags.insert(tag::EKS_CLUSTER.to_owned(), "demo-eu".to_owned());
    });
    let gone = rig
        .until(secs(300), |world| {
            !world.api.node_claims.contains_key(&name) && !alive(world).contains(&instance)
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

/// The cluster's instances are found by the former name.
#[tokio::test]
async fn interrupted_node_of_renamed_cluster_is_drained() {
    let mut rig = serving(2).await;
    let (name, instance) = rename(&mut rig).await;
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&instance, kind, Some(secs(120)))
        .await
        .unwrap();
    let leaves = rig
        .until(secs(60), |world| {
            let claim = world.api.node_claims.get(&name);
            claim.is_none_or(|claim| claim.deleted_at.is_some())
        })
        .await;
    assert!(leaves.is_some(), "{:#?}", rig.transcript);
}
