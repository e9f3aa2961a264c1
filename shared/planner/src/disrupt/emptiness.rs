//! Nodes on which nothing runs that would have to move (docs/spec/lifecycle.md#emptiness).

use std::collections::BTreeSet;

use api::conditions::types::CONSOLIDATABLE;
use model::{node_pool::ConsolidateAfter, snapshot::Optimize};

use super::{
    budgets::Budgets, candidates::Candidate, consolidation::sort_by_worth,
    context::DisruptionContext, cost, simulate::DestinationPolicy,
};

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

/// Machines that pods without a place are to go to. Upstream looks at none, and keeps such nodes by nominating them over and
/// over; a node that waits for hours until a budget lets its pods come is expected to be there all the time.
pub(super) fn expecting(context: &DisruptionContext<'_>) -> BTreeSet<usize> {
    let as_upstream = context.snapshot.settings.optimize == Optimize::Upstream;
    if as_upstream || context.reschedulable.waiting() == 0 {
        return BTreeSet::new();
    }
    let simulation = context.simulate(&[], DestinationPolicy::Drift);
    let existing = simulation.existing.iter();
    existing.map(|(at, _)| *at).collect()
}

/// Most nodes of one command: its row in the ledger and the record of its generation name each of them, and hold 400 KB. The next look
/// takes the others.
const TARGETS_MAX: usize = 500;

/// All that budgets allow and one command names, the dearest first.
pub(super) fn choose<'a>(
    candidates: &[&Candidate<'a>],
    budgets: &mut Budgets,
) -> Vec<Candidate<'a>> {
    let mut order = candidates.to_vec();
    sort_by_worth(&mut order);
    let allowed = order
        .into_iter()
        .filter(|candidate| budgets.take(candidate));
    allowed.take(TARGETS_MAX).cloned().collect()
}
