use model::{
    ClusterName, Uid,
    ledger::{Meta, SweepMemory},
};

use crate::{SweepReport, TurnError, World};

/// Records the cluster that an entry leads to. Returns whether the entry led to another cluster before: nothing that was
/// remembered of the former holds for the new one.
pub(crate) async fn record(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
    uid: &Uid,
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> Result<bool, TurnError> {
    let former = match &meta.uid {
        Some(known) if known == uid => return Ok(false),
        known => known.clone(),
    };
    if let Some(former) = &former {
        tracing::warn!(%cluster, %former, %uid, "registry entry leads to another cluster than before");
        report.alarms.push(format!(
            "{cluster}: its registry entry led to the cluster whose kube-system has the uid {former}, and leads to {uid} now"
        ));
        *memory = std::mem::take(memory).of_successor(former.clone());
        // Stored before META forgets the former uid: remains of the former cluster are looked for by it.
        world.ledger.store_sweep_memory(cluster, memory).await?;
    }
    world.ledger.identify(cluster, uid).await?;
    Ok(former.is_some())
}
