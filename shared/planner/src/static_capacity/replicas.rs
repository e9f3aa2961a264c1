use model::{NodeClaimName, Snapshot, node_pool::NodePool, resources::NODES};

/// Number of nodes that a static NodePool should have, within its limit; zero for other NodePools.
pub(crate) fn wanted_replicas(pool: &NodePool) -> usize {
    let number = |amount: i64| usize::try_from(amount).unwrap_or(0);
    let replicas = pool.replicas.map_or(0, number);
    let limit = pool.limits.0.get(NODES).copied();
    limit.map_or(replicas, |limit| replicas.min(number(limit)))
}

/// Number of launches in flight for a NodePool without a NodeClaim in the API.
pub(crate) fn launches_to_come(snapshot: &Snapshot, pool: &NodePool) -> usize {
    let is_shown = |name: &NodeClaimName| {
        let mut claims = snapshot.node_claims.iter();
        claims.any(|claim| claim.name == *name)
    };
    let coming = snapshot.intents.iter().filter(|intent| {
        intent.is_in_flight() && intent.launch.node_pool == pool.name && !is_shown(intent.name())
    });
    coming.count()
}
