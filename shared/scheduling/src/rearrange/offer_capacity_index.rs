//! Launch options indexed by capacity: finds the cheapest one that holds given amounts without comparing each.

use super::offers::LaunchOption;
use crate::bits::BitSet;

/// Bit sets of offers by capacity.
pub(super) struct OfferCapacityIndex {
    /// Per resource, the distinct capacities in ascending order, each with the offers that have at least that much.
    by_resource: Vec<Vec<(i64, BitSet)>>,
}

/// Number of resources with an index. Most clusters request fewer; the amounts of further resources are compared offer by
/// offer.
const INDEXED_RESOURCES: usize = 8;

impl OfferCapacityIndex {
    pub(super) fn of(offers: &[LaunchOption], resources: usize) -> Self {
        let by_resource = (0..resources).map(|resource| {
            let amount = |offer: &LaunchOption| offer.room.get(resource).copied().unwrap_or(0);
            let mut amounts: Vec<i64> = offers.iter().map(amount).collect();
            amounts.sort_unstable();
            amounts.dedup();
            let sets = amounts.into_iter().map(|least| {
                let mut set = BitSet::none(offers.len());
                for (at, offer) in offers.iter().enumerate() {
                    if amount(offer) >= least {
                        set.insert(at);
                    }
                }
                (least, set)
            });
            sets.collect()
        });
        Self {
            by_resource: by_resource.collect(),
        }
    }

    /// First offer in all of these sets, from index `from` on, that holds these amounts.
    pub(super) fn first(
        &self,
        offers: &[LaunchOption],
        [first, others @ ..]: [&BitSet; 4],
        from: usize,
        amounts: impl Iterator<Item = i64> + Clone,
    ) -> Option<usize> {
        let mut sets = [first; INDEXED_RESOURCES + 3];
        let (given, indexed) = sets.split_at_mut(others.len());
        given.copy_from_slice(&others);
        for ((set, resource), amount) in indexed
            .iter_mut()
            .zip(&self.by_resource)
            .zip(amounts.clone())
        {
            let at = resource.partition_point(|(least, _)| *least < amount);
            *set = &resource.get(at)?.1;
        }
        let mut from = from;
        loop {
            let at = first.first_in_all(&sets, from)?;
            let room = offers.get(at).map_or(&[][..], |offer| &offer.room);
            let mut unindexed = room.iter().zip(amounts.clone()).skip(INDEXED_RESOURCES);
            if unindexed.all(|(room, amount)| amount <= *room) {
                return Some(at);
            }
            from = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(room: &[i64]) -> LaunchOption {
        LaunchOption {
            price: 0,
            room: room.into(),
            pool: 0,
            instance_type: String::new(),
            is_spot: false,
            domains: Vec::new(),
            met: 0,
        }
    }

    #[test]
    fn first_offer_that_fits_is_found_for_any_number_of_resources() {
        for resources in [
            1,
            INDEXED_RESOURCES,
            INDEXED_RESOURCES + 1,
            INDEXED_RESOURCES + 3,
        ] {
            let room = |last: i64| [vec![9; resources - 1], vec![last]].concat();
            let offers = [1, 2, 4].map(|last| offer(&room(last)));
            let capacity_index = OfferCapacityIndex::of(&offers, resources);
            let all = BitSet::all(offers.len());
            let first = |from, last| {
                let amounts = room(last).into_iter();
                capacity_index.first(&offers, [&all; 4], from, amounts)
            };
            let found =
                [(0, 1), (0, 2), (0, 3), (1, 1), (0, 5)].map(|(from, last)| first(from, last));
            assert_eq!(
                found,
                [Some(0), Some(1), Some(2), Some(1), None],
                "{resources}"
            );
        }
    }
}
