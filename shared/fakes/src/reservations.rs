//! Capacity reservations of the account: each holds instances of one type in one zone.

use std::collections::BTreeMap;

use model::{
    CapacityType,
    launch::{FleetOverride, InstanceState},
};

use crate::account::Account;

/// A capacity reservation, whether or not instances run in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedInstances {
    pub instance_type: String,
    pub zone: String,
    /// Instances that the reservation holds.
    pub total: u32,
}

impl Account {
    /// Free instances of each reservation. Instances that are shutting down occupy their place until they are terminated.
    pub fn free_reserved(&self) -> BTreeMap<String, u32> {
        let reservations = self.reservations.iter();
        reservations
            .map(|(id, own)| {
                let instances = self.instances.values();
                let running = instances.filter(|instance| {
                    instance.reservation.as_ref() == Some(id)
                        && instance.state != InstanceState::Terminated
                });
                let running = u32::try_from(running.count()).unwrap_or(u32::MAX);
                (id.clone(), own.total.saturating_sub(running))
            })
            .collect()
    }

    /// The reservation that a reserved launch uses.
    pub(crate) fn reservation_for(&self, of: CapacityType, choice: &FleetOverride) -> Option<&str> {
        let mut reservations = self.reservations.iter();
        let own = reservations
            .find(|(_, own)| own.instance_type == choice.instance_type && own.zone == choice.zone);
        own.filter(|_| of == CapacityType::Reserved)
            .map(|(id, _)| id.as_str())
    }

    /// Returns whether the reservation of a launch is fully used.
    pub(crate) fn is_spent(&self, of: CapacityType, choice: &FleetOverride) -> bool {
        let own = self.reservation_for(of, choice);
        own.is_some_and(|id| self.free_reserved().get(id) == Some(&0))
    }
}
