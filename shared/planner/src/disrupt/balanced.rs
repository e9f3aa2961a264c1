//! Policy Balanced: the share of a NodePool's cost that a move saves must be at least half of the share of its pods' disruption
//! cost that the move causes (docs/spec/lifecycle.md#balanced).

use std::collections::BTreeMap;

use model::{
    NanosPerHour, NodePoolName,
    labels::{INSTANCE_TYPE, NODE_POOL},
    node_pool::ConsolidationPolicy,
    pod::Pod,
    snapshot::Settings,
};

use super::{candidates::Candidate, consolidation::Move, context::DisruptionContext, cost, price};
use crate::{inventory::is_daemon, managed::is_managed};

/// Weight of a share of the savings against an equal share of the disruption.
const DISRUPTION_PER_SAVINGS: i128 = 2;

/// Verdict of policy Balanced on a move, for one of the NodePools that lose nodes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancedVerdict {
    pub node_pool: NodePoolName,
    pub approved: bool,
    /// Share of the NodePool's cost saved per share of its disruption caused, in thousandths. For a node that would be rejected
    /// even without a replacement, the score of removing it without one.
    pub score: u64,
}

/// Upper bound on scores, and the score of a move that saves something without any disruption.
const SCORE_MAX: u64 = 1_000_000;

/// Cost and disruption cost of a whole NodePool.
#[derive(Clone, Copy, Default)]
struct Total {
    cost: i128,
    disruption: i128,
}

/// Totals of the NodePools with policy Balanced that have a candidate.
#[derive(Clone)]
pub(super) struct Totals(BTreeMap<NodePoolName, Total>);

impl Totals {
    pub(super) fn new(context: &DisruptionContext<'_>, candidates: &[Candidate<'_>]) -> Self {
        let mut totals: BTreeMap<NodePoolName, Total> = BTreeMap::new();
        let mut of_candidates: BTreeMap<NodePoolName, i128> = BTreeMap::new();
        let mut costs: BTreeMap<usize, i64> = BTreeMap::new();
        for candidate in candidates.iter().filter(|candidate| is_balanced(candidate)) {
            totals.entry(candidate.pool.name.clone()).or_default();
            *of_candidates
                .entry(candidate.pool.name.clone())
                .or_default() += i128::from(candidate.price.0);
            costs.insert(candidate.index, candidate.cost);
        }
        if totals.is_empty() {
            return Self(totals);
        }
        for (at, state_node) in context.inventory.state_nodes.iter().enumerate() {
            let pool = state_node.labels.get(NODE_POOL);
            let total = pool.and_then(|pool| totals.get_mut(&pool.as_str().into()));
            if let Some(total) = total {
                let cost = costs.get(&at).copied();
                total.disruption +=
                    i128::from(cost.unwrap_or_else(|| {
                        of_others(&state_node.pods, &context.snapshot.settings)
                    }));
            }
        }
        for (name, price) in prices(context) {
            if let Some(total) = totals.get_mut(&name) {
                total.cost += i128::from(price.0);
            }
        }
        for (name, total) in &mut totals {
            if total.cost <= 0 {
                total.cost = of_candidates.get(name).copied().unwrap_or_default();
            }
        }
        Self(totals)
    }

    /// Whether the move passes for every NodePool with policy Balanced that loses nodes.
    pub(super) fn approve(&self, step: &Move<'_>) -> bool {
        let [before, after] = [step.before(), step.after()].map(|price| i128::from(price.0));
        self.approve_savings(&step.candidates, before, before - after)
    }

    /// Returns the verdict on a move for each NodePool with policy Balanced that loses nodes.
    pub(super) fn verdicts<'c, 'a: 'c>(
        &self,
        candidates: impl IntoIterator<Item = &'c Candidate<'a>>,
        savings: NanosPerHour,
        approved: bool,
    ) -> Vec<BalancedVerdict> {
        let mut of_pools: BTreeMap<&NodePoolName, Total> = BTreeMap::new();
        let mut before = 0;
        for candidate in candidates {
            before += i128::from(candidate.price.0);
            if is_balanced(candidate) {
                let own = of_pools.entry(&candidate.pool.name).or_default();
                own.cost += i128::from(candidate.price.0);
                own.disruption += i128::from(candidate.cost);
            }
        }
        let scored = of_pools.into_iter().filter_map(|(name, own)| {
            let total = self.0.get(name)?;
            let saved = i128::from(savings.0.max(0)) * own.cost;
            let least = own.disruption * total.cost * before;
            let score = match least {
                ..=0 if saved > 0 => i128::from(SCORE_MAX),
                ..=0 => 0,
                _ => saved.saturating_mul(1_000).saturating_mul(total.disruption) / least,
            };
            Some(BalancedVerdict {
                node_pool: name.clone(),
                approved,
                score: u64::try_from(score).unwrap_or(0).min(SCORE_MAX),
            })
        });
        scored.collect()
    }

    /// Whether removing the node would pass if nothing had to replace it.
    pub(super) fn could_approve(&self, candidate: &Candidate<'_>) -> bool {
        let known = self.0.get(&candidate.pool.name);
        if !is_balanced(candidate) || known.is_none_or(|total| total.cost <= 0) {
            return true;
        }
        let price = i128::from(candidate.price.0);
        self.approve_savings(std::slice::from_ref(candidate), price, price)
    }

    /// Reduces the totals by the savings of a planned move.
    pub(super) fn apply_move(&mut self, step: &Move<'_>) {
        let [before, after] = [step.before(), step.after()].map(|price| i128::from(price.0));
        for candidate in &step.candidates {
            if let Some(total) = self.0.get_mut(&candidate.pool.name) {
                // A replacement is attributed to the NodePools of the nodes that it replaces.
                total.cost -= i128::from(candidate.price.0) * (before - after) / before.max(1);
            }
        }
    }

    /// Returns the totals with each cost multiplied by `part / of`.
    pub(super) fn scaled(&self, part: i64, of: i64) -> Self {
        let mut totals = self.clone();
        for total in totals.0.values_mut() {
            total.cost = total.cost * i128::from(part) / i128::from(of.max(1));
        }
        totals
    }

    /// Least saving with which removing the node passes.
    pub(super) fn least_saving(&self, candidate: &Candidate<'_>) -> NanosPerHour {
        let known = self.0.get(&candidate.pool.name);
        let Some(total) = known.filter(|_| is_balanced(candidate)) else {
            return NanosPerHour(0);
        };
        let share = i128::from(candidate.cost) * total.cost;
        let least = share / (DISRUPTION_PER_SAVINGS * total.disruption).max(1);
        NanosPerHour(i64::try_from(least).unwrap_or(i64::MAX))
    }

    /// Judges savings that are split among NodePools in proportion to the cost of their removed nodes.
    fn approve_savings(&self, candidates: &[Candidate<'_>], before: i128, savings: i128) -> bool {
        let mut of_pools: BTreeMap<&NodePoolName, Total> = BTreeMap::new();
        for candidate in candidates.iter().filter(|candidate| is_balanced(candidate)) {
            let own = of_pools.entry(&candidate.pool.name).or_default();
            own.cost += i128::from(candidate.price.0);
            own.disruption += i128::from(candidate.cost);
        }
        of_pools.into_iter().all(|(name, own)| {
            let Some(total) = self.0.get(name) else {
                return false;
            };
            let saved = savings * own.cost;
            saved > 0
                && DISRUPTION_PER_SAVINGS * saved * total.disruption
                    >= own.disruption * total.cost * before
        })
    }
}

fn is_balanced(candidate: &Candidate<'_>) -> bool {
    candidate.pool.disruption.policy == ConsolidationPolicy::Balanced
}

/// Disruption cost of a node that is not a candidate.
fn of_others(pods: &[&Pod], settings: &Settings) -> i64 {
    let pods = pods.iter().filter(|pod| !is_daemon(pod));
    cost::EVICTION.saturating_add(pods.map(|pod| cost::of_pod(pod, settings).max(0)).sum())
}

/// Price of every NodeClaim of an EC2NodeClass, by NodePool. NodeClaims without a known instance type are left out.
fn prices<'s>(
    context: &'s DisruptionContext<'_>,
) -> impl Iterator<Item = (NodePoolName, NanosPerHour)> + 's {
    let claims = context.snapshot.node_claims.iter();
    claims
        .filter(|claim| is_managed(claim))
        .filter_map(|claim| {
            let name = claim.node_pool()?;
            let instance_type = claim.labels.get(INSTANCE_TYPE)?;
            let types = context.planning.types.get(&name)?;
            let instance_type = types.iter().find(|known| known.name == *instance_type)?;
            let price = price::of_node(
                instance_type,
                &claim.labels,
                context.snapshot.surcharge_of(Some(&name)),
            );
            Some((name, price))
        })
}
