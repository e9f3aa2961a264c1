//! Failures of nodes that the clusters of an account share (docs/disruption.md#failures-that-several-clusters-share).

use model::Evidence;

use crate::{Report, TurnError, context::Turn, observe::Observed};

/// Publishes this cluster's failures if they changed since the last publication, and reads those of others. A cluster with node
/// repair disabled reads and writes nothing.
pub(crate) async fn exchange_failures(
    turn: &Turn<'_>,
    observed: &mut Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    let snapshot = &mut observed.snapshot;
    let Some(own) = planner::failures(snapshot) else {
        return Ok(());
    };
    if let Some(next) = own.next {
        report.run_again_at(next);
    }
    let ledger = &turn.world.ledger;
    let (own_rows, others): (Vec<_>, Vec<_>) = ledger
        .evidence()
        .await?
        .into_iter()
        .partition(|evidence| evidence.cluster == *turn.cluster);
    if let Some(own) = Evidence::after(own_rows.first(), turn.cluster, own.shared, snapshot.now) {
        ledger.store_evidence(&own).await?;
    }
    snapshot.evidence = others;
    let now = snapshot.now;
    snapshot.evidence.retain(|evidence| evidence.until > now);
    Ok(())
}
