//! How many nodes of each NodePool may go at once (spec/lifecycle §15).

use std::collections::BTreeMap;

use api::conditions::types::INSTANCE_TERMINATING;
use model::{
    NodePoolName, Snapshot,
    node::ConditionStatus,
    node_pool::{Budget, NodePool},
};

use crate::inventory::Inventory;

/// What each NodePool's budgets leave for one reason; taking a node uses it up.
pub(super) struct Budgets {
    left: BTreeMap<NodePoolName, usize>,
}

impl Budgets {
    pub(super) fn new(snapshot: &Snapshot, inventory: &Inventory<'_>, reason: &str) -> Self {
        let left = |pool: &NodePool| {
            let mut total = 0_usize;
            let mut disrupting = 0_usize;
            for machine in &inventory.machines {
                let (Some(claim), true) = (machine.claim, machine.initialized) else {
                    continue;
                };
                if claim.node_pool().as_ref() != Some(&pool.name)
                    || claim.is_true(INSTANCE_TERMINATING)
                {
                    continue;
                }
                total += 1;
                let ready = machine
                    .node
                    .is_some_and(|node| node.ready.status == ConditionStatus::True);
                if machine.deleting || !ready {
                    disrupting += 1;
                }
            }
            (
                pool.name.clone(),
                allowed(pool, reason, total).saturating_sub(disrupting),
            )
        };
        Self {
            left: snapshot.node_pools.iter().map(left).collect(),
        }
    }

    pub(super) fn take(&mut self, pool: &NodePoolName) -> bool {
        match self.left.get_mut(pool) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            Some(_) | None => false,
        }
    }
}

/// The least that any budget for this reason allows of `total` nodes; one that cannot be read allows none.
///
/// Budgets with a schedule count at all times: a window that is not judged must not let more through.
fn allowed(pool: &NodePool, reason: &str, total: usize) -> usize {
    let mut least = usize::MAX;
    for budget in &pool.disruption.budgets {
        match value(budget, total) {
            None => return 0,
            Some(value) if applies(budget, reason) => least = least.min(value),
            Some(_) => {}
        }
    }
    least
}

fn applies(budget: &Budget, reason: &str) -> bool {
    budget.reasons.is_empty() || budget.reasons.iter().any(|listed| listed == reason)
}

/// Percentages are rounded up.
fn value(budget: &Budget, total: usize) -> Option<usize> {
    match budget.nodes.strip_suffix('%') {
        None => budget.nodes.parse().ok(),
        Some(percent) => {
            let percent: usize = percent.parse().ok().filter(|percent| *percent <= 100)?;
            Some(total.saturating_mul(percent).div_ceil(100))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(budgets: &[(&str, &[&str])]) -> NodePool {
        let mut pool = NodePool::default();
        pool.disruption.budgets = budgets
            .iter()
            .map(|(nodes, reasons)| Budget {
                nodes: (*nodes).to_owned(),
                reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
                ..Budget::default()
            })
            .collect();
        pool
    }

    #[test]
    fn percentages_round_up_and_the_least_budget_wins() {
        assert_eq!(allowed(&pool(&[("10%", &[])]), "Empty", 1), 1);
        assert_eq!(allowed(&pool(&[("10%", &[]), ("3", &[])]), "Empty", 100), 3);
        assert_eq!(allowed(&pool(&[("0%", &[])]), "Empty", 100), 0);
        assert_eq!(allowed(&pool(&[]), "Empty", 5), usize::MAX);
    }

    #[test]
    fn a_budget_for_another_reason_does_not_count() {
        assert_eq!(
            allowed(
                &pool(&[("0", &["Drifted"]), ("4", &["Empty"])]),
                "Empty",
                10
            ),
            4
        );
    }

    #[test]
    fn a_budget_that_cannot_be_read_allows_nothing_for_any_reason() {
        assert_eq!(allowed(&pool(&[("lots", &["Drifted"])]), "Empty", 10), 0);
        assert_eq!(allowed(&pool(&[("200%", &[])]), "Empty", 10), 0);
    }
}
