//! Buying the new nodes again, by price. The search fills a node before it makes the next one, so nodes grow to the largest
//! size and the last pods decide what the whole costs. Once every pod has a place, the nodes to be made of one NodePool are
//! planned anew as a whole: again and again the node whose pods are worth most for its price, where a pod's worth is what
//! such pods have cost so far. The cheaper of the two answers stays.
//!
//! What the search decided for reasons other than room stays decided: which NodePool serves a pod, and every label that a
//! pod's topology or volumes depend on, so that no count per domain changes. Rules per host are obeyed again, and the new
//! nodes are filled through the same checks as all others.

mod build;
mod items;
mod nodes;
mod offers;
#[cfg(test)]
mod tests;

use model::NanosPerHour;

use self::{nodes::Work, offers::Offers};
use crate::{bits::Bits, claim::Claim, solve::Solver, world::World};

/// What a node costs besides its instance: agents that are paid per host, addresses, volumes, and everybody who watches
/// it. A node more has to save as much, so that cheap small instances do not take over.
const UPKEEP: NanosPerHour = NanosPerHour(45_000_000);

pub(crate) fn repack(solver: &mut Solver<'_>) {
    if solver.world.reservations.are_counted() {
        return;
    }
    for template in 0..solver.world.templates.len() {
        let Some(movable) = items::movable(solver, template) else {
            continue;
        };
        let mut rows = allowed(solver, template);
        let mut work = Work::for_pods(solver.world.input.pods.len());
        let Some(offers) = Offers::new(&movable, template, &mut rows, &mut solver.world) else {
            continue;
        };
        let known = cost(solver, movable.claims.iter().copied());
        if let Some(plan) = nodes::cheapest(&movable.items, &offers, &mut work)
            && plan.cost < known.with_upkeep
        {
            build::replace(solver, template, &movable, &plan, known);
        }
    }
}

/// The types the NodePool may still use.
fn allowed(solver: &Solver<'_>, template: usize) -> Bits {
    let world = &solver.world;
    let mould = world.templates.get(template);
    mould.map_or_else(|| Bits::none(0), |mould| mould.base.clone())
}

/// Of some nodes together.
#[derive(Clone, Copy, Default)]
struct Cost {
    price: i64,
    with_upkeep: i64,
}

impl Cost {
    fn add(&mut self, claim: &Claim<'_>, world: &mut World<'_>) {
        let price = world.cheapest(claim.template, claim.set, &claim.rows).0;
        self.price = self.price.saturating_add(price);
        self.with_upkeep = self
            .with_upkeep
            .saturating_add(price)
            .saturating_add(UPKEEP.0);
    }
}

fn cost(solver: &mut Solver<'_>, claims: impl Iterator<Item = usize>) -> Cost {
    let mut cost = Cost::default();
    for at in claims {
        if let Some(claim) = solver.claims.get(at) {
            cost.add(claim, &mut solver.world);
        }
    }
    cost
}
