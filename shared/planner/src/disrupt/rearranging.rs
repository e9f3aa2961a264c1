//! Plans for all nodes together, as a sequence of moves each of which pays by itself
//! (docs/adr/0017-plan-the-cluster-as-a-whole.md).

use model::{
    CapacityType, NanosPerHour, NodePoolName,
    labels::CAPACITY_TYPE,
    ledger::{PlannedRemoval, PodAssignment},
};
use scheduling::{RearrangeRequest, RemovableNode, ReplacementGroup};

use super::{
    balanced::Totals,
    budgets::Budgets,
    candidates::Candidate,
    consolidation::{Move, judge_simulation},
    context::DisruptionContext,
    multi::leave_out_own_types,
    simulate::DestinationPolicy,
};

/// Most replacements of one move. More make commands large and hardly cheaper.
const REPLACEMENTS_MAX: usize = 3;
/// Most pods whose assignment a command or the rest of a plan records, bounded by the size of a ledger item.
const WANTED_MAX: usize = 2_000;
/// Attempts of the search per plan: this many per node of a small cluster; in a large one a constant plus a smaller number per
/// node.
const ATTEMPTS_PER_NODE_OF_FEW: usize = 2_000;
const ATTEMPTS: usize = 20_000;
const ATTEMPTS_PER_NODE: usize = 1_000;

/// Searches plans. The first is for the price `per_eviction`; `shown` receives each plan and returns the price for the next
/// one.
pub(super) fn plan<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    budgets: &Budgets,
    per_eviction: NanosPerHour,
    mut shown: impl FnMut(Vec<Move<'a>>) -> Option<NanosPerHour>,
) {
    let pools = node_pools_of(candidates);
    let removable = removable(context, candidates, totals, &pools);
    let together = pools.iter().map(|pool| budgets.remaining(pool));
    let gates = &context.snapshot.settings.feature_gates;
    let search_input = RearrangeRequest {
        removable: &removable,
        together_max: &together.collect::<Vec<_>>(),
        replacements_max: REPLACEMENTS_MAX,
        spot_to_spot: gates.get("SpotToSpotConsolidation") == Some(&true),
        attempts: attempts(removable.len()),
    };
    context
        .standing()
        .rearrange(&search_input, per_eviction, |groups| {
            let steps = groups
                .iter()
                .filter_map(|group| simulate_group(context, candidates, group));
            shown(steps.collect())
        });
}

/// NodePools of these candidates, sorted.
pub(super) fn node_pools_of<'a>(candidates: &[&Candidate<'a>]) -> Vec<&'a NodePoolName> {
    let pools = candidates.iter().map(|candidate| &candidate.pool.name);
    let mut pools: Vec<_> = pools.collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

/// Input of the search for each candidate.
pub(super) fn removable(
    context: &DisruptionContext<'_>,
    candidates: &[&Candidate<'_>],
    totals: &Totals,
    pools: &[&NodePoolName],
) -> Vec<RemovableNode> {
    let places = context.destinations();
    let removable = candidates.iter().map(|candidate| {
        let place = places.iter().position(|at| *at == candidate.index);
        let capacity_type = candidate.state_node.labels.get(CAPACITY_TYPE);
        RemovableNode {
            node: place.unwrap_or(usize::MAX),
            pods: context
                .reschedulable
                .of_state_node(candidate.index)
                .collect(),
            price: candidate.price,
            instance_type: candidate
                .instance_type
                .map(|instance_type| instance_type.name.clone())
                .unwrap_or_default(),
            disturbance: context.move_costs.disturbance(context, candidate),
            least_saving: totals.least_saving(candidate),
            is_spot: capacity_type.is_some_and(|text| text == CapacityType::Spot.as_str()),
            budget: pools
                .binary_search(&&candidate.pool.name)
                .unwrap_or(usize::MAX),
        }
    });
    removable.collect()
}

fn attempts(removable: usize) -> usize {
    (ATTEMPTS_PER_NODE_OF_FEW * removable).min(ATTEMPTS + ATTEMPTS_PER_NODE * removable)
}

/// Simulates the removal of a replacement group; `None` if the removal is impossible or its saving does not outweigh its cost.
fn simulate_group<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    group: &ReplacementGroup,
) -> Option<Move<'a>> {
    let leaving = group.removed.iter();
    let leaving = leaving.filter_map(|at| candidates.get(*at).copied());
    evaluate_step(
        context,
        &leaving.collect::<Vec<_>>(),
        context.wanted(&group.wanted),
    )
}

/// Simulates the remaining steps of a plan, without those that are no longer possible.
pub(super) fn remaining_steps<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    plan: &[PlannedRemoval],
) -> Vec<Move<'a>> {
    let steps = plan.iter().filter_map(|together| {
        let leaving = together.nodes.iter().map(|name| {
            let mut candidates = candidates.iter().copied();
            candidates.find(|candidate| candidate.claim.name == *name)
        });
        let leaving: Option<Vec<&Candidate<'a>>> = leaving.collect();
        evaluate_step(context, &leaving?, together.wanted.clone())
    });
    steps.collect()
}

/// Returns the remaining steps of a plan after `done`.
pub(super) fn steps_after(steps: &[Move<'_>], done: Option<&Move<'_>>) -> Vec<PlannedRemoval> {
    let goes = |candidate: &Candidate<'_>| {
        let mut going = done.into_iter().flat_map(|done| &done.candidates);
        going.any(|going| going.index == candidate.index)
    };
    let left = steps
        .iter()
        .filter(|step| !step.candidates.iter().any(goes));
    let mut pods = 0;
    let left = left.take_while(|step| {
        pods += assigned_pods(&step.simulation.wanted);
        pods <= WANTED_MAX
    });
    let left = left.map(|step| PlannedRemoval {
        nodes: step
            .candidates
            .iter()
            .map(|candidate| candidate.claim.name.clone())
            .collect(),
        wanted: step.simulation.wanted.clone(),
    });
    left.collect()
}

/// Merges several steps into one.
pub(super) fn merged<'a>(context: &DisruptionContext<'a>, steps: &[&Move<'a>]) -> Option<Move<'a>> {
    let leaving = steps.iter().flat_map(|step| &step.candidates);
    let wanted = steps.iter().flat_map(|step| &step.simulation.wanted);
    let (leaving, wanted): (Vec<_>, Vec<_>) = (leaving.collect(), wanted.cloned().collect());
    (leaving.len() > 1).then(|| evaluate_step(context, &leaving, wanted))?
}

fn evaluate_step<'a>(
    context: &DisruptionContext<'a>,
    leaving: &[&Candidate<'a>],
    wanted: Vec<PodAssignment>,
) -> Option<Move<'a>> {
    if assigned_pods(&wanted) > WANTED_MAX {
        return None;
    }
    let simulation = context.simulate_towards(leaving, DestinationPolicy::Consolidation, wanted);
    let mut step = judge_simulation(context, leaving, simulation, REPLACEMENTS_MAX).ok()?;
    if leaving.len() > 1 {
        leave_out_own_types(context, &mut step)?;
    }
    context
        .move_costs
        .pays(context, &step)
        .is_ok()
        .then_some(step)
}

fn assigned_pods(wanted: &[PodAssignment]) -> usize {
    wanted.iter().map(|wanted| wanted.pods.len()).sum()
}

/// Orders the steps: those with few replacements first, then by savings per eviction. A step that policy Balanced rejects waits
/// until the rest has become cheaper, and is dropped if that never happens.
pub(super) fn ordered<'a>(mut steps: Vec<Move<'a>>, totals: &Totals) -> Vec<Move<'a>> {
    steps.sort_by_cached_key(|step| {
        let saved = step.after().0.saturating_sub(step.before().0);
        let evicted = i64::try_from(step.evicted()).unwrap_or(i64::MAX);
        (step.replacements.len() > 1, saved / evicted.max(1))
    });
    let mut totals = totals.clone();
    let mut order = Vec::new();
    while let Some(at) = steps.iter().position(|step| totals.approve(step)) {
        let step = steps.remove(at);
        totals.apply_move(&step);
        order.push(step);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_grow_with_nodes_and_small_clusters_need_few() {
        assert_eq!([0, 1, 20, 100].map(attempts), [0, 2_000, 40_000, 120_000]);
        assert!((0..100).all(|nodes| attempts(nodes) < attempts(nodes + 1)));
    }
}
