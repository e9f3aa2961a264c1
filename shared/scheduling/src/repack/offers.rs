//! Purchase options for at least one item, with prices. Options that another one dominates are left out.

use std::collections::BTreeMap;

use crate::{
    algebra::{SetId, Undefined},
    amounts, catalog,
    placement_context::PlacementContext,
    repack::{
        items::{Item, MovablePods},
        unpriced_overhead,
    },
};

/// Purchase options of one NodePool.
pub(crate) struct PurchaseOptions {
    /// Cheapest first.
    pub(crate) all: Vec<PurchaseOption>,
    /// Per item, its bit among the kinds.
    pub(crate) kinds: Vec<u128>,
    /// Upper bound on the number of nodes.
    pub(crate) nodes_max: i64,
}

/// Way to launch a node, with its price and capacity.
pub(crate) struct PurchaseOption {
    /// Nano-dollars per hour, including the overhead per node.
    pub(crate) price: i64,
    /// Per resource, the capacity; as last entry, the number of EBS volumes that can be attached.
    pub(crate) room: Box<[i64]>,
    /// Kinds of items that may use the option, as a bit set.
    pub(crate) kinds: u128,
}

/// Upper bound on distinct requirement sets of the items of one NodePool, one bit each. Clusters have a handful.
const KINDS_MAX: usize = 128;

impl PurchaseOptions {
    /// `None` if the items have too many distinct requirement sets.
    pub(crate) fn new(
        movable: &MovablePods<'_>,
        template: usize,
        context: &mut PlacementContext<'_>,
    ) -> Option<Self> {
        let overhead = unpriced_overhead(context, template);
        let PlacementContext {
            templates,
            catalogs,
            algebra,
            ..
        } = context;
        let node_template = templates.get(template)?;
        let catalog = catalogs.get_mut(node_template.catalog)?;
        let mut rows = node_template.base.clone();
        node_template.limits.keep_within(&mut rows);
        let nodes_max = node_template.limits.nodes_left().unwrap_or(i64::MAX);
        let mut sets: Vec<SetId> = movable
            .items
            .iter()
            .map(|item| item.requirements())
            .collect();
        sets.sort_unstable();
        sets.dedup();
        if sets.len() > KINDS_MAX {
            return None;
        }
        let bit = |set: SetId| sets.binary_search(&set).map_or(0, |at| 1u128 << at);
        let kinds = movable.items.iter().map(|item| bit(item.requirements()));
        let kinds: Vec<u128> = kinds.collect();
        // Per row and set of kinds, the price of the cheapest offering.
        let mut prices: BTreeMap<(usize, u128), i64> = BTreeMap::new();
        let mut open: BTreeMap<(usize, SetId), u128> = BTreeMap::new();
        for set in &sets {
            let Some(joint) = algebra.narrow(node_template.set, *set, Undefined::WellKnown) else {
                continue;
            };
            let matching = catalog.matching(joint, algebra);
            let mut usable = catalog.memoized(matching).clone();
            usable.and(&rows);
            for row in usable.iter() {
                for offer in catalog
                    .rows
                    .get(row)
                    .into_iter()
                    .flat_map(|row| &row.offers)
                {
                    if catalog::compatible(algebra, joint, offer.set) {
                        *open.entry((row, offer.set)).or_default() |= bit(*set);
                    }
                }
            }
        }
        for row in rows.iter() {
            for offer in catalog
                .rows
                .get(row)
                .into_iter()
                .flat_map(|row| &row.offers)
            {
                if let Some(kinds) = open.get(&(row, offer.set)) {
                    let price = prices.entry((row, *kinds)).or_insert(i64::MAX);
                    *price = (*price).min(offer.price.0);
                }
            }
        }
        // A type without an attach limit attaches all volumes there are.
        let volumes = movable.items.iter().map(Item::volumes).sum::<i64>();
        let offers = prices.into_iter().filter_map(|((row, kinds), price)| {
            let left = node_template.left.get(row)?.as_deref()?;
            let attaches = catalog.attach_limit(row).map_or(volumes, i64::from);
            Some(PurchaseOption {
                price: price.saturating_add(overhead),
                room: left
                    .iter()
                    .copied()
                    .chain([attaches.min(volumes)])
                    .collect(),
                kinds,
            })
        });
        Some(Self {
            all: undominated(offers.collect()),
            kinds,
            nodes_max,
        })
    }
}

fn undominated(mut offers: Vec<PurchaseOption>) -> Vec<PurchaseOption> {
    offers.sort_by(|a, b| (a.price, &b.room, b.kinds).cmp(&(b.price, &a.room, a.kinds)));
    let mut kept: Vec<PurchaseOption> = Vec::new();
    for offer in offers {
        let beaten = kept.iter().any(|known| {
            known.kinds | offer.kinds == known.kinds && amounts::fits(&offer.room, &known.room)
        });
        if !beaten {
            kept.push(offer);
        }
    }
    kept
}
