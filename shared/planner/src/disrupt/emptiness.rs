//! Emptiness: removes nodes without pods that would have to move (docs/spec/lifecycle.md#emptiness).

use std::collections::BTreeSet;

use api::conditions::types::CONSOLIDATABLE;
use model::{node_pool::ConsolidateAfter, snapshot::Optimize};

use super::{
    budgets::Budgets, candidates::Candidate, consolidation::sort_by_savings,
    context::DisruptionContext, cost, simulate::DestinationPolicy,
};

/// Whether the node is a candidate for emptiness; an error is the message of its event.
pub(super) fn applies_to(candidate: &Candidate<'_>) -> Result<bool, String> {
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

/// State nodes that pending pods would be placed on. Karpenter does not simulate here, and keeps such nodes by nominating them
/// repeatedly. Whittle keeps a node for as long as pods wait to move to it, which budgets may delay by hours.
pub(super) fn nodes_expected_by_pods(context: &DisruptionContext<'_>) -> BTreeSet<usize> {
    let as_upstream = context.snapshot.settings.optimize == Optimize::Upstream;
    if as_upstream || context.reschedulable.waiting() == 0 {
        return BTreeSet::new();
    }
    let simulation = context.simulate(&[], DestinationPolicy::Drift);
    let existing = simulation.existing.iter();
    existing.map(|(at, _)| *at).collect()
}

/// Most nodes of one command. The ledger's rows of a command and of its generation name every node and hold 400 KB. The next
/// evaluation takes the remaining nodes.
const TARGETS_MAX: usize = 500;

/// Returns the empty nodes that budgets allow, up to [`TARGETS_MAX`], the highest price first.
pub(super) fn choose<'a>(
    candidates: &[&Candidate<'a>],
    budgets: &mut Budgets,
) -> Vec<Candidate<'a>> {
    let mut order = candidates.to_vec();
    sort_by_savings(&mut order);
    let allowed = order
        .into_iter()
        .filter(|candidate| budgets.take(candidate));
    allowed.take(TARGETS_MAX).cloned().collect()
}
