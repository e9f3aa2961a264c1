//! Prices of nodes.

use std::collections::BTreeMap;

use model::{CapacityType, NanosPerHour, Snapshot, Surcharge};

use crate::decision::dollars;

pub(super) struct Prices<'a> {
    /// Offerings of the NodePools' instance types, by type, zone and capacity type.
    instances: BTreeMap<(&'a str, &'a str, CapacityType), NanosPerHour>,
    /// Surcharges of each node, by NodePool.
    surcharges: BTreeMap<&'a str, Surcharge>,
}

/// Dollars per hour.
pub(super) struct NodePrice {
    pub(super) total: f64,
    /// The instance, its volumes, and the node itself.
    pub(super) parts: [f64; 3],
    /// The total with an on-demand instance.
    pub(super) list: Option<f64>,
}

impl<'a> Prices<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let types = snapshot.instance_types.values().flat_map(|types| &**types);
        let offerings = types.flat_map(|instance_type| {
            let offerings = instance_type.offerings.iter();
            let offerings = offerings.filter(|offering| offering.reservation.is_none());
            offerings.map(|offering| {
                let key = (
                    instance_type.name.as_str(),
                    offering.zone.as_str(),
                    offering.capacity_type,
                );
                (key, offering.price)
            })
        });
        let pools = snapshot.node_pools.iter();
        let surcharges = pools.map(|pool| (pool.name.as_str(), snapshot.surcharge(pool)));
        Self {
            instances: offerings.collect(),
            surcharges: surcharges.collect(),
        }
    }

    pub(super) fn price(
        &self,
        pool: &str,
        instance_type: &str,
        zone: &str,
        capacity_type: &str,
    ) -> Option<NodePrice> {
        let capacity_type = capacity_type.parse::<CapacityType>().ok()?;
        let instance = |capacity_type| self.instances.get(&(instance_type, zone, capacity_type));
        let price = *instance(capacity_type)?;
        let surcharge = self.surcharges.get(pool).copied().unwrap_or_default();
        let list = instance(CapacityType::OnDemand);
        Some(NodePrice {
            total: dollars(price.plus(surcharge.total())),
            parts: [price, surcharge.volumes, surcharge.node].map(dollars),
            list: list.map(|list| dollars(list.plus(surcharge.total()))),
        })
    }
}
