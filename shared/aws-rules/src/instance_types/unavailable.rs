//! Offerings that EC2 had no capacity for, marked as unavailable (docs/spec/aws.md#unavailable-offerings).

use std::collections::{BTreeMap, BTreeSet};

use api::{karpenter::EC2NodeClass, names::label};
use model::{CapacityType, Experience, InstanceType, ledger::OfferingKey};

use crate::{
    launch::LaunchObservations,
    placement::{partition, partition_scope},
};

/// Offerings, subnets, zones and reservations that are known to be unavailable now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unavailable {
    pub offerings: BTreeSet<OfferingKey>,
    pub capacity_types: BTreeSet<CapacityType>,
    /// Subnets without free addresses.
    pub subnets: BTreeSet<String>,
    /// Zones that traffic has been shifted away from.
    pub zone_ids: BTreeSet<String>,
    /// Reservation → number of instances left in it.
    pub reservations: BTreeMap<String, u32>,
}

impl Unavailable {
    /// Creates the set from the unexpired entries of the account-wide memory.
    pub fn new(experience: &Experience) -> Self {
        let offerings = experience.unavailable.iter();
        let subnets = experience.full_subnets.iter();
        Self {
            offerings: offerings.map(|marked| marked.offering.clone()).collect(),
            subnets: subnets.map(|full| full.subnet.clone()).collect(),
            zone_ids: experience.shifted_zones.clone(),
            ..Self::default()
        }
    }

    /// Adds the failures of a launch.
    pub fn add_observations(&mut self, observations: LaunchObservations) {
        self.offerings.extend(observations.offerings);
        self.subnets.extend(observations.full_subnets);
        if observations.no_spot_role {
            self.capacity_types.insert(CapacityType::Spot);
        }
        for (reservation, instances) in observations.reserved {
            let left = self.reservations.entry(reservation).or_default();
            *left = left.saturating_sub(instances);
        }
        for reservation in observations.exhausted_reservations {
            self.reservations.insert(reservation, 0);
        }
    }

    /// Marks unavailable offerings. A zone is marked only when every subnet that the NodeClass has in it is full.
    pub fn mark_unavailable(&self, types: &mut [InstanceType], class: &EC2NodeClass) {
        let status = class.status.as_ref();
        let subnets = status.and_then(|status| status.subnets.as_deref());
        let mut full: BTreeMap<&str, bool> = BTreeMap::new();
        for subnet in subnets.unwrap_or_default() {
            let is_full = self.subnets.contains(&subnet.id);
            let zone = full.entry(&subnet.zone).or_insert(true);
            *zone = *zone && is_full;
        }
        for instance_type in types {
            let group = instance_type.requirements.get(label::PLACEMENT_GROUP_ID);
            let group = group.and_then(|group| group.values.first()).cloned();
            for offering in &mut instance_type.offerings {
                let is_shifted = self.zone_ids.contains(&offering.zone_id);
                offering.available &= !is_shifted;
                offering.unpriced &= !is_shifted;
                let mut key = OfferingKey {
                    capacity_type: offering.capacity_type,
                    instance_type: instance_type.name.clone(),
                    zone_id: offering.zone_id.clone(),
                    scope: None,
                };
                if let Some(reservation) = &mut offering.reservation {
                    let left = self.reservations.get(&reservation.id).copied();
                    reservation.capacity = left.unwrap_or(0);
                    key.scope = Some(reservation.id.clone());
                    let is_spent = self.offerings.contains(&key);
                    let is_open = offering.available || reservation.is_full;
                    reservation.is_full = is_open && reservation.capacity == 0 && !is_spent;
                    offering.available &= reservation.capacity > 0 && !is_spent;
                    continue;
                }
                let partition = partition(&offering.requirements);
                let in_partition = |group: &String| Some(partition_scope(group, partition?));
                let scopes = [None, group.clone(), group.as_ref().and_then(in_partition)];
                let is_marked = scopes.into_iter().any(|scope| {
                    key.scope = scope;
                    self.offerings.contains(&key)
                });
                let is_full = full.get(offering.zone.as_str()).copied().unwrap_or(false);
                let is_out =
                    is_full || self.capacity_types.contains(&offering.capacity_type) || is_marked;
                offering.available &= !is_out;
                offering.unpriced &= !is_out;
            }
        }
    }
}
