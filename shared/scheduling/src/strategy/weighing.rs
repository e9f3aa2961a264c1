//! Preferences that cost more than they are worth.
//!
//! All of them are given up at first; then each is held again that costs no more than it is worth, the heaviest first.

use std::collections::BTreeSet;

use super::{OtherCosts, cost, dropped_preferences, unplaced};
use crate::{
    Effort, Input, SolveResult,
    bound::least_cost_of_any,
    preferences::{Ignored, Preference, Preferences},
    spec::FULL_WEIGHT,
};

/// An answer with its value. Less is better: pods without a place first, then money, then the weights of preferences given up.
struct Valued {
    answer: SolveResult,
    unplaced: BTreeSet<usize>,
    value: (i128, u64),
}

impl Valued {
    fn new(answer: SolveResult, other_costs: OtherCosts<'_>) -> Self {
        let money = i128::from(cost(&answer)) + other_costs(&answer);
        Self {
            unplaced: unplaced(&answer),
            value: (money, dropped_preferences(&answer)),
            answer,
        }
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let is_cheaper = self.unplaced == other.unplaced && self.value < other.value;
        self.unplaced.len() < other.unplaced.len() || is_cheaper
    }
}

/// The answer in which pods ask for all that they prefer, or a better one for which some preferences are ignored.
pub(super) fn weigh(
    asking: SolveResult,
    input: &Input<'_>,
    other_costs: OtherCosts<'_>,
    ignoring: impl Fn(Ignored) -> SolveResult,
) -> SolveResult {
    if cost(&asking) == 0 {
        return asking;
    }
    let preferences = Preferences::of(input);
    let Some(weight) = preferences.least_weight() else {
        return asking;
    };
    let worth = i128::from(weight) * i128::from(input.options.preference_worth.0);
    let worth = match input.options.effort {
        Effort::Best => worth / i128::from(FULL_WEIGHT),
        // Pods that are moved may go without them today.
        Effort::First => 0,
    };
    if !may_be_overpaid(&asking, input, worth) {
        return asking;
    }
    let asking = Valued::new(asking, other_costs);
    let mut ignored = preferences.all();
    let mut best = Valued::new(ignoring(ignored), other_costs);
    let saved = cost(&asking.answer).saturating_sub(cost(&best.answer));
    let places_more = best.unplaced.len() < asking.unplaced.len();
    if preferences.are_several() && (places_more || i128::from(saved) > worth) {
        for group in preferences.heaviest_first() {
            let fewer = ignored.without(group);
            if fewer.is_none() {
                continue;
            }
            let other = Valued::new(ignoring(fewer), other_costs);
            if other.is_better_than(&best) {
                (best, ignored) = (other, fewer);
            }
        }
    }
    match best.is_better_than(&asking) {
        true => best.answer,
        false => asking.answer,
    }
}

/// Whether giving up preferences may save more than the lightest of them are worth. A group that is broken in part already, or that
/// some of its pods meet by chance, is taken for whole.
fn may_be_overpaid(answer: &SolveResult, input: &Input<'_>, worth: i128) -> bool {
    let is_more = |saved: i64| i128::from(saved) > worth;
    let cost = cost(answer);
    if !is_more(cost) {
        return false;
    }
    if input.options.effort == Effort::First {
        let own = answer.new_nodes.iter().flat_map(|node| &node.pods);
        let mut own = own.filter_map(|pod| input.pods.get(*pod));
        return own.any(|pod| Preference::of_pod(pod).next().is_some());
    }
    // Nodes that exist cost nothing more: no bound says how many pods they would take.
    !input.nodes.is_empty() || is_more(cost.saturating_sub(least_cost_of_any(input, answer)))
}
