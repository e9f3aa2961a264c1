//! Ruin and recreate with record-to-record travel: each attempt removes or restores some nodes, evicts some pods and
//! inserts them again. A result that is worse than the best one is accepted within a deviation that shrinks to zero.

use model::NanosPerHour;

use super::{
    RearrangeRequest,
    assignment::Assignment,
    cluster_model::{ClusterModel, NO_INDEX},
    planned_node::PlannedNode,
    recreate::InsertionOptions,
    rng::Rng,
};

/// Upper bound on the nodes whose relocated pods are evicted in one attempt: small ruins keep most of a good plan.
const EVICTED_NODES_MAX: usize = 4;
/// One in this many attempts removes and restores no node.
const NO_FLIP_ONE_IN: usize = 4;
/// Number of surcharges on a new node, in eighths of its price, that attempts choose from.
const NEW_NODE_PENALTY_STEPS: usize = 10;
/// The deviation starts at this fraction (1/240) of the cluster's price.
const INITIAL_DEVIATION: i64 = 240;

/// Search with its best, its current and its attempted assignment.
pub(super) struct RuinAndRecreate<'s> {
    cluster: &'s ClusterModel,
    request: &'s RearrangeRequest<'s>,
    rng: Rng,
    best: Assignment,
    current: Assignment,
    attempt: Assignment,
    per_eviction: NanosPerHour,
}

impl<'s> RuinAndRecreate<'s> {
    pub(super) fn new(cluster: &'s ClusterModel, request: &'s RearrangeRequest<'s>) -> Self {
        Self {
            cluster,
            request,
            rng: Rng::new(),
            best: cluster.initial_assignment(),
            current: cluster.initial_assignment(),
            attempt: cluster.initial_assignment(),
            per_eviction: NanosPerHour(0),
        }
    }

    /// Cheapest plan found for this price per eviction. The search continues from the previous plan.
    pub(super) fn cheapest(&mut self, per_eviction: NanosPerHour) -> &Assignment {
        self.per_eviction = per_eviction;
        self.current.copy_from(&self.best);
        let all = self
            .cluster
            .candidates
            .iter()
            .map(|candidate| candidate.price);
        let start: i64 = all.sum();
        let attempts = i64::try_from(self.request.attempts).unwrap_or(i64::MAX);
        for left in (0..attempts).rev() {
            self.attempt.copy_from(&self.current);
            let best = cost(&self.best, self.per_eviction);
            let most = best.saturating_add(deviation_max(start, left, attempts));
            if self.change(most) {
                self.current.copy_from(&self.attempt);
                let [current, best] = [&self.current, &self.best];
                if cost(current, self.per_eviction) < cost(best, self.per_eviction) {
                    self.best.copy_from(&self.current);
                }
            }
        }
        &self.best
    }

    /// Applies one random change to `attempt`; `false` if the result is infeasible or costs more than `most`.
    fn change(&mut self, most: i64) -> bool {
        let Self {
            cluster,
            request,
            rng,
            attempt: state,
            per_eviction,
            ..
        } = self;
        let (mut unassigned, mut left) = (Vec::new(), Vec::new());
        let flips = match rng.one_in(NO_FLIP_ONE_IN) {
            true => 0,
            false => 1 + rng.below(2),
        };
        for _ in 0..flips {
            let candidate = rng.below(cluster.candidates.len());
            match state.removed.get(candidate) {
                Some(true) => left.extend(state.restore_node(cluster, candidate)),
                _ => state.remove_node(cluster, candidate, &mut unassigned),
            }
        }
        let planned: Vec<usize> = state.planned_nodes(cluster).map(|(node, _)| node).collect();
        for _ in 0..rng.below(EVICTED_NODES_MAX) + usize::from(flips == 0) {
            let node = match rng.one_in(3) {
                false if !planned.is_empty() => planned.get(rng.below(planned.len())).copied(),
                _ => Some(rng.below(cluster.nodes.len())),
            };
            if let Some(node) = node {
                state.evict_relocated(cluster, node, &mut unassigned);
                left.push(node);
            }
        }
        for node in left {
            state.shrink(cluster, node);
        }
        unassigned.retain(|pod| state.node_of.get(*pod) == Some(&NO_INDEX));
        unassigned.sort_unstable();
        unassigned.dedup();
        // Largest first, largest first with noise, or in random order.
        let order = rng.below(3);
        unassigned.sort_by_cached_key(|pod| {
            let size = cluster.kind(*pod).map_or(0, |kind| kind.size);
            -match order {
                0 => size,
                1 => size.saturating_mul(i64::try_from(50 + rng.below(100)).unwrap_or(100)) / 100,
                _ => i64::try_from(rng.below(1_000)).unwrap_or(0),
            }
        });
        let options = InsertionOptions {
            replacements_max: request.replacements_max,
            new_node_penalty: i64::try_from(rng.below(NEW_NODE_PENALTY_STEPS)).unwrap_or(0),
        };
        // Further insertions never lower the cost, so the attempt ends as soon as it exceeds the bound.
        unassigned.into_iter().all(|pod| {
            state.insert_pod(cluster, pod, options, rng) && cost(state, *per_eviction) <= most
        }) && cost(state, *per_eviction) <= most
            && groups_are_allowed(cluster, state, request)
    }
}

/// Largest accepted excess over the best cost, with this many attempts left.
fn deviation_max(start: i64, left: i64, attempts: i64) -> i64 {
    start / INITIAL_DEVIATION * left / attempts
}

/// Cost of the nodes and of the evictions.
fn cost(state: &Assignment, per_eviction: NanosPerHour) -> i64 {
    let evicted = i64::try_from(state.evicted).unwrap_or(i64::MAX);
    let evictions = evicted.saturating_mul(per_eviction.0);
    state.cost.saturating_add(evictions)
}

/// Prices of a replacement group before and after.
struct GroupSavings {
    group: usize,
    before: i64,
    after: i64,
    /// Over the nodes with a lower bound on their saving: the sum of their prices, and the sum of the bounds.
    bound: (i64, i64),
    members: usize,
    all_spot: bool,
    may_be_spot: bool,
}

/// Whether every group saves enough, stays within the budgets, and launches no node that may not replace its nodes.
fn groups_are_allowed(
    cluster: &ClusterModel,
    state: &Assignment,
    request: &RearrangeRequest<'_>,
) -> bool {
    let mut groups: Vec<GroupSavings> = Vec::new();
    let mut members: Vec<(usize, usize)> = Vec::new();
    for (at, candidate) in cluster.candidates.iter().enumerate() {
        if state.removed.get(at) == Some(&true) && candidate.price < candidate.least_saving {
            return false;
        }
        let Some(group) = state.group_of(at) else {
            continue;
        };
        members.push((group, candidate.budget));
        let savings = savings_of_group(&mut groups, group);
        savings.before += candidate.price;
        if candidate.least_saving > 0 {
            savings.bound.0 += candidate.price;
            savings.bound.1 += candidate.least_saving;
        }
        savings.members += 1;
        savings.all_spot &= candidate.is_spot;
    }
    members.sort_unstable();
    let mut together = members.chunk_by(|a, b| a == b);
    let fits = together.all(|same| {
        let budget = same
            .first()
            .and_then(|(_, budget)| request.together_max.get(*budget));
        budget.is_none_or(|most| same.len() <= *most)
    });
    for (_, planned) in state.planned_nodes(cluster) {
        let savings = savings_of_group(&mut groups, planned.group);
        if savings.members > 1 && has_own_type(cluster, state, planned) {
            return false;
        }
        savings.after += cluster.price(planned.offer);
        savings.may_be_spot |= planned.viable_offers.intersects(&cluster.spot_offers);
    }
    fits && groups.iter().all(|savings| savings.is_allowed(request))
}

/// Whether a planned node is of the instance type of one of the nodes that it replaces, at the same or a higher price.
fn has_own_type(cluster: &ClusterModel, state: &Assignment, planned: &PlannedNode) -> bool {
    let mut own = cluster.own_offers.iter().enumerate();
    own.any(|(at, own)| own.contains(planned.offer) && state.group_of(at) == Some(planned.group))
}

fn savings_of_group(groups: &mut Vec<GroupSavings>, group: usize) -> &mut GroupSavings {
    let known = groups.iter().position(|savings| savings.group == group);
    let at = known.unwrap_or_else(|| {
        groups.push(GroupSavings {
            group,
            before: 0,
            after: 0,
            bound: (0, 0),
            members: 0,
            all_spot: true,
            may_be_spot: false,
        });
        groups.len() - 1
    });
    #[expect(
        clippy::indexing_slicing,
        reason = "the index was found or pushed above"
    )]
    &mut groups[at]
}

impl GroupSavings {
    fn is_allowed(&self, request: &RearrangeRequest<'_>) -> bool {
        let saved = i128::from(self.before - self.after);
        let (own, least) = self.bound;
        // A single spot node may be replaced by spot only with enough cheaper types to choose from, which the model does
        // not know.
        let spot_to_spot = self.all_spot && self.may_be_spot;
        saved > 0
            && saved * i128::from(own) >= i128::from(least) * i128::from(self.before)
            && (!spot_to_spot || request.spot_to_spot && self.members > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_deviation_shrinks_to_zero() {
        let deviation_max = [1_000, 500, 1, 0].map(|left| deviation_max(240_000, left, 1_000));
        assert_eq!(deviation_max, [1_000, 500, 1, 0]);
    }

    fn is_allowed(change: impl Fn(&mut GroupSavings), spot_to_spot: bool) -> bool {
        let mut savings = GroupSavings {
            group: 0,
            before: 72,
            after: 19,
            bound: (0, 0),
            members: 2,
            all_spot: false,
            may_be_spot: true,
        };
        change(&mut savings);
        savings.is_allowed(&RearrangeRequest {
            removable: &[],
            together_max: &[],
            replacements_max: 0,
            spot_to_spot,
            attempts: 0,
        })
    }

    #[test]
    fn group_without_saving_is_refused() {
        let for_ = |after| is_allowed(|savings| savings.after = after, false);
        assert!(for_(71) && !for_(72) && !for_(73));
    }

    /// Each node's part of the saving is proportional to its price.
    #[test]
    fn node_with_minimum_savings_must_reach_them() {
        let least = |least| is_allowed(|savings| savings.bound = (36, least), false);
        assert!(least(26) && !least(27));
    }

    #[test]
    fn spot_to_spot_needs_the_setting_and_several_nodes() {
        let all_spot = |members, may_be_spot, allowed| {
            let change = |savings: &mut GroupSavings| {
                savings.all_spot = true;
                (savings.members, savings.may_be_spot) = (members, may_be_spot);
            };
            is_allowed(change, allowed)
        };
        assert!(all_spot(2, true, true) && all_spot(1, false, false));
        assert!(!all_spot(2, true, false) && !all_spot(1, true, true));
    }
}
