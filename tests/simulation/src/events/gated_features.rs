//! Static NodePools and capacity reservations.

use api::NodePool;
use fakes::{ReservedInstances, World};
use model::{
    CapacityType, NanosPerHour, Offering, catalog::Reservation, labels, requirement::Requirement,
    selector::Operator,
};

use super::node_pools::touch;
use crate::script::GatedFeatures;

/// NodePool with a fixed number of nodes.
const STATIC: &str = "static";
const RESERVATION: &str = "cr-1";
/// Instance type and zone of the reservation.
const RESERVED_TYPE: &str = "m5.large";
const RESERVED_ZONE: &str = "us-east-1a";

pub(super) fn set_up(world: &mut World, gated: &GatedFeatures) {
    let gates = serde_json::json!({
        "NodeRepair": gated.repairs,
        "StaticCapacity": gated.replicas.is_some(),
        "TerminateFirstDrift": gated.terminates_first,
        "TerminateFirstRepair": gated.terminates_first,
    });
    let mut entries = world.registry.iter_mut();
    let entry = entries.find(|entry| entry.cluster == world.cluster);
    let body = entry.and_then(|entry| entry.body.as_mut().ok());
    if let Some(body) = body.and_then(|body| body.as_object_mut()) {
        let settings = serde_json::json!({"featureGates": gates});
        body.insert("settings".to_owned(), settings);
    }
    if let Some(replicas) = gated.replicas {
        let mut pool = fakes::node_pool(STATIC, "Never");
        pool.spec.replicas = i64::try_from(replicas).ok();
        world.api.node_pools.insert(STATIC.to_owned(), pool);
    }
    if let Some(total) = gated.reserved {
        reserve(world, total);
    }
}

/// Creates a capacity reservation, and lets NodePools launch into it.
fn reserve(world: &mut World, total: u32) {
    let held = ReservedInstances {
        instance_type: RESERVED_TYPE.to_owned(),
        zone: RESERVED_ZONE.to_owned(),
        total,
    };
    world
        .account
        .reservations
        .insert(RESERVATION.to_owned(), held);
    let mut instance_types = world.catalog.iter_mut();
    if let Some(instance_type) =
        instance_types.find(|instance_type| instance_type.name == RESERVED_TYPE)
    {
        let mut offerings = instance_type.offerings.iter();
        let like = offerings.find(|offering| offering.zone == RESERVED_ZONE);
        let reserved = like.map(|like| Offering {
            capacity_type: CapacityType::Reserved,
            price: NanosPerHour(1),
            reservation: Some(Reservation {
                id: RESERVATION.to_owned(),
                capacity: total,
                is_full: false,
            }),
            ..like.clone()
        });
        instance_type.offerings.extend(reserved);
        let types = ["on-demand", "reserved", "spot"].map(str::to_owned);
        let types = Requirement::new(labels::CAPACITY_TYPE, Operator::In, types);
        let requirements = &mut instance_type.requirements.0;
        requirements.insert(labels::CAPACITY_TYPE.to_owned(), types);
    }
    for pool in world.api.node_pools.values_mut() {
        let requirements = &mut pool.spec.template.spec.requirements;
        let own = requirements.iter_mut();
        for types in own.filter(|own| own.key == labels::CAPACITY_TYPE) {
            types.values.push("reserved".to_owned());
        }
    }
}

/// Sets the number of nodes of static NodePools.
pub(super) fn scale(pool: &mut NodePool, count: usize) {
    if pool.spec.replicas.is_some() {
        pool.spec.replicas = i64::try_from(count).ok();
        touch(pool);
    }
}
