//! Conditions that a simulated cluster must reach.

use fakes::World;

use crate::Rig;

/// Every replica of every Deployment exists and is bound.
pub fn all_bound(world: &mut World) -> bool {
    let wanted: usize = world
        .api
        .deployments
        .values()
        .map(|deployment| deployment.replicas)
        .sum();
    world.api.pods.len() == wanted && world.api.pods.values().all(|pod| pod.node_name.is_some())
}

/// The cluster has no instance, NodeClaim or Node.
pub fn all_gone(world: &mut World) -> bool {
    world.account.alive().count() == 0
        && world.api.node_claims.is_empty()
        && world.api.nodes.is_empty()
}

/// Instances, NodeClaims and Nodes correspond one to one by provider id.
pub fn consistent(world: &mut World) -> bool {
    let provider_ids: Vec<String> = {
        let mut ids: Vec<String> = world
            .account
            .alive()
            .map(|instance| format!("aws:///{}/{}", instance.zone, instance.id))
            .collect();
        ids.sort();
        ids
    };
    let mut claims: Vec<String> = world
        .api
        .node_claims
        .values()
        .map(|claim| claim.status.provider_id.clone())
        .collect();
    claims.sort();
    let mut nodes: Vec<String> = world
        .api
        .nodes
        .values()
        .map(|node| node.provider_id.clone())
        .collect();
    nodes.sort();
    provider_ids == claims && claims == nodes
}

/// Every call is closed, no intent is in flight, and no NodeClaim was created twice.
pub fn settled(world: &mut World) -> bool {
    let mut created = world.api.created.clone();
    created.sort();
    let total = created.len();
    created.dedup();
    let rows = world.ledger.of(&Rig::cluster());
    total == created.len()
        && rows.calls.values().all(|call| call.closed)
        && rows.intents.values().all(|intent| !intent.is_in_flight())
}
