//! Multi-node consolidation: removes several nodes for one cheaper node or none (docs/spec/lifecycle.md#multi-node).

use std::collections::BTreeMap;

use model::NanosPerHour;

use super::{
    balanced::Totals,
    budgets::Budgets,
    candidates::Candidate,
    consolidation::{Move, evaluate_removal, sort_by_savings},
    context::DisruptionContext,
    price, types,
};

/// Upper end of the binary search, as an index: the longest prefix has one more node.
const LAST_PREFIX: usize = 100;

/// Returns the longest prefix of candidates, in the order of savings per disruption, for which a binary search finds that removing
/// them saves enough.
pub(super) fn search<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    mut budgets: Budgets,
    totals: &Totals,
) -> Option<Move<'a>> {
    let mut order = candidates.to_vec();
    sort_by_savings(&mut order);
    order.retain(|candidate| budgets.take(candidate));
    search_in(context, &order, totals)
}

pub(super) fn search_in<'a>(
    context: &DisruptionContext<'a>,
    order: &[&Candidate<'a>],
    totals: &Totals,
) -> Option<Move<'a>> {
    let (mut low, mut high) = (1, order.len().saturating_sub(1).min(LAST_PREFIX));
    let mut best = None;
    while low <= high {
        let last = usize::midpoint(low, high);
        let prefix = order.get(..=last)?;
        match evaluate(context, prefix, totals) {
            Some(step) => {
                best = Some(step);
                low = last + 1;
            }
            None => high = last - 1,
        }
    }
    best
}

fn evaluate<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
) -> Option<Move<'a>> {
    let mut step = evaluate_removal(context, candidates).ok()?;
    leave_out_own_types(context, &mut step)?;
    let pays = || context.move_costs.pays(context, &step).is_ok();
    (totals.approve(&step) && pays()).then_some(step)
}

/// Removes the candidates' own instance types and more expensive ones from the replacement: keeping one of the nodes would be
/// the better move, which another prefix covers. Returns `None` if no type is left.
pub(super) fn leave_out_own_types(
    context: &DisruptionContext<'_>,
    step: &mut Move<'_>,
) -> Option<()> {
    let settings = &context.snapshot.settings;
    let mut own: BTreeMap<&str, NanosPerHour> = BTreeMap::new();
    for candidate in &step.candidates {
        if let Some(instance_type) = candidate.instance_type {
            let surcharge = context.snapshot.surcharge(candidate.pool).total();
            let price = price::least_with(
                instance_type,
                &candidate.state_node.labels,
                settings,
                surcharge,
            );
            let least = own.entry(&instance_type.name).or_insert(price);
            *least = price.min(*least);
        }
    }
    for node in &mut step.replacements {
        let of_pool = types::of_new_node(context, node);
        let instance_types = node.choices.iter();
        let instance_types =
            instance_types.filter_map(|choice| of_pool.get(choice.instance_type()));
        let least = instance_types
            .filter_map(|instance_type| own.get(instance_type.name.as_str()).copied())
            .min();
        // Applies without own types, too: a type that has no offering under the remaining requirements is no option.
        let least = least.unwrap_or(NanosPerHour(i64::MAX));
        types::retain_cheaper(context, node, of_pool, least).ok()?;
    }
    Some(())
}
