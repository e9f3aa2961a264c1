//! The search for a cheaper set of nodes, on paper: items, offers and host rules, without the rest of the world.
//!
//! One round buys nodes until every pod has a place, each time the node whose pods are worth most for its price. What a
//! round paid for an item is what it is worth in the next one, so that pods that were dear choose first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use crate::{
    amounts,
    repack::{
        items::Item,
        offers::{Offer, Offers},
    },
    topology::GroupId,
};

#[derive(Default)]
pub(crate) struct Plan {
    /// Each with how many of the kind to make.
    pub(crate) nodes: Vec<(Node, i64)>,
    /// Upkeep included.
    pub(crate) cost: i64,
}

/// What goes on a node: items by index with how many of each, in the order in which they were taken.
#[derive(Clone, Default)]
pub(crate) struct Node {
    pub(crate) items: Vec<(usize, i64)>,
    price: i64,
    worth: i64,
}

impl Node {
    /// How many of the kind can be made of what is left.
    fn times(&self, left: &[i64]) -> i64 {
        let items = self.items.iter();
        let times = items.map(|(item, number)| left.get(*item).map_or(0, |left| left / number));
        times.min().unwrap_or(0)
    }
}

/// What an offer is good for.
#[derive(Clone, Default)]
struct Draft {
    /// The items that fit, once asked for.
    order: Option<Vec<usize>>,
    node: Node,
    /// Worth for its price: of the node, or the most it could be before one was made.
    hope: i64,
}

/// Worth for a price.
fn value(worth: i64, price: i64) -> i64 {
    worth.saturating_mul(SCALE) / price.max(1)
}

const ROUNDS_MAX: usize = 12;
/// A round that saves less than this part is idle; after so many, prices have settled.
const WORTHWHILE: i64 = 1_000;
const IDLE_ROUNDS: i32 = 3;
/// Items compared at a time while a node is filled; the others wait until one of these is used up or does not fit.
const WINDOW: usize = 48;
/// Offers looked at for each node.
const LOOKS: usize = 24;
/// Of what fits, this part is taken before comparing again.
const PORTION: i64 = 2;
/// Fixed point of ratios.
const SCALE: i64 = 1 << 16;

/// How many comparisons may still be made, so that a turn stays quick.
pub(crate) struct Work(u64);

impl Work {
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

/// The cheapest plan of all rounds; `None` if there is none or no time for one.
pub(crate) fn cheapest(items: &[Item<'_>], offers: &Offers, work: &mut Work) -> Option<Plan> {
    let mut market = Market::new(items, offers, work)?;
    let mut best: Option<Plan> = None;
    let mut idle = 0;
    for _ in 0..ROUNDS_MAX {
        let Some(plan) = market.round(work) else {
            break;
        };
        market.learn(&plan);
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

struct Market<'m, 'a> {
    items: &'m [Item<'a>],
    offers: &'m Offers,
    /// Per item, what one pod of it is worth.
    worth: Vec<i64>,
    numbers: Vec<i64>,
    /// Per resource, how many low bits do not matter when worth is compared.
    coarse: Vec<u32>,
}

/// Amounts of this many bits times any price stay within an `i64`.
const COARSE_BITS: u32 = 24;

impl<'m, 'a> Market<'m, 'a> {
    fn new(items: &'m [Item<'a>], offers: &'m Offers, work: &mut Work) -> Option<Self> {
        let dimensions = offers.all.first()?.room.len();
        let coarse = (0..dimensions).map(|at| {
            let amounts = offers.all.iter().filter_map(|offer| offer.room.get(at));
            let most = amounts.copied().max().unwrap_or(0).max(0);
            (i64::BITS - most.leading_zeros()).saturating_sub(COARSE_BITS)
        });
        let mut market = Self {
            items,
            offers,
            worth: Vec::new(),
            numbers: items
                .iter()
                .map(|item| i64::try_from(item.pods.len()).unwrap_or(i64::MAX))
                .collect(),
            coarse: coarse.collect(),
        };
        work.spend(items.len() + offers.all.len())?;
        market.worth = market.least_worth();
        Some(market)
    }

    /// What pods cost at least: their dearest resource, at the lowest price that any offer has for it.
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

    fn usable(&self, item: usize, offer: &Offer) -> bool {
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

    fn round(&self, work: &mut Work) -> Option<Plan> {
        let mut plan = Plan::default();
        let mut left = self.numbers.clone();
        let mut unplaced: i64 = left.iter().sum();
        let mut drafts: Vec<Draft> = self.drafts(work)?;
        // What is left only shrinks, so what an offer was good for is at least what it is good for now.
        let mut hopes: BinaryHeap<(i64, Reverse<usize>)> = drafts
            .iter()
            .enumerate()
            .map(|(at, draft)| (draft.hope, Reverse(at)))
            .collect();
        while unplaced > 0 {
            let mut looked_at = Vec::with_capacity(LOOKS);
            let mut best: Option<(i64, Reverse<usize>)> = None;
            while looked_at.len() < LOOKS
                && let Some((hope, Reverse(at))) = hopes.pop()
            {
                if best.is_some_and(|best| best >= (hope, Reverse(at))) {
                    hopes.push((hope, Reverse(at)));
                    break;
                }
                let (offer, draft) = (self.offers.all.get(at)?, drafts.get_mut(at)?);
                if draft.node.times(&left) == 0 {
                    self.draft(offer, draft, &left, work)?;
                }
                if draft.hope > 0 {
                    looked_at.push((draft.hope, Reverse(at)));
                    best = best.max(Some((draft.hope, Reverse(at))));
                }
            }
            let (_, Reverse(at)) = best?;
            let node = &drafts.get(at)?.node;
            let times = node.times(&left);
            for (item, number) in &node.items {
                if let Some(left) = left.get_mut(*item) {
                    *left -= number * times;
                }
                unplaced -= number * times;
            }
            plan.cost = plan.cost.saturating_add(node.price.saturating_mul(times));
            plan.nodes.push((node.clone(), times));
            hopes.extend(looked_at);
        }
        Some(plan)
    }

    /// Before anything is tried: each offer full of whatever is worth most per unit of its scarcest resource.
    fn drafts(&self, work: &mut Work) -> Option<Vec<Draft>> {
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
                // A resource that some pods want nothing of bounds nothing.
                .filter(|((_, rate), _)| **rate < i64::MAX)
                .map(|((room, rate), low)| (room >> low).saturating_mul(*rate) / SCALE);
            Draft {
                hope: value(full.min().unwrap_or(i64::MAX), offer.price),
                ..Draft::default()
            }
        });
        Some(drafts.collect())
    }

    /// Fills an offer with what is left, and takes the cheapest offer that holds as much.
    fn draft(&self, offer: &Offer, draft: &mut Draft, left: &[i64], work: &mut Work) -> Option<()> {
        let order = match &mut draft.order {
            Some(known) => known,
            unknown => unknown.insert(self.order(offer, work)?),
        };
        let mut node = self.filled(offer, order, left, work)?;
        let mut total = vec![0; offer.room.len()];
        for (item, number) in &node.items {
            for (total, wanted) in total.iter_mut().zip(self.requests(*item)) {
                *total += wanted * number;
            }
        }
        let holds = |offer: &&Offer| {
            amounts::fits(&total, &offer.room)
                && node.items.iter().all(|(item, _)| self.usable(*item, offer))
        };
        let cheapest = self.offers.all.iter().find(holds);
        node.price = cheapest.unwrap_or(offer).price;
        draft.hope = value(node.worth, node.price);
        draft.node = node;
        Some(())
    }

    /// The items that fit an offer, those worth most for the room they take first.
    fn order(&self, offer: &Offer, work: &mut Work) -> Option<Vec<usize>> {
        work.spend(self.items.len())?;
        let fitting = (0..self.items.len()).filter(|item| {
            self.usable(*item, offer) && amounts::copies(self.requests(*item), &offer.room) > 0
        });
        let mut order: Vec<usize> = fitting.collect();
        order.sort_by_cached_key(|item| (Reverse(self.density(*item, &offer.room)), *item));
        Some(order)
    }

    /// What `room` would be worth, filled with this item only.
    fn density(&self, item: usize, room: &[i64]) -> i64 {
        let worth = self.worth(item);
        let dimensions = self.requests(item).iter().zip(room).zip(&self.coarse);
        let full =
            dimensions
                .filter(|((wanted, _), _)| **wanted > 0)
                .map(|((wanted, room), low)| {
                    worth.saturating_mul(room >> low) / (wanted >> low).max(1)
                });
        full.min().unwrap_or(i64::MAX)
    }

    /// A node filled with what is left, always with the item worth most for the room that remains.
    fn filled(
        &self,
        offer: &Offer,
        order: &[usize],
        left: &[i64],
        work: &mut Work,
    ) -> Option<Node> {
        let mut node = Node::default();
        let mut hosted: BTreeMap<GroupId, i64> = BTreeMap::new();
        let mut room = offer.room.to_vec();
        let available = order
            .iter()
            .map(|item| (*item, left.get(*item).copied().unwrap_or(0)));
        let mut waiting = available.filter(|(_, left)| *left > 0);
        let mut window: Vec<(usize, i64)> = Vec::with_capacity(WINDOW);
        loop {
            let free = WINDOW - window.len();
            window.extend(waiting.by_ref().take(free));
            if window.is_empty() {
                break;
            }
            work.spend(window.len())?;
            let mut best: Option<(i64, Reverse<usize>)> = None;
            window.retain(|&(item, left)| {
                let fits = left > 0
                    && amounts::fits(self.requests(item), &room)
                    && self.hosting(item, &hosted) > 0;
                if fits {
                    best = best.max(Some((self.density(item, &room), Reverse(item))));
                }
                fits
            });
            let chosen = best
                .and_then(|(_, Reverse(item))| window.iter_mut().find(|(known, _)| *known == item));
            let Some((item, left)) = chosen else {
                continue;
            };
            let fitting = amounts::copies(self.requests(*item), &room)
                .min(self.hosting(*item, &hosted))
                .min(*left);
            let number = (fitting + PORTION - 1) / PORTION;
            *left -= number;
            for (room, wanted) in room.iter_mut().zip(self.requests(*item)) {
                *room -= wanted * number;
            }
            for rule in self
                .items
                .get(*item)
                .into_iter()
                .flat_map(|item| item.rules.iter())
            {
                if rule.counts {
                    *hosted.entry(rule.group).or_default() += number;
                }
            }
            node.worth = node
                .worth
                .saturating_add(self.worth(*item).saturating_mul(number));
            match node.items.iter_mut().find(|(known, _)| known == item) {
                Some((_, known)) => *known += number,
                None => node.items.push((*item, number)),
            }
        }
        Some(node)
    }

    /// How many pods of an item host rules still admit.
    fn hosting(&self, item: usize, hosted: &BTreeMap<GroupId, i64>) -> i64 {
        let rules = self.items.get(item).map_or(&[][..], |item| &item.rules);
        let admitted = rules.iter().filter_map(|rule| {
            let known = hosted.get(&rule.group).copied().unwrap_or(0);
            let more = rule.most? - known + 1;
            Some(if rule.counts || more <= 0 {
                more
            } else {
                i64::MAX
            })
        });
        admitted.min().unwrap_or(i64::MAX)
    }

    /// Makes each item worth what its nodes cost, shared out by what their pods were worth.
    fn learn(&mut self, plan: &Plan) {
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
