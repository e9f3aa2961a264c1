//! Search for a cheaper set of nodes, on items, offers and host rules alone.
//!
//! One round opens nodes until every pod has a place, each time the node with the highest value of pods per price. The
//! price that a round pays for an item is the item's value in the next round, so that pods that were expensive are placed
//! first.

mod fill;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use crate::repack::{
    items::Item,
    offers::{PurchaseOption, PurchaseOptions},
};

/// Packing of all items onto nodes.
#[derive(Default)]
pub(crate) struct Plan {
    /// Packed nodes, each with the number of copies.
    pub(crate) nodes: Vec<(PackedNode, i64)>,
    /// Price of all nodes in nano-dollars per hour, including the overhead per node.
    pub(crate) cost: i64,
}

impl Plan {
    fn number(&self) -> i64 {
        self.nodes.iter().map(|(_, times)| times).sum()
    }
}

/// Contents of a node: item indexes with the number of pods, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct PackedNode {
    pub(crate) items: Vec<(usize, i64)>,
    price: i64,
    worth: i64,
}

impl PackedNode {
    /// Number of copies that the remaining pods allow.
    fn times(&self, left: &[i64]) -> i64 {
        let items = self.items.iter();
        let times = items.map(|(item, number)| left.get(*item).map_or(0, |left| left / number));
        times.min().unwrap_or(0)
    }
}

/// Best known use of an offer.
#[derive(Clone, Default)]
struct OfferDraft {
    /// Items that fit the offer, computed on first use.
    order: Option<Vec<usize>>,
    node: PackedNode,
    /// Worth per price: of `node`, or an upper bound before a node is packed.
    value_bound: i64,
}

/// Pods without a place.
struct RemainingPods<'m> {
    offers: &'m PurchaseOptions,
    /// Per item, the number of remaining pods.
    numbers: Vec<i64>,
    pods: i64,
    /// Per kind, the total value of the remaining pods.
    worth: BTreeMap<u128, i64>,
}

impl RemainingPods<'_> {
    fn take(&mut self, node: &PackedNode, times: i64, pricing: &Pricing<'_, '_>) {
        for (item, number) in &node.items {
            let taken = number * times;
            if let Some(left) = self.numbers.get_mut(*item) {
                *left -= taken;
            }
            self.pods -= taken;
            let kind = self.offers.kinds.get(*item);
            if let Some(worth) = kind.and_then(|kind| self.worth.get_mut(kind)) {
                *worth = worth.saturating_sub(pricing.worth(*item).saturating_mul(taken));
            }
        }
    }

    /// Upper bound on the value of a node of this offer.
    fn worth_on(&self, offer: &PurchaseOption) -> i64 {
        let worth = self.worth.iter();
        let usable = worth.filter(|(kind, _)| *kind & offer.kinds != 0);
        usable.fold(0, |sum, (_, worth)| sum.saturating_add(*worth))
    }
}

/// Upper bound on the rounds of one search, which otherwise ends after [`IDLE_ROUNDS`] idle ones.
const ROUNDS_MAX: usize = 12;
/// A round is idle if it saves less than this fraction (1/1000). After [`IDLE_ROUNDS`] of them, worths have converged.
const WORTHWHILE: i64 = 1_000;
const IDLE_ROUNDS: i32 = 3;
/// Upper bound on the offers evaluated for each node, in the order of their value bounds.
const OFFERS_EVALUATED_MAX: usize = 24;
/// Up to this many nodes, both value bounds are tried. In larger plans, the last nodes hardly matter.
const FEW_NODES: i64 = 64;
/// One in fixed point, for ratios.
const SCALE: i64 = 1 << 16;

/// Remaining comparisons, which bound the duration of a turn.
pub(crate) struct WorkBudget(u64);

impl WorkBudget {
    const BASE: u64 = 200_000;
    const PER_POD: u64 = 15;

    pub(crate) fn for_pods(pods: usize) -> Self {
        let pods = u64::try_from(pods).unwrap_or(u64::MAX);
        Self(Self::BASE.saturating_add(pods.saturating_mul(Self::PER_POD)))
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(u64::try_from(steps).ok()?)?;
        Some(())
    }
}

/// Cheapest plan of all rounds; `None` if no round ends within the work budget.
pub(crate) fn cheapest(
    items: &[Item<'_>],
    offers: &PurchaseOptions,
    work: &mut WorkBudget,
) -> Option<Plan> {
    let best = cheapest_of_rounds(items, offers, ValueBound::FullNode, work);
    let is_small = best.as_ref().is_none_or(|best| best.number() <= FEW_NODES);
    let other = match is_small {
        true => cheapest_of_rounds(items, offers, ValueBound::RemainingPods, work),
        false => None,
    };
    let plans = [best, other].into_iter().flatten();
    plans.min_by_key(|plan| plan.cost)
}

/// Upper bound on the value of an offer before a node is packed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueBound {
    /// Worth of a full node. Large offers come first and shrink to the remaining pods; small offers may never be evaluated.
    FullNode,
    /// Worth of all remaining pods. Nodes with a good price come first, and the last nodes may be expensive.
    RemainingPods,
}

fn cheapest_of_rounds(
    items: &[Item<'_>],
    offers: &PurchaseOptions,
    bound: ValueBound,
    work: &mut WorkBudget,
) -> Option<Plan> {
    let mut pricing = Pricing::new(items, offers, work)?;
    pricing.bound = bound;
    let mut best: Option<Plan> = None;
    let mut idle = 0;
    for _ in 0..ROUNDS_MAX {
        let Some(plan) = pricing.round(work) else {
            break;
        };
        if plan.number() > offers.nodes_max {
            pricing.raise_fee();
            continue;
        }
        pricing.update_worth(&plan);
        let known = best.as_ref().map_or(i64::MAX, |best| best.cost);
        idle += i32::from(plan.cost > known - known / WORTHWHILE);
        if plan.cost < known {
            best = Some(plan);
        }
        if idle == IDLE_ROUNDS {
            break;
        }
    }
    best
}

/// Items and offers with the present value of each item.
struct Pricing<'m, 'a> {
    items: &'m [Item<'a>],
    offers: &'m PurchaseOptions,
    /// Per item, the value of one pod: its shadow price.
    worth: Vec<i64>,
    numbers: Vec<i64>,
    /// Per resource, the number of low bits that are ignored in comparisons of values.
    coarse: Vec<u32>,
    /// Surcharge per node that favors larger nodes if the number of nodes is limited.
    fee: i64,
    bound: ValueBound,
}

/// Products of amounts of this many bits and any price fit an `i64`.
const COARSE_BITS: u32 = 24;

impl<'m, 'a> Pricing<'m, 'a> {
    fn new(
        items: &'m [Item<'a>],
        offers: &'m PurchaseOptions,
        work: &mut WorkBudget,
    ) -> Option<Self> {
        let dimensions = offers.all.first()?.room.len();
        let coarse = (0..dimensions).map(|at| {
            let amounts = offers.all.iter().filter_map(|offer| offer.room.get(at));
            let most = amounts.copied().max().unwrap_or(0).max(0);
            (i64::BITS - most.leading_zeros()).saturating_sub(COARSE_BITS)
        });
        let mut pricing = Self {
            items,
            offers,
            worth: Vec::new(),
            numbers: items
                .iter()
                .map(|item| i64::try_from(item.pods.len()).unwrap_or(i64::MAX))
                .collect(),
            coarse: coarse.collect(),
            fee: 0,
            bound: ValueBound::FullNode,
        };
        work.spend(items.len() + offers.all.len())?;
        pricing.worth = pricing.least_worth();
        Some(pricing)
    }

    /// Lower bound on the cost of a pod per item: its most expensive resource, at the lowest price of any offer.
    fn least_worth(&self) -> Vec<i64> {
        let lowest = (0..self.coarse.len()).map(|at| {
            let prices = self.offers.all.iter().filter_map(|offer| {
                let room = offer.room.get(at)? >> self.coarse.get(at)?;
                (room > 0).then(|| offer.price.saturating_mul(SCALE) / room)
            });
            prices.min().unwrap_or(0)
        });
        let lowest: Vec<i64> = lowest.collect();
        let items = self.items.iter().map(|item| {
            let amounts = item.wanted.iter().zip(&lowest).zip(&self.coarse);
            let shares = amounts
                .map(|((wanted, price), low)| (wanted >> low).saturating_mul(*price) / SCALE);
            shares.max().unwrap_or(0).max(1)
        });
        items.collect()
    }

    fn usable(&self, item: usize, offer: &PurchaseOption) -> bool {
        self.offers
            .kinds
            .get(item)
            .is_some_and(|kind| kind & offer.kinds != 0)
    }

    fn worth(&self, item: usize) -> i64 {
        self.worth.get(item).copied().unwrap_or(0)
    }

    fn requests(&self, item: usize) -> &[i64] {
        self.items.get(item).map_or(&[], |item| &item.wanted)
    }

    /// Worth per price.
    fn value(&self, worth: i64, price: i64) -> i64 {
        worth.saturating_mul(SCALE) / price.saturating_add(self.fee).max(1)
    }

    fn raise_fee(&mut self) {
        let least = self.offers.all.first().map_or(1, |offer| offer.price);
        self.fee = self.fee.saturating_mul(2).max(least);
    }

    fn all_left(&self) -> RemainingPods<'m> {
        let mut worth: BTreeMap<u128, i64> = BTreeMap::new();
        for (at, number) in self.numbers.iter().enumerate() {
            let kind = self.offers.kinds.get(at).copied().unwrap_or(0);
            let known = worth.entry(kind).or_default();
            *known = known.saturating_add(self.worth(at).saturating_mul(*number));
        }
        RemainingPods {
            offers: self.offers,
            pods: self.numbers.iter().sum(),
            numbers: self.numbers.clone(),
            worth,
        }
    }

    fn round(&self, work: &mut WorkBudget) -> Option<Plan> {
        let mut plan = Plan::default();
        let mut left = self.all_left();
        let mut drafts: Vec<OfferDraft> = self.drafts(work)?;
        // Remaining pods only decrease, so an earlier value of an offer is an upper bound on its present one.
        let mut queue: BinaryHeap<(i64, Reverse<usize>)> = drafts
            .iter()
            .enumerate()
            .map(|(at, draft)| (draft.value_bound, Reverse(at)))
            .collect();
        while left.pods > 0 {
            let mut evaluated = Vec::with_capacity(OFFERS_EVALUATED_MAX);
            let mut best: Option<(i64, Reverse<usize>)> = None;
            while evaluated.len() < OFFERS_EVALUATED_MAX
                && let Some((value_bound, Reverse(at))) = queue.pop()
            {
                if best.is_some_and(|best| best >= (value_bound, Reverse(at))) {
                    queue.push((value_bound, Reverse(at)));
                    break;
                }
                let (offer, draft) = (self.offers.all.get(at)?, drafts.get_mut(at)?);
                if draft.node.times(&left.numbers) == 0 {
                    let most = match self.bound {
                        ValueBound::FullNode => value_bound,
                        ValueBound::RemainingPods => self.value(left.worth_on(offer), offer.price),
                    };
                    if most < value_bound {
                        work.spend(1)?;
                        queue.push((most, Reverse(at)));
                        continue;
                    }
                    self.draft(offer, draft, &left.numbers, work)?;
                }
                if draft.value_bound > 0 {
                    evaluated.push((draft.value_bound, Reverse(at)));
                    best = best.max(Some((draft.value_bound, Reverse(at))));
                }
            }
            let (_, Reverse(at)) = best?;
            let node = &drafts.get(at)?.node;
            let times = node.times(&left.numbers);
            left.take(node, times, self);
            plan.cost = plan.cost.saturating_add(node.price.saturating_mul(times));
            plan.nodes.push((node.clone(), times));
            queue.extend(evaluated);
        }
        Some(plan)
    }

    /// Drafts before the first node is packed: each offer full of the item with the highest value per unit of the offer's
    /// scarcest resource.
    fn drafts(&self, work: &mut WorkBudget) -> Option<Vec<OfferDraft>> {
        work.spend(self.items.len() + self.offers.all.len())?;
        let rates: Vec<i64> = (0..self.coarse.len())
            .map(|at| {
                let rates = (0..self.items.len()).map(|item| {
                    let (wanted, low) = (self.requests(item).get(at), self.coarse.get(at));
                    match (wanted, low) {
                        (Some(wanted), Some(low)) if *wanted > 0 => {
                            self.worth(item).saturating_mul(SCALE) / (wanted >> low).max(1)
                        }
                        _ => i64::MAX,
                    }
                });
                rates.max().unwrap_or(0)
            })
            .collect();
        let drafts = self.offers.all.iter().map(|offer| {
            let full = offer
                .room
                .iter()
                .zip(&rates)
                .zip(&self.coarse)
                // A resource that some item does not request gives no bound.
                .filter(|((_, rate), _)| **rate < i64::MAX)
                .map(|((room, rate), low)| (room >> low).saturating_mul(*rate) / SCALE);
            OfferDraft {
                value_bound: self.value(full.min().unwrap_or(i64::MAX), offer.price),
                ..OfferDraft::default()
            }
        });
        Some(drafts.collect())
    }

    /// Sets the value of each item to its share of its nodes' prices, split by the previous values.
    fn update_worth(&mut self, plan: &Plan) {
        let mut paid: Vec<i64> = vec![0; self.items.len()];
        for (node, times) in &plan.nodes {
            let ratio = node.price.saturating_mul(SCALE) / node.worth.max(1);
            for (item, number) in &node.items {
                if let Some(paid) = paid.get_mut(*item) {
                    *paid = paid.saturating_add(ratio.saturating_mul(number * times));
                }
            }
        }
        for ((worth, paid), number) in self.worth.iter_mut().zip(paid).zip(&self.numbers) {
            *worth = (worth.saturating_mul(paid / number) / SCALE).max(1);
        }
    }
}

#[cfg(test)]
mod tests;
