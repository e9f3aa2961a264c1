use std::collections::BTreeSet;

use model::{ClusterName, NodeClaimName, ledger::ClaimPhase, node_claim::NodeClaim};
use ports::Cluster;

use crate::{TurnError, World};

/// Forgets launches that are over and whose NodeClaims are gone (PROTOCOL A1): a list without one is not proof, a read that finds
/// nothing is.
pub(crate) async fn forget(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    over: &[NodeClaimName],
    listed: &[NodeClaim],
) -> Result<(), TurnError> {
    let listed: BTreeSet<&NodeClaimName> = listed.iter().map(|claim| &claim.name).collect();
    for name in over {
        if listed.contains(name) {
            continue;
        }
        let row = world.ledger.claim(cluster, name).await?;
        let closed = row.is_none_or(|row| row.phase == ClaimPhase::Closed);
        if closed && api.node_claim(name).await?.is_none() {
            world.ledger.forget_claim(cluster, name).await?;
        }
    }
    Ok(())
}
