//! Nodes of static NodePools that are terminated before their replacement: at most as many may be missing as budgets
//! allow to be disrupted.

use model::{counted, node_pool::NodePool};

use super::Check;
use crate::{
    budget::Reason,
    world::{InFlight, Machine},
};

impl<'a> Check<'_, 'a> {
    /// Reason why a node of a static NodePool may not be removed. A node that is replaced first, or is in excess of the
    /// replicas, leaves none missing.
    pub(super) fn missing_replicas(
        &self,
        node: &Machine<'a>,
        pool: &NodePool,
        reasons: &[Reason],
    ) -> Option<String> {
        let name = pool.name.as_str();
        let number = |amount: i64| usize::try_from(amount).unwrap_or(0);
        let replicas = number(pool.replicas?);
        let limit = pool.limits.0.get("nodes").copied();
        let wanted = limit.map_or(replicas, |limit| replicas.min(number(limit)));
        let machines = self.world.machines.iter();
        let staying: Vec<&Machine<'a>> = machines
            .filter(|machine| machine.claim.is_some() && machine.node_pool() == Some(name))
            .filter(|machine| !machine.leaving && !machine.deleted_by_plan)
            .collect();
        let in_flight = self.world.in_flight.values();
        let coming = in_flight.filter(|coming| comes(coming, name)).count();
        let launched = self.launches.get(name).copied().unwrap_or(0);
        let machines = self.world.machines.iter();
        let deleted_by_plan = machines
            .filter(|machine| machine.claim.is_some() && machine.node_pool() == Some(name))
            .filter(|machine| machine.deleted_by_plan);
        let is_replaced_first = launched >= deleted_by_plan.count();
        if !node.initialized || is_replaced_first || staying.len() + coming + launched >= wanted {
            return None;
        }
        let in_service = staying.iter().filter(|machine| machine.initialized).count();
        let missing = wanted.saturating_sub(in_service);
        let now = self.world.snapshot.now;
        let may_go = self
            .remaining
            .allows_missing(pool, reasons, (missing, wanted), now);
        (!may_go).then(|| {
            format!(
                "would leave {} of NodePool {name} missing, more than its budgets allow",
                counted(missing, "node")
            )
        })
    }
}

/// Whether this is a node in flight of the NodePool.
fn comes(coming: &InFlight<'_>, pool: &str) -> bool {
    match (coming.claim, coming.intent) {
        (Some(claim), _) => {
            let own = claim.node_pool();
            claim.deleted_at.is_none() && own.is_some_and(|own| own.as_str() == pool)
        }
        (None, Some(intent)) => intent.is_in_flight() && intent.launch.node_pool.as_str() == pool,
        (None, None) => false,
    }
}
