//! Fills an offer with remaining pods, always with the item of the highest value for the remaining capacity.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{OfferDraft, PackedNode, Pricing, WorkBudget};
use crate::{amounts, repack::offers::PurchaseOption, topology::GroupId};

/// Items compared at a time while a node is filled. Further items wait until one of these is used up or no longer fits.
const WINDOW: usize = 48;
/// Only this fraction (1/2) of the pods that fit is added before items are compared again.
const PORTION: i64 = 2;

impl Pricing<'_, '_> {
    /// Fills an offer with remaining pods, and prices it as the cheapest offer that holds as much.
    pub(super) fn draft(
        &self,
        offer: &PurchaseOption,
        draft: &mut OfferDraft,
        left: &[i64],
        work: &mut WorkBudget,
    ) -> Option<()> {
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
        let holds = |offer: &&PurchaseOption| {
            amounts::fits(&total, &offer.room)
                && node.items.iter().all(|(item, _)| self.usable(*item, offer))
        };
        let cheapest = self.offers.all.iter().find(holds);
        node.price = cheapest.unwrap_or(offer).price;
        draft.value_bound = self.value(node.worth, node.price);
        draft.node = node;
        Some(())
    }

    /// Items that fit an offer, in descending order of density.
    fn order(&self, offer: &PurchaseOption, work: &mut WorkBudget) -> Option<Vec<usize>> {
        work.spend(self.items.len())?;
        let fitting = (0..self.items.len()).filter(|item| {
            self.usable(*item, offer) && amounts::copies(self.requests(*item), &offer.room) > 0
        });
        let mut order: Vec<usize> = fitting.collect();
        order.sort_by_cached_key(|item| (Reverse(self.density(*item, &offer.room)), *item));
        Some(order)
    }

    /// Worth of `room` if it is filled with this item alone.
    pub(super) fn density(&self, item: usize, room: &[i64]) -> i64 {
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

    /// Node filled greedily with remaining pods, always with the item of the highest density for the remaining capacity.
    fn filled(
        &self,
        offer: &PurchaseOption,
        order: &[usize],
        left: &[i64],
        work: &mut WorkBudget,
    ) -> Option<PackedNode> {
        let mut node = PackedNode::default();
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
                    && self.admitted_by_host_rules(item, &hosted) > 0;
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
                .min(self.admitted_by_host_rules(*item, &hosted))
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

    /// Number of further pods of an item that host rules admit.
    pub(super) fn admitted_by_host_rules(
        &self,
        item: usize,
        hosted: &BTreeMap<GroupId, i64>,
    ) -> i64 {
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
}
