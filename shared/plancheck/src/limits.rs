//! Limits of NodePools and reservations for all launches together, regardless of the instance type of each.

use std::collections::BTreeMap;

use model::{
    Action, InstanceType, Plan, Resources, labels,
    node_pool::NodePool,
    plan::Launch,
    resources::{NODES, amount_text},
    selector::Operator,
};

use crate::{
    Findings, Subject,
    open_node::OpenNode,
    place::{Place, Placements},
    world::{InFlight, World},
};

pub(crate) fn check<'a>(
    world: &World<'a>,
    plan: &Plan,
    placements: &Placements<'a>,
    findings: &mut Findings,
) {
    let mut used: BTreeMap<&str, Resources> = BTreeMap::new();
    let mut reservations = Reservations::new(world);
    for (index, place) in &placements.launches {
        let (Some(planned), Some(Place::Open(node))) =
            (plan.actions.get(*index), placements.places.get(*place))
        else {
            continue;
        };
        let subject = Subject::Action(*index);
        if let Some(pool) = node.pool.filter(|pool| !pool.limits.0.is_empty()) {
            let used = used
                .entry(pool.name.as_str())
                .or_insert_with(|| usage(world, pool));
            if let Some(problem) = over_limit(pool, node, used) {
                findings.add(subject, format!("NodeClaim {}: {problem}", node.name));
            }
        }
        if let Action::Launch(launch) = &planned.action
            && let Some(problem) = reservations.take(launch)
        {
            findings.add(subject, format!("NodeClaim {}: {problem}", node.name));
        }
    }
}

/// Resources of the NodePool's nodes, including nodes in flight (docs/protocol.md#o3) and without those that the plan
/// deletes. Limits apply to the state after the plan; while it is carried out, old and new nodes may exist side by side
/// (docs/spec/lifecycle.md#limits-of-replacements).
fn usage(world: &World<'_>, pool: &NodePool) -> Resources {
    let mut used = Resources::default();
    let one = Resources::from([(NODES, 1)]);
    let machines = world.machines.iter();
    let machines = machines.filter(|machine| !machine.leaving && !machine.deleted_by_plan);
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

/// Remaining limits of a NodePool for one more node, regardless of the plan.
pub(crate) struct RemainingLimits(Option<Resources>);

impl RemainingLimits {
    /// Returns no room while nodes are in flight, because those may turn out larger than known.
    pub(crate) fn of(world: &World<'_>, pool: &NodePool) -> Self {
        if pool.limits.0.is_empty() {
            return Self(None);
        }
        let mut left = pool.limits.clone();
        let machines = world.machines.iter();
        for machine in machines.filter(|machine| machine.node_pool() == Some(pool.name.as_str())) {
            left.subtract(&machine.capacity);
            left.subtract(&Resources::from([(NODES, 1)]));
        }
        let mut in_flight = world.in_flight.values();
        match in_flight.any(|in_flight| in_flight.counts_for(pool)) {
            true => Self(Some(Resources::from([(NODES, 0)]))),
            false => Self(Some(left)),
        }
    }

    pub(crate) fn admits(&self, instance_type: &InstanceType) -> bool {
        let mut left = self.0.iter().flat_map(|left| left.iter());
        left.all(|(name, left)| match name {
            NODES => left >= 1,
            name => left >= instance_type.capacity.get(name),
        })
    }
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

/// Adds the launch to `used`, or reports the limit that it may exceed.
fn over_limit(pool: &NodePool, node: &OpenNode<'_>, used: &mut Resources) -> Option<String> {
    let mut largest = Resources::from([(NODES, 1)]);
    for (name, _) in pool.limits.iter().filter(|(name, _)| *name != NODES) {
        let capacities = node.catalog.capacities(name);
        let of_listed = node.listed.iter().filter_map(|index| capacities.get(index));
        largest.set(name, of_listed.copied().max().unwrap_or(0).max(0));
    }
    for (name, limit) in pool.limits.iter() {
        let after = used.get(name).saturating_add(largest.get(name));
        if after > limit {
            return Some(format!(
                "NodePool {} is limited to {} {name}, but may reach {}",
                pool.name,
                amount_text(name, limit),
                amount_text(name, after)
            ));
        }
    }
    used.add(&largest);
    None
}

/// Instances left in each reservation. A launch that may use one of several reservations holds an instance of each
/// (docs/spec/scheduling.md#reservations).
struct Reservations<'w, 'a> {
    world: &'w World<'a>,
    /// Computed for the first launch that needs it.
    left: Option<BTreeMap<&'a str, u32>>,
}

impl<'w, 'a> Reservations<'w, 'a> {
    fn new(world: &'w World<'a>) -> Self {
        Self { world, left: None }
    }

    fn take(&mut self, launch: &Launch) -> Option<String> {
        let world = self.world;
        let held = reservations_of(world, launch);
        if held.is_empty() {
            return None;
        }
        let left = self.left.get_or_insert_with(|| left(world));
        let exhausted = held
            .iter()
            .find(|id| left.get(id.as_str()).is_none_or(|left| *left == 0));
        if let Some(id) = exhausted {
            return Some(format!(
                "it counts on reservation {id}, where no instance is left"
            ));
        }
        take_one_of_each(left, held);
        None
    }
}

fn left<'a>(world: &World<'a>) -> BTreeMap<&'a str, u32> {
    let snapshot = world.snapshot;
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    let types = snapshot
        .instance_types
        .values()
        .flat_map(|types| types.iter());
    let offerings = types.flat_map(|types| &types.offerings);
    for reservation in offerings.filter_map(|offering| offering.reservation.as_ref()) {
        let least = left.entry(&reservation.id).or_insert(reservation.capacity);
        *least = (*least).min(reservation.capacity);
    }
    for intent in snapshot
        .intents
        .iter()
        .filter(|intent| intent.is_in_flight())
    {
        take_one_of_each(&mut left, reservations_of(world, &intent.launch));
    }
    left
}

fn take_one_of_each(left: &mut BTreeMap<&str, u32>, held: &[String]) {
    for id in held {
        if let Some(left) = left.get_mut(id.as_str()) {
            *left = left.saturating_sub(1);
        }
    }
}

fn reservations_of<'l>(world: &World<'_>, launch: &'l Launch) -> &'l [String] {
    let label = &world.snapshot.settings.reservation_id_label;
    let requirements = launch.spec.requirements.iter();
    let mut named = requirements
        .filter(|requirement| requirement.key == *label && requirement.operator == Operator::In);
    named.next().map_or(&[], |named| &named.values)
}
