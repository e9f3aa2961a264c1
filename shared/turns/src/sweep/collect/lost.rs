//! Launches whose NodeClaim was removed by force together with its finalizer, and whose instance is gone, too: no turn ends
//! them any more.

use std::collections::BTreeSet;

use model::{ClusterName, InstanceId, NodeClaimName, ledger::ClaimPhase, node_claim::NodeClaim};
use ports::Cluster;

use crate::{TurnError, World, context::isolation::ObjectFailures};

/// Upper bound on launches read per sweep: each costs a few calls. The others are read once these are forgotten.
const READ_PER_SWEEP: usize = 100;

/// Search for launches without a NodeClaim.
pub(super) struct LostLaunches<'a> {
    pub(super) world: &'a World,
    pub(super) cluster: &'a ClusterName,
    pub(super) api: &'a dyn Cluster,
    pub(super) alive: BTreeSet<&'a InstanceId>,
    /// Launches that an earlier sweep found to be lost.
    pub(super) due: &'a [NodeClaimName],
}

impl LostLaunches<'_> {
    /// Forgets the launches that are due and returns the other lost ones (docs/protocol.md#g2). A row that cannot be read keeps
    /// back its own NodeClaim alone.
    pub(super) async fn forget(
        &self,
        launched: &[NodeClaimName],
        claims: &[NodeClaim],
        failures: &mut ObjectFailures,
    ) -> Result<BTreeSet<NodeClaimName>, TurnError> {
        let names: BTreeSet<&NodeClaimName> = claims.iter().map(|claim| &claim.name).collect();
        let unlisted = launched.iter().filter(|name| !names.contains(name));
        let mut lost = BTreeSet::new();
        for name in unlisted.take(READ_PER_SWEEP) {
            let is_lost = self.is_lost(name).await;
            let about = format!("rows of NodeClaim {name}");
            let is_lost = failures.isolate_unseen(about, self.world.clock.now(), is_lost)?;
            if is_lost == Some(true) {
                lost.insert(name.clone());
            }
        }
        Ok(lost)
    }

    /// Whether a launch is lost and not forgotten yet.
    async fn is_lost(&self, name: &NodeClaimName) -> Result<bool, TurnError> {
        let ledger = &self.world.ledger;
        let Some(row) = ledger.claim(self.cluster, name).await? else {
            return Ok(false);
        };
        let is_open_and_gone = row.phase == ClaimPhase::Open && !self.alive.contains(&row.instance);
        if !is_open_and_gone || self.api.node_claim(name).await?.is_some() {
            return Ok(false);
        }
        if !self.due.contains(name) {
            return Ok(true);
        }
        ledger.close_claim(self.cluster, name).await?;
        let now = self.world.clock.now();
        ledger.forget_claim(self.cluster, name, now).await?;
        Ok(false)
    }
}
