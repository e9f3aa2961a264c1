//! Capacity of NodePools: only those that can have one more node have to serve pods.

use api::{NodePool, names::label};
use fakes::{Protected, World};
use jiff::SignedDuration;
use model::{
    CapacityType, NodePoolName, labels,
    ledger::{Intent, OfferingKey},
    node::Node,
    node_claim::NodeClaim,
    pod::Pod,
    quantity::Quantity,
};

use super::Laws;
use crate::rows;

/// Millicores of the catalog's largest type, which a launch under way may use.
const LARGEST: i64 = 8_000;

impl Laws {
    pub(super) fn watch_room(&mut self, world: &World) {
        for (name, pool) in &world.api.node_pools {
            if !has_room(world, pool) || is_frozen(world, pool) {
                self.full_at.insert(name.as_str().into(), world.now);
            }
        }
    }

    /// Returns whether a NodePool that the pod may use could have had one more node during all of this time.
    pub(super) fn could_serve(&self, world: &World, pod: &Pod, time: SignedDuration) -> bool {
        let selected = pod.node_selector.get(label::NODE_POOL);
        let mut pools = world.api.node_pools.iter();
        pools.any(|(name, pool)| {
            let is_open = pool.spec.template.spec.taints.is_none();
            let full = self.full_at.get(&NodePoolName::from(name.as_str()));
            pool.spec.replicas.is_none()
                && selected.map_or(is_open, |selected| selected == name)
                && full.is_none_or(|at| world.now.duration_since(*at) > time)
        })
    }
}

/// Returns whether a status that the NodePool needs may be outdated, because admission rejects its change.
fn is_frozen(world: &World, pool: &NodePool) -> bool {
    let name = NodePoolName::from(pool.metadata.name.as_str());
    let class = pool.spec.template.spec.node_class_ref.name.clone();
    let needed = [Protected::NodePool(name), Protected::NodeClass(class)];
    let protected = &world.api.protected;
    needed.iter().any(|object| protected.contains_key(object))
}

/// Returns whether an instance type within the NodePool's limit is available, and not marked as unavailable.
fn has_room(world: &World, pool: &NodePool) -> bool {
    let limit = pool
        .spec
        .limits
        .as_ref()
        .and_then(|limits| limits.get("cpu"));
    let limit = limit.and_then(|cores| cores.as_str().parse::<Quantity>().ok());
    let left = limit.map_or(i64::MAX, |limit| {
        limit.milli() - used(world, &pool.metadata.name)
    });
    let capacity_types = || capacity_types(pool);
    world.catalog.iter().any(|instance_type| {
        let offerings = instance_type.offerings.iter();
        instance_type.capacity.get("cpu") <= left
            && offerings
                .filter(|offering| offering.reservation.is_none())
                .filter(|offering| capacity_types().any(|of| of == offering.capacity_type.as_str()))
                .any(|offering| {
                    let name = &instance_type.name;
                    let (of, zone) = (offering.capacity_type, &offering.zone);
                    !world
                        .account
                        .no_capacity
                        .contains(&(of, name.clone(), zone.clone()))
                        && !is_marked(world, of, name, &offering.zone_id)
                })
    })
}

fn capacity_types(pool: &NodePool) -> impl Iterator<Item = &String> {
    let requirements = pool.spec.template.spec.requirements.iter();
    requirements
        .filter(|requirement| requirement.key == labels::CAPACITY_TYPE)
        .flat_map(|requirement| &requirement.values)
}

fn is_marked(world: &World, of: CapacityType, name: &str, zone_id: &str) -> bool {
    let is_same = |key: &OfferingKey| {
        key.capacity_type == of && key.instance_type == name && key.zone_id == zone_id
    };
    let mut marked = world.ledger.unavailable.iter();
    marked.any(|(key, mark)| is_same(key) && world.now < mark.until)
}

/// Millicores that a NodePool uses, including launches under way.
fn used(world: &World, pool: &str) -> i64 {
    let is_of = |name: &NodePoolName| name.as_str() == pool;
    let intents = rows(world)
        .into_iter()
        .flat_map(|rows| rows.intents.values());
    let in_flight = intents.filter(|intent: &&Intent| {
        intent.is_in_flight()
            && is_of(&intent.launch.node_pool)
            && !world.api.node_claims.contains_key(intent.name())
    });
    let claims = world.api.node_claims.values();
    let own =
        claims.filter(|claim: &&NodeClaim| claim.node_pool().is_some_and(|name| is_of(&name)));
    let each = own.map(|claim| match claim.status.capacity.get("cpu") {
        0 => LARGEST,
        cpu => cpu,
    });
    // A node without a NodeClaim counts until its instance is collected, also if a user removed the NodeClaim by force.
    let is_orphan = |node: &&Node| {
        let mut claims = world.api.node_claims.values();
        let of = node.labels.get(labels::NODE_POOL);
        of.is_some_and(|of| of == pool)
            && !claims.any(|claim| claim.status.provider_id == node.provider_id)
    };
    let orphans = world.api.nodes.values().filter(is_orphan);
    let orphans = orphans.map(|node| node.capacity.get("cpu"));
    each.chain(in_flight.map(|_| LARGEST)).chain(orphans).sum()
}
