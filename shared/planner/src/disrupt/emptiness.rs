//! Nodes on which nothing runs that would have to move (spec/lifecycle §17).

use api::conditions::types::CONSOLIDATABLE;
use model::node_pool::ConsolidateAfter;

use super::{budgets::Budgets, candidates::Candidate, consolidation::sort_by_worth, cost};

/// Whether emptiness is about this node; an error says what a user may want to know.
pub(super) fn is_about(candidate: &Candidate<'_>) -> Result<bool, String> {
    let pool = candidate.pool;
    if pool.replicas.is_some() {
        return Ok(false);
    }
    if pool.disruption.consolidate_after == ConsolidateAfter::Never {
        return Err(format!(
            "NodePool \"{}\" has consolidation disabled",
            pool.name
        ));
    }
    Ok(cost::is_empty(candidate.cost) && candidate.claim.is_true(CONSOLIDATABLE))
}

/// All that budgets allow, the dearest first.
pub(super) fn choose<'a>(
    candidates: &[&Candidate<'a>],
    budgets: &mut Budgets,
) -> Vec<Candidate<'a>> {
    let mut order = candidates.to_vec();
    sort_by_worth(&mut order);
    order.retain(|candidate| budgets.take(&candidate.pool.name));
    order.into_iter().cloned().collect()
}
