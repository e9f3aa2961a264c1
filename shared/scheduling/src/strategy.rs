//! Choices that no rule prescribes. Where upstream's result depends on chance, small requests with unplaced pods are solved
//! again with another strategy. Under [`Optimize::Cost`], several strategies are tried and the cheapest result is kept.

mod strategies;
mod weighing;

use std::collections::BTreeSet;

use model::{NanosPerHour, labels, pod::TopologySpread, snapshot::Optimize};

use crate::{
    input::{Effort, Input, Pool},
    outcome::{self, SolveResult, Unplaced},
    placement_hints::PlacementTarget,
    reason::Reason,
    repack::repack,
    setup::Setup,
    solve::Solver,
};

pub(crate) use self::strategies::{
    AffinityStart, ClaimOrder, HostPreferences, LimitAccounting, PoolChoice, QueueOrder,
    SpreadDomains, Strategy, TieBreak,
};
use self::{
    strategies::{EMPTIEST_FIRST, LIMIT_SPARING, OLDEST_FIRST, STRATEGIES},
    weighing::weigh,
};

/// Up to this many pods, all strategies are compared for cost. Up to [`COMPARED_PODS_MAX`] pods, the two claim orders are
/// compared, and other strategies are tried only if pods are unplaced. Beyond that, one strategy is tried, and another one
/// if limits leave pods unplaced. This bounds the duration of a turn.
const FEW_PODS: usize = 250;
const COMPARED_PODS_MAX: usize = 1_000;

/// Solves with the best strategy. Required spread constraints count upstream's domains at first, and pods with affinity to
/// each other start wherever the first of them can be. If that leaves pods unplaced, three changes are tried and kept if
/// they place more pods: spread constraints count the domains in which a node could be launched, as the Kubernetes
/// scheduler will; pods with affinity start where all of them can be; and pods with the fewest open domains are placed
/// first.
///
/// `other_costs` is the cost of a result besides its new nodes, including dropped preferences, if moving pods has a price.
pub(crate) fn best<'a>(
    input: &Input<'a>,
    other_costs: Option<OtherCosts<'_>>,
    set_up: impl Fn() -> Setup<'a>,
) -> SolveResult {
    let mut rules = Strategy::default();
    let mut best = solve_under(rules, input, other_costs, &set_up);
    if input.options.optimize == Optimize::Upstream {
        return best;
    }
    let over_offers = |rules| Strategy {
        domains: SpreadDomains::Requested,
        ..rules
    };
    let together = |rules| Strategy {
        peers: AffinityStart::Together,
        ..rules
    };
    let confined_first = |rules| Strategy {
        queue: QueueOrder::ConfinedFirst,
        ..rules
    };
    let steps: [Adjustment; 3] = [
        (has_required_spread, over_offers),
        (has_required_affinity, together),
        (violates_domain_constraint, confined_first),
    ];
    for (concerns, changed) in steps {
        let mut left = best.unplaced.iter().filter(|left| !left.deferred);
        if !left.any(|left| concerns(input, left)) {
            continue;
        }
        let other = solve_under(changed(rules), input, other_costs, &set_up);
        if other.unplaced.len() < best.unplaced.len() {
            (best, rules) = (other, changed(rules));
        }
    }
    best
}

/// Cost of a result besides its new nodes, in nano-dollars per hour.
pub(crate) type OtherCosts<'b> = &'b dyn Fn(&SolveResult) -> i128;

/// Test whether an unplaced pod may be affected, and the change of strategy that may place it.
type Adjustment = (fn(&Input<'_>, &Unplaced) -> bool, fn(Strategy) -> Strategy);

fn has_required_spread(input: &Input<'_>, left: &Unplaced) -> bool {
    let hard = |constraint: &TopologySpread| !constraint.is_soft();
    let pod = input.pods.get(left.pod);
    pod.is_some_and(|pod| pod.topology_spread.iter().any(hard))
}

fn has_required_affinity(input: &Input<'_>, left: &Unplaced) -> bool {
    let pod = input.pods.get(left.pod);
    pod.is_some_and(|pod| !pod.pod_affinity.required.is_empty())
}

/// A new host can always be added, a new zone cannot.
fn violates_domain_constraint(_: &Input<'_>, left: &Unplaced) -> bool {
    let mut reasons = left.reasons.iter();
    reasons.any(|(_, why)| matches!(why, Reason::Topology { key, .. } if key != labels::HOSTNAME))
}

/// Best result with the domains, peers and queue order of `rules`.
fn solve_under<'a>(
    rules: Strategy,
    input: &Input<'a>,
    other_costs: Option<OtherCosts<'_>>,
    set_up: impl Fn() -> Setup<'a>,
) -> SolveResult {
    let for_cost = optimizes_cost(input);
    let worth = input.options.preference_worth;
    let pods = input.pods.len();
    let under = |strategy| Strategy {
        domains: rules.domains,
        peers: rules.peers,
        queue: rules.queue,
        ..strategy
    };
    let mut strategies = STRATEGIES
        .map(under)
        .into_iter()
        .filter(|strategy| for_cost || strategy.order == ClaimOrder::EmptiestFirst);
    let first = strategies.next().unwrap_or_default();
    let mut best = solve_with(input, set_up(), first);
    if !for_cost && best.new_nodes.len() > 1 && shares_weights(input) {
        let full = Strategy {
            pools: PoolChoice::CheapestShare,
            ..under(Strategy::default())
        };
        let other = solve_with(input, set_up(), full);
        let fewer = other.new_nodes.len() < best.new_nodes.len();
        if fewer && unplaced(&other) == unplaced(&best) {
            best = other;
        }
    }
    let limit_sparing = LIMIT_SPARING
        .map(under)
        .into_iter()
        .filter(|_| is_limited(input));
    let by_name = [OLDEST_FIRST, EMPTIEST_FIRST].map(|strategy| Strategy {
        pools: PoolChoice::ByName,
        ..under(strategy)
    });
    let by_name = by_name
        .into_iter()
        .filter(|_| for_cost && shares_weights(input));
    for strategy in strategies.chain(by_name).chain(limit_sparing) {
        let retry = match pods <= COMPARED_PODS_MAX {
            true => best.unplaced.iter().any(|left| !left.deferred),
            false => {
                is_first_limit_saving(strategy, first) && best.unplaced.iter().any(waits_for_limit)
            }
        };
        let few =
            pods <= FEW_PODS || pods <= COMPARED_PODS_MAX && strategy.ties == TieBreak::Cheapest;
        let compare =
            for_cost && few && cost(&best) > 0 && strategy.counted_as != LimitAccounting::Smallest;
        if retry || compare {
            let other = solve_with(input, set_up(), strategy);
            if is_better(&other, &best, for_cost.then_some(worth)) {
                best = other;
            }
        }
    }
    let lost = |result: &SolveResult| worth_of_dropped(result, worth);
    let other_costs = other_costs.or(for_cost.then_some(&lost));
    if let Some(other_costs) = other_costs.filter(|_| pods <= FEW_PODS) {
        let strategy = if for_cost { OLDEST_FIRST } else { first };
        best = weigh(best, input, other_costs, |ignored, zones_max| {
            let strategy = Strategy {
                ignored,
                zones_max,
                ..under(strategy)
            };
            solve_with(input, set_up(), strategy)
        });
    }
    match for_cost && pods <= COMPARED_PODS_MAX && prefers_to_spread(input) {
        true => cap_at_upstream_cost(best, input, first, &set_up),
        false => best,
    }
}

fn is_first_limit_saving(strategy: Strategy, first: Strategy) -> bool {
    strategy.counted_as == LimitAccounting::Cheapest && strategy.order == first.order
}

fn waits_for_limit(left: &Unplaced) -> bool {
    left.reasons.iter().any(|(_, why)| why.is_limit())
}

/// Caps the cost of soft spread constraints. Meeting all of them may take one node per pod. Where upstream drops some,
/// because it counts domains without offerings, the cost may not exceed that of upstream's result: the choice is between
/// that result, one whose pods share nodes and are otherwise spread as preferred, and `best`.
fn cap_at_upstream_cost<'a>(
    best: SolveResult,
    input: &Input<'a>,
    first: Strategy,
    set_up: impl Fn() -> Setup<'a>,
) -> SolveResult {
    let named = Strategy {
        domains: SpreadDomains::Named,
        ..first
    };
    let mut chosen = solve_with(input, set_up(), named);
    if chosen.dropped_preferences.is_empty() {
        return best;
    }
    let shared = Strategy {
        hosts: HostPreferences::Shared,
        ..first
    };
    let bound = cost(&chosen);
    for other in [solve_with(input, set_up(), shared), best] {
        let places_more = other.unplaced.len() < chosen.unplaced.len();
        let is_within = cost(&other) <= bound;
        let worth = Some(input.options.preference_worth);
        if (places_more || is_within) && is_better(&other, &chosen, worth) {
            chosen = other;
        }
    }
    chosen
}

fn prefers_to_spread(input: &Input<'_>) -> bool {
    let mut pods = input.pods.iter();
    pods.any(|pod| pod.topology_spread.iter().any(TopologySpread::is_soft))
}

/// Whether prices choose between NodePools of the same weight.
fn shares_weights(input: &Input<'_>) -> bool {
    let mut pairs = input.pools.windows(2);
    let alike = |pair: &[Pool<'_>]| matches!(pair, [one, other] if one.weight == other.weight);
    input.options.optimize == Optimize::Cost && pairs.any(alike)
}

/// Whether the amounts that new nodes count against limits matter.
fn is_limited(input: &Input<'_>) -> bool {
    let mut pools = input.pools.iter();
    input.options.optimize == Optimize::Cost && pools.any(|pool| !pool.remaining.0.is_empty())
}

fn optimizes_cost(input: &Input<'_>) -> bool {
    input.options.optimize == Optimize::Cost && input.options.effort == Effort::Best
}

/// Solves with placement hints: places the waiting pods first, then hinted pods, then all others.
pub(crate) fn solve_with_hints<'a>(
    input: &Input<'a>,
    setup: Setup<'a>,
    waiting: usize,
    wanted: &[(usize, PlacementTarget)],
) -> SolveResult {
    let [first, ..] = STRATEGIES;
    let mut solver = Solver::new(input, setup, first);
    let mut left = solver.place((0..waiting).collect());
    let placed = solver.place_hinted(wanted);
    let others = (waiting..input.pods.len()).filter(|pod| !placed.contains(pod));
    left.extend(solver.place(others.collect()));
    let unplaced = outcome::explain_unplaced(&mut solver, left);
    outcome::build_result(&mut solver, unplaced)
}

/// Whether `other` places more pods, or the same pods at a lower cost if cost decides. Dropped preferences cost their value.
fn is_better(other: &SolveResult, best: &SolveResult, worth: Option<NanosPerHour>) -> bool {
    let is_cheaper = |worth| {
        let value = |result: &SolveResult| {
            let lost = worth_of_dropped(result, worth);
            (i128::from(cost(result)) + lost, dropped_weight(result))
        };
        unplaced(other) == unplaced(best) && value(other) < value(best)
    };
    other.unplaced.len() < best.unplaced.len() || worth.is_some_and(is_cheaper)
}

/// Value of dropped preferences, if that of one with weight 100 is `worth`.
fn worth_of_dropped(result: &SolveResult, worth: NanosPerHour) -> i128 {
    let lost = result.dropped_preferences.iter();
    lost.map(|dropped| dropped.worth(worth)).sum()
}

/// Summed weight of all dropped preferences.
fn dropped_weight(result: &SolveResult) -> u64 {
    let weights = result.dropped_preferences.iter();
    weights.map(|dropped| u64::from(dropped.weight)).sum()
}

fn solve_with<'a>(input: &Input<'a>, setup: Setup<'a>, strategy: Strategy) -> SolveResult {
    let mut solver = Solver::new(input, setup, strategy);
    let left = solver.run();
    let unplaced = outcome::explain_unplaced(&mut solver, left);
    if optimizes_cost(input) && strategy.counted_as != LimitAccounting::Smallest {
        repack(&mut solver);
    }
    outcome::build_result(&mut solver, unplaced)
}

fn unplaced(result: &SolveResult) -> BTreeSet<usize> {
    result.unplaced.iter().map(|left| left.pod).collect()
}

fn cost(result: &SolveResult) -> i64 {
    let cheapest = result
        .new_nodes
        .iter()
        .filter_map(|node| node.choices.first());
    cheapest.fold(0, |sum, choice| sum.saturating_add(choice.price.0))
}

#[cfg(test)]
mod tests;
