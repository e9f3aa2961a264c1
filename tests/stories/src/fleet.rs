//! A cluster of any number of identical nodes, without the time of their launches.

use fakes::World;
use model::{PodKey, ledger::Holder};

use crate::{Relay, Rig, all_bound, secs};

/// Returns a cluster of `nodes` copies of one launched node, each with a pod that no workload recreates.
///
/// # Panics
///
/// Panics if the first node does not become ready.
pub async fn fleet(nodes: usize) -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:?} {:?}", rig.errors, rig.warnings);
    rig.pass(secs(120)).await;
    rig.sim.with(|world| {
        world.api.deployments.clear();
        for number in 1..nodes {
            assert!(copy(world, number).is_some(), "the first node is gone");
        }
    });
    rig
}

/// Turns the NodePool into a static one of zero replicas, so that every NodeClaim of it is surplus.
pub fn wants_no_nodes(rig: &Rig) {
    rig.configure(&serde_json::json!({"featureGates": {"StaticCapacity": true}}));
    rig.sim.with(|world| {
        for pool in world.api.node_pools.values_mut() {
            pool.spec.replicas = Some(0);
        }
    });
}

/// Adds a copy of the first node with everything that a launch leaves: NodeClaim, Node, pod, instance and the owner's row.
fn copy(world: &mut World, number: usize) -> Option<()> {
    let mut claim = world.api.node_claims.values().next()?.clone();
    let mut node = world.api.nodes.values().next()?.clone();
    let mut pod = world.api.pods.values().next()?.clone();
    let mut instance = world.account.instances.values().next()?.clone();
    let mut owner = world.ledger.owners.values().next()?.clone();
    let name = format!("zz-{number:06}");
    instance.id = format!("i-{name}").as_str().into();
    instance.private_dns = Some(name.clone());
    instance.tags.remove("karpenter.sh/nodeclaim");
    claim.name = name.as_str().into();
    claim.uid = format!("{name}-uid").as_str().into();
    claim.status.provider_id = format!("aws:///us-east-1a/i-{name}");
    claim.status.node_name = Some(name.as_str().into());
    node.name = name.as_str().into();
    node.uid = format!("node-{name}-uid").as_str().into();
    node.provider_id.clone_from(&claim.status.provider_id);
    owner.holder = Holder::Claim(claim.name.clone());
    pod.key = PodKey::new("default", &name);
    pod.uid = format!("pod-{name}-uid").as_str().into();
    pod.node_name = Some(node.name.clone());
    world.ledger.owners.insert(instance.id.clone(), owner);
    world
        .account
        .instances
        .insert(instance.id.clone(), instance);
    world.api.node_claims.insert(claim.name.clone(), claim);
    world.api.nodes.insert(node.name.clone(), node);
    world.api.pods.insert(pod.key.clone(), pod);
    Some(())
}
