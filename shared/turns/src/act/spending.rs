//! Spending: the price and number of a cluster's nodes, published to the account's other clusters by the turns that see it
//! change.

use model::{ClusterName, caps::Spending, ledger::Meta};
use ports::ledger::Moved;

use crate::{TurnError, World, context::Turn, observe::Observed};

/// Stores the cluster's spending, if it differs from the account's row. A quiet cluster writes nothing.
pub(crate) async fn publish(turn: &Turn<'_>, observed: &mut Observed) -> Result<(), TurnError> {
    let snapshot = &mut observed.snapshot;
    let own = planner::spending(snapshot);
    if snapshot.account.of(turn.cluster) == own {
        return Ok(());
    }
    let next = snapshot.account.with(turn.cluster, own);
    match turn.world.ledger.store_spending(&next).await? {
        Moved::Yes => snapshot.account = next,
        // Another cluster was faster: commits read the row again, and so does the next turn.
        Moved::No => {}
    }
    Ok(())
}

/// Removes the spending of a cluster of which nothing is left.
pub(crate) async fn remove_cluster(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
) -> Result<(), TurnError> {
    if meta.account.clusters.contains_key(cluster) {
        let next = meta.account.with(cluster, Spending::default());
        // If another cluster was faster, the next sweep tries again.
        let (Moved::Yes | Moved::No) = world.ledger.store_spending(&next).await?;
    }
    Ok(())
}
