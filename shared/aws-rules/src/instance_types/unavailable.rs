//! Offerings that EC2 had no capacity for, taken out of what can be launched (spec/aws §15).

use std::collections::{BTreeMap, BTreeSet};

use api::karpenter::EC2NodeClass;
use model::{
    CapacityType, InstanceType,
    ledger::{OfferingKey, UnavailableOffering},
};

/// What is known to be unavailable now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unavailable {
    pub offerings: BTreeSet<OfferingKey>,
    pub capacity_types: BTreeSet<CapacityType>,
    /// Subnets without free addresses.
    pub subnets: BTreeSet<String>,
    /// Reservation → instances left in it.
    pub reservations: BTreeMap<String, u32>,
}

impl Unavailable {
    /// From the ledger's memory, entries that have lapsed left out already.
    pub fn new(offerings: &[UnavailableOffering]) -> Self {
        Self {
            offerings: offerings
                .iter()
                .map(|marked| marked.offering.clone())
                .collect(),
            ..Self::default()
        }
    }

    /// Marks what cannot be had; a zone goes only when every subnet that the NodeClass has there is full.
    pub fn mark(&self, types: &mut [InstanceType], class: &EC2NodeClass) {
        let status = class.status.as_ref();
        let subnets = status.and_then(|status| status.subnets.as_deref());
        let mut full: BTreeMap<&str, bool> = BTreeMap::new();
        for subnet in subnets.unwrap_or_default() {
            let is_full = self.subnets.contains(&subnet.id);
            let zone = full.entry(&subnet.zone).or_insert(true);
            *zone = *zone && is_full;
        }
        for instance_type in types {
            for offering in &mut instance_type.offerings {
                if let Some(reservation) = &mut offering.reservation {
                    let left = self.reservations.get(&reservation.id).copied();
                    reservation.capacity = left.unwrap_or(0);
                    offering.available &= reservation.capacity > 0;
                    continue;
                }
                let key = OfferingKey {
                    capacity_type: offering.capacity_type,
                    instance_type: instance_type.name.clone(),
                    zone_id: offering.zone_id.clone(),
                    scope: None,
                };
                let is_full = full.get(offering.zone.as_str()).copied().unwrap_or(false);
                offering.available &= !is_full
                    && !self.capacity_types.contains(&offering.capacity_type)
                    && !self.offerings.contains(&key);
            }
        }
    }
}
