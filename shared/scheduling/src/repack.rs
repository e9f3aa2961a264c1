//! Buying the new nodes again, by price. The search fills a node before it makes the next one, so nodes grow to the largest
//! size and the last pods decide what the whole costs. Once every pod has a place, the nodes to be made of one NodePool are
//! planned anew as a whole: again and again the node whose pods are worth most for its price, where a pod's worth is what
//! such pods have cost so far. The cheaper of the two answers stays.
//!
//! Nodes with a pod that has to stay are kept; pods of theirs that may go leave where that is cheaper.
//!
//! What the search decided for reasons other than room stays decided: which NodePool serves a pod, and every label that a
//! pod's topology or volumes depend on, so that no count per domain changes. Rules per host are obeyed again, and the new
//! nodes are filled through the same checks as all others.

mod build;
mod items;
mod nodes;
mod offers;
mod shift;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use model::NanosPerHour;

use self::{items::Movable, nodes::WorkBudget, offers::PurchaseOptions};
use crate::{claim::Claim, solve::Solver, topology::HostId, world::World};

/// What a node costs besides its instance: agents that are paid per host, addresses, volumes, and everybody who watches
/// it. A node more has to save as much, so that cheap small instances do not take over.
const PER_NODE_OVERHEAD: NanosPerHour = NanosPerHour(43_000_000);

/// The part of [`PER_NODE_OVERHEAD`] that prices of a NodePool's nodes do not have yet.
fn unpriced_overhead(world: &World<'_>, template: usize) -> i64 {
    let pool = world.input.pools.get(template);
    let priced = pool.map_or(0, |pool| pool.surcharge.0);
    PER_NODE_OVERHEAD.0.saturating_sub(priced).max(0)
}

pub(crate) fn repack(solver: &mut Solver<'_>) {
    if solver.world.reservations.are_counted() {
        return;
    }
    let mut staying: BTreeSet<HostId> = solver.claims.iter().map(|claim| claim.host).collect();
    for template in 0..solver.world.templates.len() {
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
    movable: &Movable<'a>,
) -> Option<Vec<Claim<'a>>> {
    let mut known = Cost::default();
    for claim in movable
        .claims
        .iter()
        .filter_map(|at| solver.claims.get(*at))
    {
        known.add(claim, &mut solver.world);
    }
    let offers = PurchaseOptions::new(movable, template, &mut solver.world)?;
    let mut work = WorkBudget::for_pods(solver.world.input.pods.len());
    let plan = nodes::cheapest(&movable.items, &offers, &mut work)?;
    if plan.cost >= known.with_overhead {
        return None;
    }
    let rebuilt = build::claims(solver, template, movable, &plan)?;
    let mut cost = Cost::default();
    for claim in &rebuilt {
        cost.add(claim, &mut solver.world);
    }
    (cost.price < known.price && cost.with_overhead < known.with_overhead).then_some(rebuilt)
}

/// Of some nodes together.
#[derive(Clone, Copy, Default)]
struct Cost {
    price: i64,
    with_overhead: i64,
}

impl Cost {
    fn add(&mut self, claim: &Claim<'_>, world: &mut World<'_>) {
        let price = world.cheapest(claim.template, claim.set, &claim.rows).0;
        self.price = self.price.saturating_add(price);
        self.with_overhead = self
            .with_overhead
            .saturating_add(price)
            .saturating_add(unpriced_overhead(world, claim.template));
    }
}
