//! Launches whose NodeClaim somebody removed, finalizer and all, and whose instance is gone, too: nobody ends these any more.

use std::collections::BTreeSet;

use model::{
    ClusterName, InstanceId, NodeClaimName, launch::Instance, ledger::ClaimPhase,
    node_claim::NodeClaim,
};
use ports::Cluster;

use crate::{TurnError, World};

/// Each costs a few calls; the others are looked at once these are forgotten.
const AT_ONCE: usize = 100;

/// Forgets those that are `due`, because an earlier look found them so, and answers the others (G2).
pub(super) async fn forget_lost(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    launched: &[NodeClaimName],
    claims: &[NodeClaim],
    instances: &[Instance],
    due: &[NodeClaimName],
) -> Result<BTreeSet<NodeClaimName>, TurnError> {
    let names: BTreeSet<&NodeClaimName> = claims.iter().map(|claim| &claim.name).collect();
    let alive: BTreeSet<&InstanceId> = instances.iter().map(|instance| &instance.id).collect();
    let unlisted = launched.iter().filter(|name| !names.contains(name));
    let mut lost = BTreeSet::new();
    for name in unlisted.take(AT_ONCE) {
        let Some(row) = world.ledger.claim(cluster, name).await? else {
            continue;
        };
        let is_owed = row.phase == ClaimPhase::Open && !alive.contains(&row.instance);
        if !is_owed || api.node_claim(name).await?.is_some() {
            continue;
        }
        if due.contains(name) {
            world.ledger.close_claim(cluster, name).await?;
            let now = world.clock.now();
            world.ledger.forget_claim(cluster, name, now).await?;
        } else {
            lost.insert(name.clone());
        }
    }
    Ok(lost)
}
