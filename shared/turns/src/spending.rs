//! What a cluster's nodes come to, told to the other clusters of the account by the turns that see it change.

use model::{ClusterName, caps::Spending, ledger::Meta};
use ports::ledger::Moved;

use crate::{TurnError, World, lane::Turn, observe::Observed};

/// Writes down what the cluster comes to, where that is not what the account's row says. A quiet cluster writes nothing.
pub(crate) async fn publish(turn: &Turn<'_>, observed: &mut Observed) -> Result<(), TurnError> {
    let snapshot = &mut observed.snapshot;
    let own = planner::spending(snapshot);
    if snapshot.account.of(turn.cluster) == own {
        return Ok(());
    }
    let next = snapshot.account.with(turn.cluster, own);
    match turn.world.ledger.store_spending(&next).await? {
        Moved::Yes => snapshot.account = next,
        // Another cluster was faster: commits look again, and so does the next turn.
        Moved::No => {}
    }
    Ok(())
}

/// A cluster of which nothing is left costs nothing any more.
pub(crate) async fn forget(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
) -> Result<(), TurnError> {
    if meta.account.clusters.contains_key(cluster) {
        let next = meta.account.with(cluster, Spending::default());
        // Where another cluster was faster, the next sweep tries again.
        let (Moved::Yes | Moved::No) = world.ledger.store_spending(&next).await?;
    }
    Ok(())
}
