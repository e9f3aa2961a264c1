//! The search for a cheaper set of nodes, on paper: items, offers and host rules, without the rest of the world.
//!
//! One round buys nodes until every pod has a place, each time the node whose pods are worth most for its price. What a
//! round paid for an item is what it is worth in the next one, so that pods that were dear choose first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use crate::{
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

/// Rounds after which prices hardly move any more.
const ROUNDS: usize = 8;
/// Items compared at a time while a node is filled; the others wait until one of these is used up or does not fit.
const WINDOW: usize = 48;
/// Of what fits, this part is taken before comparing again.
const PORTION: i64 = 4;
/// Fixed point of ratios.
const SCALE: i64 = 1 << 16;

/// How many comparisons may still be made, so that a turn stays quick.
pub(crate) struct Work(u64);

impl Work {
    const BASE: u64 = 200_000;
    const PER_POD: u64 = 300;

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
    for _ in 0..ROUNDS {
        let Some(plan) = market.round(work) else {
            break;
        };
        market.learn(&plan);
        if best.as_ref().is_none_or(|best| plan.cost < best.cost) {
            best = Some(plan);
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
        work.spend(items.len().saturating_mul(offers.all.len()))?;
        let worth = (0..items.len()).map(|item| market.least(item));
        market.worth = worth.collect::<Option<_>>()?;
        Some(market)
    }

    fn usable(&self, item: usize, offer: &Offer) -> bool {
        self.offers
            .kinds
            .get(item)
            .is_some_and(|kind| kind & offer.kinds != 0)
    }

    fn requests(&self, item: usize) -> &[i64] {
        self.items.get(item).map_or(&[], |item| &item.core.requests)
    }

    /// The least that a pod's share of a full node can cost.
    fn least(&self, item: usize) -> Option<i64> {
        let offers = self.offers.all.iter();
        let fitting = offers.filter(|offer| {
            self.usable(item, offer) && copies(self.requests(item), &offer.room) > 0
        });
        let shares = fitting.map(|offer| {
            let dimensions = self
                .requests(item)
                .iter()
                .zip(&offer.room)
                .zip(&self.coarse);
            let share =
                dimensions
                    .filter(|((wanted, _), _)| **wanted > 0)
                    .map(|((wanted, room), low)| {
                        offer.price.saturating_mul((wanted >> low).max(1)) / (room >> low).max(1)
                    });
            share.max().unwrap_or(0)
        });
        shares.min().map(|share| share.max(1))
    }

    fn round(&self, work: &mut Work) -> Option<Plan> {
        let mut plan = Plan::default();
        let mut left = self.numbers.clone();
        let mut unplaced: i64 = left.iter().sum();
        let mut orders: Vec<Option<Vec<usize>>> = vec![None; self.offers.all.len()];
        let mut nodes: Vec<Node> = vec![Node::default(); self.offers.all.len()];
        // What is left only shrinks, so an old value is at least today's: only the best has to be looked at again.
        let all = (0..self.offers.all.len()).map(|at| (i64::MAX, Reverse(at)));
        let mut best: BinaryHeap<(i64, Reverse<usize>)> = all.collect();
        while unplaced > 0 {
            let (value, Reverse(at)) = best.pop()?;
            let (offer, node) = (self.offers.all.get(at)?, nodes.get_mut(at)?);
            let times = node
                .items
                .iter()
                .map(|(item, number)| left.get(*item).map_or(0, |left| left / number));
            let times = times.min().unwrap_or(0);
            if times == 0 {
                let order = match orders.get_mut(at)? {
                    Some(known) => known,
                    unknown => unknown.insert(self.order(offer, work)?),
                };
                *node = self.filled(offer, order, &left, work)?;
                if node.worth > 0 {
                    best.push((
                        node.worth.saturating_mul(SCALE) / offer.price.max(1),
                        Reverse(at),
                    ));
                }
                continue;
            }
            for (item, number) in &node.items {
                if let Some(left) = left.get_mut(*item) {
                    *left -= number * times;
                }
                unplaced -= number * times;
            }
            plan.cost = plan.cost.saturating_add(offer.price.saturating_mul(times));
            plan.nodes.push((node.clone(), times));
            best.push((value, Reverse(at)));
        }
        Some(plan)
    }

    /// The items that fit an offer, those worth most for the room they take first.
    fn order(&self, offer: &Offer, work: &mut Work) -> Option<Vec<usize>> {
        work.spend(self.items.len())?;
        let fitting = (0..self.items.len()).filter(|item| {
            self.usable(*item, offer) && copies(self.requests(*item), &offer.room) > 0
        });
        let mut order: Vec<usize> = fitting.collect();
        order.sort_by_cached_key(|item| (Reverse(self.density(*item, &offer.room)), *item));
        Some(order)
    }

    /// What `room` would be worth, filled with this item only.
    fn density(&self, item: usize, room: &[i64]) -> i64 {
        let worth = self.worth.get(item).copied().unwrap_or(0);
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
        let mut node = Node {
            price: offer.price,
            ..Node::default()
        };
        let mut taken: BTreeMap<usize, i64> = BTreeMap::new();
        let mut hosted: BTreeMap<GroupId, i64> = BTreeMap::new();
        let mut room = offer.room.to_vec();
        let mut waiting = order.iter().copied();
        let mut window: Vec<usize> = Vec::with_capacity(WINDOW);
        loop {
            let mut choice: Option<(i64, Reverse<usize>, i64)> = None;
            let mut closed = Vec::new();
            while window.len() < WINDOW {
                let Some(item) = waiting.next() else {
                    break;
                };
                if left.get(item).is_some_and(|left| *left > 0) {
                    window.push(item);
                }
            }
            work.spend(window.len())?;
            for item in &window {
                let available =
                    left.get(*item).copied().unwrap_or(0) - taken.get(item).copied().unwrap_or(0);
                let number = available
                    .min(self.hosting(*item, &hosted))
                    .min(copies(self.requests(*item), &room));
                if number <= 0 {
                    closed.push(*item);
                    continue;
                }
                let density = self.density(*item, &room);
                if choice.is_none_or(|best| (density, Reverse(*item)) > (best.0, best.1)) {
                    choice = Some((density, Reverse(*item), number));
                }
            }
            window.retain(|item| !closed.contains(item));
            let Some((_, Reverse(item), number)) = choice else {
                if window.is_empty() && waiting.len() == 0 {
                    break;
                }
                continue;
            };
            let number = (number + PORTION - 1) / PORTION;
            for (left, wanted) in room.iter_mut().zip(self.requests(item)) {
                *left -= wanted * number;
            }
            for rule in self
                .items
                .get(item)
                .into_iter()
                .flat_map(|item| item.rules.iter())
            {
                if rule.counts {
                    *hosted.entry(rule.group).or_default() += number;
                }
            }
            node.worth = node
                .worth
                .saturating_add(self.worth.get(item)?.saturating_mul(number));
            *taken.entry(item).or_default() += number;
        }
        node.items = taken.into_iter().collect();
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

/// How many times `wanted` fits.
fn copies(wanted: &[i64], room: &[i64]) -> i64 {
    let dimensions = wanted.iter().zip(room);
    let times = dimensions.map(|(wanted, room)| match wanted {
        0 if *room >= 0 => i64::MAX,
        1.. => room / wanted,
        _ => 0,
    });
    times.min().unwrap_or(0)
}
