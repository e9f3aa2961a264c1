use std::collections::BTreeSet;

use model::{ClusterName, NodeClaimName, ledger::ClaimPhase, node_claim::NodeClaim};
use ports::Cluster;

use crate::{TurnError, World};

/// Each costs a few calls; what is left is forgotten by later looks.
const FORGOTTEN_MAX: usize = 100;

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
    let gone = over.iter().filter(|name| !listed.contains(name));
    for name in gone.take(FORGOTTEN_MAX) {
        let row = world.ledger.claim(cluster, name).await?;
        let closed = row.is_none_or(|row| row.phase == ClaimPhase::Closed);
        if closed && api.node_claim(name).await?.is_none() {
            world
                .ledger
                .forget_claim(cluster, name, world.clock.now())
                .await?;
        }
    }
    Ok(())
}
