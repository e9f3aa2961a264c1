//! Packs the new nodes again by price. First fit fills a node before it opens the next one, so nodes grow to the largest
//! size and the last pods decide the total. Once every pod has a place, the new nodes of one NodePool are packed again as a
//! whole: repeatedly the node with the highest value of pods per price; the value of a pod is the price that such pods have
//! cost so far. The cheaper of the two results is kept.
//!
//! Nodes with a pod that cannot move are kept; their other pods may leave where that is cheaper.
//!
//! Decisions of the search for reasons other than capacity are kept: the NodePool of each pod, and every label that its
//! topology or volumes depend on, so that no count per domain changes. Constraints per host are checked again, and the new
//! nodes pass the same checks as all others.

mod build;
mod items;
mod nodes;
mod offers;
mod shift;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use model::NanosPerHour;

use self::{items::MovablePods, nodes::WorkBudget, offers::PurchaseOptions};
use crate::{claim::Claim, placement_context::PlacementContext, solve::Solver, topology::HostId};

/// Cost of a node per hour besides its instance: agents that are licensed per host, addresses, volumes, watches. An
/// additional node has to save as much, so that cheap small instances do not take over.
const PER_NODE_OVERHEAD: NanosPerHour = NanosPerHour(43_000_000);

/// Part of [`PER_NODE_OVERHEAD`] that the NodePool's surcharge does not contain.
fn unpriced_overhead(context: &PlacementContext<'_>, template: usize) -> i64 {
    let pool = context.input.pools.get(template);
    let priced = pool.map_or(0, |pool| pool.surcharge.0);
    PER_NODE_OVERHEAD.0.saturating_sub(priced).max(0)
}

pub(crate) fn repack(solver: &mut Solver<'_>) {
    if solver.context.reservations.are_counted() {
        return;
    }
    let mut staying: BTreeSet<HostId> = solver.claims.iter().map(|claim| claim.host).collect();
    for template in 0..solver.context.templates.len() {
        let Some(movable) = items::movable(solver, template) else {
            continue;
        };
        for claim in movable
            .claims
            .iter()
            .filter_map(|at| solver.claims.get(*at))
        {
            staying.remove(&claim.host);
        }
        build::free_limits(solver, template, &movable);
        if let Some(rebuilt) = cheaper(solver, template, &movable) {
            build::swap(solver, &movable, rebuilt);
        }
    }
    shift::shift(solver, &staying);
}

fn cheaper<'a>(
    solver: &mut Solver<'a>,
    template: usize,
    movable: &MovablePods<'a>,
) -> Option<Vec<Claim<'a>>> {
    let mut known = Cost::default();
    for claim in movable
        .claims
        .iter()
        .filter_map(|at| solver.claims.get(*at))
    {
        known.add(claim, &mut solver.context);
    }
    let offers = PurchaseOptions::new(movable, template, &mut solver.context)?;
    let mut work = WorkBudget::for_pods(solver.context.input.pods.len());
    let plan = nodes::cheapest(&movable.items, &offers, &mut work)?;
    if plan.cost >= known.with_overhead {
        return None;
    }
    let rebuilt = build::claims(solver, template, movable, &plan)?;
    let mut cost = Cost::default();
    for claim in &rebuilt {
        cost.add(claim, &mut solver.context);
    }
    (cost.price < known.price && cost.with_overhead < known.with_overhead).then_some(rebuilt)
}

/// Summed cost of some nodes.
#[derive(Clone, Copy, Default)]
struct Cost {
    price: i64,
    with_overhead: i64,
}

impl Cost {
    fn add(&mut self, claim: &Claim<'_>, context: &mut PlacementContext<'_>) {
        let price = context.cheapest(claim.template, claim.set, &claim.rows).0;
        self.price = self.price.saturating_add(price);
        self.with_overhead = self
            .with_overhead
            .saturating_add(price)
            .saturating_add(unpriced_overhead(context, claim.template));
    }
}
