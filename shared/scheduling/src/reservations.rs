//! Capacity reservations: each new node holds one instance of every reservation that it may launch into
//! (docs/spec/scheduling.md#reservations).

use std::collections::BTreeMap;

use model::{CapacityType, InstanceType, snapshot::ReservedOfferingMode};

use crate::{
    algebra::{Algebra, SetId},
    bits::BitSet,
    catalog::{self, Catalog},
};

/// Remaining instances per reservation.
#[derive(Clone)]
pub(crate) struct Reservations<'a> {
    mode: Option<ReservedOfferingMode>,
    left: BTreeMap<&'a str, u32>,
}

/// Reservations that a claim may hold, or that it has to wait.
pub(crate) enum HoldDecision<'a> {
    Hold(Vec<&'a str>),
    Wait,
}

/// Remaining instances per reservation: the smallest number that any of its offerings states.
pub(crate) fn capacities<'a>(
    types: impl IntoIterator<Item = &'a InstanceType>,
) -> BTreeMap<&'a str, u32> {
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    let offerings = types
        .into_iter()
        .flat_map(|instance_type| &instance_type.offerings);
    for reservation in offerings.filter_map(|offering| offering.reservation.as_ref()) {
        let entry = left.entry(&reservation.id).or_insert(reservation.capacity);
        *entry = (*entry).min(reservation.capacity);
    }
    left
}

impl<'a> Reservations<'a> {
    pub(crate) fn new(
        mode: Option<ReservedOfferingMode>,
        capacities: &BTreeMap<&'a str, u32>,
    ) -> Self {
        Self {
            mode,
            left: mode.map(|_| capacities.clone()).unwrap_or_default(),
        }
    }

    pub(crate) fn are_counted(&self) -> bool {
        !self.left.is_empty()
    }

    /// Reservations that a node with these options may hold, given those that it holds already.
    pub(crate) fn offer(
        &self,
        set: SetId,
        rows: &BitSet,
        held: &[&'a str],
        catalog: &Catalog<'a>,
        algebra: &mut Algebra,
    ) -> HoldDecision<'a> {
        if self.left.is_empty() {
            return HoldDecision::Hold(Vec::new());
        }
        let mut compatible: Vec<&str> = Vec::new();
        for row in rows.iter() {
            let (Some(variant), Some(instance_type)) =
                (catalog.rows.get(row), catalog.instance_type(row))
            else {
                continue;
            };
            for offer in &variant.offers {
                if offer.capacity_type == CapacityType::Reserved
                    && catalog::compatible(algebra, set, offer.set)
                    && let Some(offering) = instance_type.offerings.get(offer.index)
                    && let Some(reservation) = &offering.reservation
                {
                    compatible.push(&reservation.id);
                }
            }
        }
        compatible.sort_unstable();
        compatible.dedup();
        let any = !compatible.is_empty();
        compatible.retain(|id| held.contains(id) || self.left.get(id).is_some_and(|n| *n > 0));
        let strict = self.mode == Some(ReservedOfferingMode::Strict);
        if strict && compatible.is_empty() && (any || !held.is_empty()) {
            HoldDecision::Wait
        } else {
            HoldDecision::Hold(compatible)
        }
    }

    /// Replaces the reservations that a node holds.
    pub(crate) fn hold(&mut self, before: &[&'a str], held: &[&'a str]) {
        for id in held.iter().filter(|id| !before.contains(id)) {
            if let Some(left) = self.left.get_mut(id) {
                *left = left.saturating_sub(1);
            }
        }
        for id in before.iter().filter(|id| !held.contains(id)) {
            if let Some(left) = self.left.get_mut(id) {
                *left += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
