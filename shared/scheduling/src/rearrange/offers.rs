//! Launch options with their prices. Options that another one dominates are left out.

use std::collections::BTreeMap;

use model::CapacityType;

use super::{RemovableNode, cluster_model::NO_INDEX, rules::TopologyCounts};
use crate::{
    algebra::{SetId, Undefined},
    amounts,
    bits::BitSet,
    catalog,
    placement_context::PlacementContext,
};

/// Way to launch a node: an instance type in a zone and capacity type, for a NodePool.
pub(super) struct LaunchOption {
    pub(super) price: i64,
    pub(super) room: Box<[i64]>,
    pub(super) pool: usize,
    pub(super) instance_type: String,
    pub(super) is_spot: bool,
    /// Per topology key, the index of the domain.
    pub(super) domains: Vec<usize>,
    /// Requirement sets of the NodePool that the option meets, as a bit set.
    pub(super) met: u128,
}

/// Launch options of all NodePools.
pub(super) struct LaunchOptions {
    /// Cheapest first.
    pub(super) all: Vec<LaunchOption>,
    /// Per NodePool, the distinct requirement sets that its nodes get from pods.
    sets: Vec<Vec<SetId>>,
}

/// Number of requirement sets per NodePool that are distinguished, one bit each. Pods with further sets get no new node.
const SETS_MAX: usize = 128;

impl LaunchOptions {
    pub(super) fn new(
        sets: &[Vec<SetId>],
        counted: &mut TopologyCounts,
        context: &mut PlacementContext<'_>,
    ) -> Self {
        let mut all = Vec::new();
        for (pool, sets) in sets.iter().enumerate() {
            let sets = sets.get(..SETS_MAX.min(sets.len())).unwrap_or_default();
            all.extend(undominated(of_pool(pool, sets, counted, context)));
        }
        all.sort_by(|a, b| (a.price, a.pool, &a.room).cmp(&(b.price, b.pool, &b.room)));
        Self {
            all,
            sets: sets.to_vec(),
        }
    }

    /// Offers of a NodePool that meet a requirement set.
    pub(super) fn open_to(&self, pool: usize, set: SetId) -> BitSet {
        let known = self.sets.get(pool).into_iter().flatten();
        let at = known.take(SETS_MAX).position(|known| *known == set);
        let bit = at.map_or(0, |at| 1u128 << at);
        let mut open = BitSet::none(self.all.len());
        for (at, offer) in self.all.iter().enumerate() {
            if offer.pool == pool && offer.met & bit != 0 {
                open.insert(at);
            }
        }
        open
    }

    pub(super) fn spot(&self) -> BitSet {
        self.offers_where(|offer| offer.is_spot)
    }

    /// Offers of the node's own instance type at the same or a higher price.
    pub(super) fn of_own_type(&self, node: &RemovableNode) -> BitSet {
        self.offers_where(|offer| {
            offer.instance_type == node.instance_type && offer.price >= node.price.0
        })
    }

    fn offers_where(&self, matches: impl Fn(&LaunchOption) -> bool) -> BitSet {
        let mut found = BitSet::none(self.all.len());
        let all = self.all.iter().enumerate();
        for (at, _) in all.filter(|(_, offer)| matches(offer)) {
            found.insert(at);
        }
        found
    }

    /// Per topology key and domain, the offers in that domain.
    pub(super) fn by_domain(&self, counted: &TopologyCounts) -> Vec<Vec<BitSet>> {
        let keys = counted.keys.iter().enumerate();
        let tables = keys.map(|(key, (_, domains))| {
            let mut table = vec![BitSet::none(self.all.len()); domains.len()];
            for (at, offer) in self.all.iter().enumerate() {
                let domain = offer.domains.get(key).copied().unwrap_or(NO_INDEX);
                if let Some(bits) = table.get_mut(domain) {
                    bits.insert(at);
                }
            }
            table
        });
        tables.collect()
    }
}

fn of_pool(
    pool: usize,
    sets: &[SetId],
    counted: &mut TopologyCounts,
    context: &mut PlacementContext<'_>,
) -> Vec<LaunchOption> {
    let PlacementContext {
        templates,
        catalogs,
        algebra,
        ..
    } = context;
    let Some(node_template) = templates.get(pool) else {
        return Vec::new();
    };
    let Some(catalog) = catalogs.get_mut(node_template.catalog) else {
        return Vec::new();
    };
    let mut rows = node_template.base.clone();
    node_template.limits.keep_within(&mut rows);
    // Per row and requirement set of an offering, the NodePool's requirement sets that it meets.
    let mut met: BTreeMap<(usize, SetId), u128> = BTreeMap::new();
    for (at, set) in sets.iter().enumerate() {
        let matching = catalog.matching(*set, algebra);
        let mut usable = catalog.memoized(matching).clone();
        usable.and(&rows);
        for row in usable.iter() {
            let offers = catalog.rows.get(row).map(|row| &row.offers);
            for offer in offers.into_iter().flatten() {
                if catalog::compatible(algebra, *set, offer.set) {
                    *met.entry((row, offer.set)).or_default() |= 1 << at;
                }
            }
        }
    }
    let mut found = Vec::new();
    for row in rows.iter() {
        let row_of = catalog.rows.get(row);
        let instance_type = row_of.and_then(|row| catalog.types.get(row.instance_type));
        let Some(instance_type) = instance_type else {
            continue;
        };
        for offer in row_of.into_iter().flat_map(|row| &row.offers) {
            // The model does not count reservations.
            let met = met.get(&(row, offer.set)).copied();
            let room = node_template.left.get(row).cloned().flatten();
            let (Some(met), Some(room)) = (met, room) else {
                continue;
            };
            if offer.capacity_type == CapacityType::Reserved {
                continue;
            }
            let joint = algebra.narrow(node_template.set, offer.set, Undefined::WellKnown);
            let domains = (0..counted.keys.len()).map(|key| {
                let value = counted.keys.get(key).and_then(|(symbol, _)| {
                    let req = algebra.values(joint?, *symbol)?;
                    let [one] = *req.values else { return None };
                    Some(one)
                });
                let at = value.and_then(|value| counted.domain(key, value));
                at.unwrap_or(NO_INDEX)
            });
            found.push(LaunchOption {
                price: offer.price.0,
                room,
                pool,
                instance_type: instance_type.name.clone(),
                is_spot: offer.capacity_type == CapacityType::Spot,
                domains: domains.collect(),
                met,
            });
        }
    }
    found
}

/// Drops the options of one NodePool that a cheaper one dominates.
fn undominated(mut offers: Vec<LaunchOption>) -> Vec<LaunchOption> {
    offers.sort_by(|a, b| {
        let order = (a.price, &b.room, b.met).cmp(&(b.price, &a.room, a.met));
        order.then_with(|| a.domains.cmp(&b.domains))
    });
    let mut kept: Vec<LaunchOption> = Vec::new();
    for offer in offers {
        let beaten = kept.iter().any(|known| {
            known.met | offer.met == known.met
                && known.domains == offer.domains
                && (known.is_spot == offer.is_spot || !known.is_spot)
                && amounts::fits(&offer.room, &known.room)
        });
        if !beaten {
            kept.push(offer);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(price: i64, room: i64) -> LaunchOption {
        LaunchOption {
            price,
            room: [room].into(),
            pool: 0,
            instance_type: String::new(),
            is_spot: false,
            domains: vec![0],
            met: 0b11,
        }
    }

    /// Whether the more expensive option is kept beside the cheaper one.
    fn stays(cheaper: LaunchOption, dearer: LaunchOption) -> bool {
        undominated(vec![dearer, cheaper]).len() == 2
    }

    #[test]
    fn dearer_option_without_more_capacity_is_dominated() {
        assert!(!stays(offer(1, 8), offer(2, 8)));
        assert!(!stays(offer(1, 8), offer(1, 7)));
        assert!(stays(offer(1, 8), offer(2, 9)));
    }

    #[test]
    fn option_that_meets_more_requirements_is_kept() {
        let meeting = |price, met| LaunchOption {
            met,
            ..offer(price, 8)
        };
        assert!(stays(meeting(1, 0b01), meeting(2, 0b11)));
        assert!(stays(meeting(1, 0b01), meeting(2, 0b10)));
        assert!(!stays(meeting(1, 0b11), meeting(2, 0b10)));
    }

    #[test]
    fn option_in_another_domain_is_kept() {
        let elsewhere = LaunchOption {
            domains: vec![1],
            ..offer(2, 8)
        };
        assert!(stays(offer(1, 8), elsewhere));
    }

    /// Spot-to-spot replacement may be disabled, so on-demand options are kept beside cheaper spot ones.
    #[test]
    fn on_demand_option_dominates_spot_but_spot_does_not_dominate_on_demand() {
        let spot = |price| LaunchOption {
            is_spot: true,
            ..offer(price, 8)
        };
        assert!(stays(spot(1), offer(2, 8)));
        assert!(!stays(offer(1, 8), spot(2)));
        assert!(!stays(spot(1), spot(2)));
    }
}
