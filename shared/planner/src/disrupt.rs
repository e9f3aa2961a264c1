//! Which nodes are no longer worth having: emptiness under budgets (spec/lifecycle §13–§17).

mod budgets;
mod candidates;

use model::{Action, Snapshot};

use crate::{
    decision::Decision, disrupt::budgets::Budgets, inventory::Inventory, lifecycle::target,
    pods::is_reschedulable,
};

pub(crate) const EMPTY: &str = "Empty";

/// Deletes every empty, consolidatable node that its NodePool's budgets allow, oldest name first.
pub fn empty(snapshot: &Snapshot) -> Decision {
    let mut decision = Decision::default();
    let inventory = Inventory::new(snapshot);
    let mut budgets = Budgets::new(snapshot, &inventory, EMPTY);
    let mut candidates = candidates::candidates(snapshot, &inventory);
    candidates.sort_by(|a, b| a.claim.name.cmp(&b.claim.name));
    for candidate in candidates {
        let occupied = candidate
            .machine
            .pods
            .iter()
            .any(|pod| is_reschedulable(pod));
        if !occupied && budgets.take(&candidate.pool.name) {
            let because = format!(
                "node {} is empty and its NodePool {} allows it",
                candidate.machine.name, candidate.pool.name
            );
            decision.act(Action::DeleteNodeClaim(target(candidate.claim)), because);
        }
    }
    decision
}

#[cfg(test)]
mod tests;
