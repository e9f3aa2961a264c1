//! What NodePools and reservations allow all launches together, whatever each of them becomes.

use std::collections::BTreeMap;

use model::{
    Action, Plan, Resources, labels,
    node_pool::NodePool,
    plan::Launch,
    requirement::{Requirement, Requirements},
    resources::{NODES, amount_text},
};

use crate::{
    Findings, Subject,
    world::{InFlight, World},
};

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Findings) {
    let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
    let mut reservations = Reservations::new(world);
    for (index, planned) in plan.actions.iter().enumerate() {
        let Action::Launch(launch) = &planned.action else {
            continue;
        };
        let subject = Subject::Action(index);
        if let Some(pool) = world.pools.get(launch.node_pool.as_str()) {
            let used = used
                .entry(pool.name.as_str())
                .or_insert_with(|| usage(world, pool));
            if let Some(trouble) = over_limit(world, pool, launch, used) {
                findings.add(subject, format!("NodeClaim {}: {trouble}", launch.name));
            }
        }
        if let Some(trouble) = reservations.take(launch) {
            findings.add(subject, format!("NodeClaim {}: {trouble}", launch.name));
        }
    }
}

/// What the pool's nodes amount to, those on their way included (PROTOCOL O3).
fn usage(world: &World<'_>, pool: &NodePool) -> Resources {
    let mut used = Resources::default();
    let one = Resources::from([(NODES, 1)]);
    let machines = world.machines.iter().filter(|machine| !machine.leaving);
    for machine in machines.filter(|machine| machine.node_pool() == Some(pool.name.as_str())) {
        used.add(&machine.capacity);
        used.add(&one);
    }
    for in_flight in world
        .in_flight
        .values()
        .filter(|in_flight| in_flight.counts_for(pool))
    {
        if let Some(intent) = in_flight.intent {
            used.add(&intent.launch.cheapest.capacity);
        } else if let Some(claim) = in_flight.claim {
            used.add(&claim.spec.requests);
        }
        used.add(&one);
    }
    used
}

impl InFlight<'_> {
    fn counts_for(&self, pool: &NodePool) -> bool {
        let is_of_pool = match (self.intent, self.claim) {
            (Some(intent), _) => intent.launch.node_pool == pool.name,
            (None, Some(claim)) => claim.labels.get(labels::NODE_POOL) == Some(&pool.name.0),
            (None, None) => false,
        };
        is_of_pool
            && self.claim.is_none_or(|claim| claim.deleted_at.is_none())
            && self.intent.is_none_or(|intent| intent.is_in_flight())
    }
}

/// Adds the launch to what is used, unless it may pass a limit.
fn over_limit(
    world: &World<'_>,
    pool: &NodePool,
    launch: &Launch,
    used: &mut Resources,
) -> Option<String> {
    let mut largest = Resources::from([(NODES, 1)]);
    let types = world.snapshot.instance_types.get(&pool.name);
    for instance_type in types.into_iter().flat_map(|types| types.iter()) {
        if launch.instance_types.contains(&instance_type.name) {
            largest.raise_to(&instance_type.capacity);
        }
    }
    for (name, limit) in pool.limits.iter() {
        let after = used.get(name).saturating_add(largest.get(name));
        if after > limit {
            return Some(format!(
                "NodePool {} is limited to {} {name}, and may come to {}",
                pool.name,
                amount_text(name, limit),
                amount_text(name, after)
            ));
        }
    }
    used.add(&largest);
    None
}

/// Instances left in each reservation. A launch that counts on one of several holds all of them (spec/scheduling §21).
struct Reservations<'a> {
    label: &'a str,
    left: BTreeMap<&'a str, u32>,
}

impl<'a> Reservations<'a> {
    fn new(world: &World<'a>) -> Self {
        let snapshot = world.snapshot;
        let mut left: BTreeMap<&str, u32> = BTreeMap::new();
        let types = snapshot
            .instance_types
            .values()
            .flat_map(|types| types.iter());
        for reservation in types
            .flat_map(|types| &types.offerings)
            .filter_map(|offering| offering.reservation.as_ref())
        {
            let least = left.entry(&reservation.id).or_insert(reservation.capacity);
            *least = (*least).min(reservation.capacity);
        }
        let mut reservations = Self {
            label: &snapshot.settings.reservation_id_label,
            left,
        };
        for intent in snapshot
            .intents
            .iter()
            .filter(|intent| intent.is_in_flight())
        {
            for id in reservations.held_by(&intent.launch) {
                if let Some(left) = reservations.left.get_mut(id.as_str()) {
                    *left = left.saturating_sub(1);
                }
            }
        }
        reservations
    }

    fn take(&mut self, launch: &Launch) -> Option<String> {
        let held = self.held_by(launch);
        let exhausted = held
            .iter()
            .find(|id| self.left.get(id.as_str()).is_none_or(|left| *left == 0));
        if let Some(id) = exhausted {
            return Some(format!(
                "it counts on reservation {id}, where no instance is left"
            ));
        }
        for id in held {
            if let Some(left) = self.left.get_mut(id.as_str()) {
                *left -= 1;
            }
        }
        None
    }

    fn held_by(&self, launch: &Launch) -> Vec<String> {
        let requirements = Requirements::from_selector(&launch.spec.requirements);
        let named = requirements
            .get(self.label)
            .filter(|named: &&Requirement| !named.complement);
        named
            .into_iter()
            .flat_map(|named| named.values.iter().cloned())
            .collect()
    }
}
