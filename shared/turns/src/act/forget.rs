use std::collections::BTreeSet;

use model::{ClusterName, NodeClaimName, ledger::ClaimPhase, node_claim::NodeClaim};
use ports::Cluster;

use crate::{TurnError, World, context::isolation::ObjectFailures};

/// Upper bound on launches forgotten per turn: each costs a few calls. Later turns forget the rest.
const FORGOTTEN_MAX: usize = 100;

/// Forgets launches that are over and whose NodeClaims are gone (docs/protocol.md#a1). A list that lacks a NodeClaim proves
/// nothing; a read that finds nothing does. A row that cannot be read keeps its own NodeClaim from being forgotten, and no
/// other.
pub(crate) async fn forget_finished_launches(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    over: &[NodeClaimName],
    listed: &[NodeClaim],
    failures: &mut ObjectFailures,
) -> Result<(), TurnError> {
    let listed: BTreeSet<&NodeClaimName> = listed.iter().map(|claim| &claim.name).collect();
    let gone = over.iter().filter(|name| !listed.contains(name));
    for name in gone.take(FORGOTTEN_MAX) {
        let forgotten = forget_one(world, cluster, api, name).await;
        let about = format!("rows of NodeClaim {name}");
        failures.isolate_unseen(about, world.clock.now(), forgotten)?;
    }
    Ok(())
}

async fn forget_one(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    name: &NodeClaimName,
) -> Result<(), TurnError> {
    let row = world.ledger.claim(cluster, name).await?;
    let closed = row.is_none_or(|row| row.phase == ClaimPhase::Closed);
    if closed && api.node_claim(name).await?.is_none() {
        let now = world.clock.now();
        world.ledger.forget_claim(cluster, name, now).await?;
    }
    Ok(())
}
