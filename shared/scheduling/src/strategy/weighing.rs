//! Drops preferences that cost more than their value.
//!
//! First all preferences are ignored; then each group is honored again, the heaviest first, if it costs no more than its
//! value. Preferred spreads over zones may also extend over some of the zones, the cheapest ones.

use std::collections::BTreeSet;

use model::{labels, requirement::Requirements};

use super::{OtherCosts, cost, dropped_weight, unplaced};
use crate::{
    Effort, Input, SolveResult,
    lower_bound::least_cost_of_any,
    preferences::{IgnoredPreferences, Preferences},
    spec::FULL_WEIGHT,
    template,
};

/// Upper bound on zone counts that are tried, because each takes a solve.
const ZONE_COUNTS_MAX: usize = 4;

/// Result with its value, compared lexicographically: unplaced pods, cost, weight of dropped preferences. Less is better.
struct ValuedResult {
    result: SolveResult,
    unplaced: BTreeSet<usize>,
    value: (i128, u64),
}

impl ValuedResult {
    fn new(result: SolveResult, other_costs: OtherCosts<'_>) -> Self {
        let money = i128::from(cost(&result)) + other_costs(&result);
        Self {
            unplaced: unplaced(&result),
            value: (money, dropped_weight(&result)),
            result,
        }
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let is_cheaper = self.unplaced == other.unplaced && self.value < other.value;
        self.unplaced.len() < other.unplaced.len() || is_cheaper
    }
}

/// Returns `asking`, the result with all preferences, or a better one that ignores some.
pub(super) fn weigh(
    asking: SolveResult,
    input: &Input<'_>,
    other_costs: OtherCosts<'_>,
    solve: impl Fn(IgnoredPreferences, Option<usize>) -> SolveResult,
) -> SolveResult {
    let ignoring = |ignored| solve(ignored, None);
    if cost(&asking) == 0 {
        return asking;
    }
    let preferences = Preferences::of(input);
    let Some(weight) = preferences.least_weight() else {
        return asking;
    };
    let worth = match input.options.effort {
        Effort::Best => worth_of(weight, input),
        // The preferences of moved pods may be unmet already, so any cost may be too high.
        Effort::First => 0,
    };
    if !may_be_overpaid(&asking, input, &preferences, worth) {
        return asking;
    }
    let asking = ValuedResult::new(asking, other_costs);
    let mut ignored = preferences.all();
    let mut best = ValuedResult::new(ignoring(ignored), other_costs);
    let saved = cost(&asking.result).saturating_sub(cost(&best.result));
    let places_more = best.unplaced.len() < asking.unplaced.len();
    if preferences.are_several() && (places_more || i128::from(saved) > worth) {
        for group in preferences.heaviest_first() {
            let fewer = ignored.without(group);
            if fewer.is_none() {
                continue;
            }
            let other = ValuedResult::new(ignoring(fewer), other_costs);
            if other.is_better_than(&best) {
                (best, ignored) = (other, fewer);
            }
        }
    }
    if !best.is_better_than(&asking) {
        (best, ignored) = (asking, IgnoredPreferences::NONE);
    }
    // Moved pods stay in the zones of existing nodes.
    if input.options.effort == Effort::Best
        && let Some(weight) = preferences.zone_spread_weight()
    {
        let ignored = preferences.honoring_zone_spreads(ignored);
        let zones = available_zones(input).len();
        for count in (2..zones).take(ZONE_COUNTS_MAX) {
            let mut other = ValuedResult::new(solve(ignored, Some(count)), other_costs);
            other.value.0 += unmet_worth(worth_of(weight, input), count, zones);
            if other.is_better_than(&best) {
                best = other;
            }
        }
    }
    best.result
}

/// Value of preferences of this weight, in price per hour.
fn worth_of(weight: u64, input: &Input<'_>) -> i128 {
    let worth = i128::from(weight) * i128::from(input.options.preference_worth.0);
    worth / i128::from(FULL_WEIGHT)
}

/// Part of the value of preferred spreads that is lost if they extend over `count` of `zones` zones. A spread over n zones
/// protects all pods but one in n from the loss of a zone.
fn unmet_worth(worth: i128, count: usize, zones: usize) -> i128 {
    let (count, zones) = (count as i128, zones as i128);
    worth * (zones - count) / (count * (zones - 1)).max(1)
}

/// Zones with an available offering of a NodePool whose requirements allow the zone.
fn available_zones<'a>(input: &Input<'a>) -> BTreeSet<&'a str> {
    let mut available = BTreeSet::new();
    for pool in &input.pools {
        let offerings = pool
            .types
            .iter()
            .flat_map(|instance_type| &instance_type.offerings);
        let zones: BTreeSet<&str> = offerings
            .filter(|offering| offering.available)
            .map(|offering| offering.zone.as_str())
            .collect();
        let requirements = template::requirements(pool);
        let allowed = zones.into_iter();
        available.extend(allowed.filter(|zone| allows_zone(&requirements, zone)));
    }
    available
}

fn allows_zone(requirements: &Requirements, zone: &str) -> bool {
    let allowed = requirements.get(labels::ZONE);
    allowed.is_none_or(|allowed| allowed.has(zone))
}

/// Whether dropping preferences may save more than the value of the lightest group. Groups that are partly unmet, or partly met
/// by chance, count as honored.
fn may_be_overpaid<'a>(
    result: &SolveResult,
    input: &Input<'a>,
    preferences: &Preferences<'a>,
    worth: i128,
) -> bool {
    let is_more = |saved: i64| i128::from(saved) > worth;
    let cost = cost(result);
    if !is_more(cost) {
        return false;
    }
    if input.options.effort == Effort::First {
        let own = result.new_nodes.iter().flat_map(|node| &node.pods);
        let mut own = own.filter_map(|pod| input.pods.get(*pod));
        return own.any(|pod| preferences.of_pod(pod).next().is_some());
    }
    // Existing nodes cost nothing more, and the lower bound does not include the pods that they would take.
    !input.nodes.is_empty() || is_more(cost.saturating_sub(least_cost_of_any(input, result)))
}

#[cfg(test)]
mod tests;
