//! Which constraint drove a new node's instance type, zone and capacity type, and every other label that is narrower than
//! its NodePool's: what a pod asks for, its volumes, topology, the NodePool, a reservation, what is on offer, or the price.

mod label;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType,
    catalog::Offering,
    labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE},
    requirement::Requirements,
    snapshot::PreferencePolicy,
};
use scheduling::{Input, NewNode, Pool, Volumes};

use self::{
    label::{Labels, Narrowing},
    size::TypesByPrice,
};

/// For the nodes of one plan; what concerns a whole NodePool is worked out once.
pub(crate) struct Drivers<'q> {
    input: &'q Input<'q>,
    volumes: Volumes<'q>,
    pools: BTreeMap<usize, Known>,
}

struct Known {
    /// What the NodePool itself requires, its labels included.
    own: Requirements,
    types_by_price: BTreeMap<CapacityType, TypesByPrice>,
}

impl<'q> Drivers<'q> {
    pub(crate) fn new(input: &'q Input<'q>) -> Self {
        Self {
            input,
            volumes: Volumes::new(input.storage),
            pools: BTreeMap::new(),
        }
    }

    /// One text each for type, zone and capacity type, then one for every other label that pods narrowed. `options` tells
    /// of each type of the NodePool whether it is among the node's choices.
    pub(super) fn of(&mut self, node: &NewNode, options: &[bool]) -> Vec<String> {
        let input = self.input;
        let Some((pool, chosen, offering)) = bought(node, input) else {
            return Vec::new();
        };
        let known = self.pools.entry(node.pool).or_insert_with(|| Known {
            own: own(pool),
            types_by_price: BTreeMap::new(),
        });
        let types_by_price = known
            .types_by_price
            .entry(offering.capacity_type)
            .or_insert_with_key(|capacity_type| TypesByPrice::new(pool, *capacity_type));
        let pods = node.pods.iter().filter_map(|at| input.pods.get(*at));
        let labels = Labels {
            own: &known.own,
            pods: pods.copied().collect(),
            volumes: &self.volumes,
            with_preferences: input.options.preference_policy == PreferencePolicy::Respect,
        };
        let obstacles = types_by_price.obstacles(node, options, pool.types, &labels);
        let last = match &offering.reservation {
            Some(reservation) => format!("of reservation {}", reservation.id),
            None => "by price".to_owned(),
        };
        let mut texts = grouped([
            (
                "type",
                obstacles.text(&labels).unwrap_or_else(|| last.clone()),
            ),
            ("zone", zone(node, chosen, offering, &labels, &last)),
            (
                "capacity type",
                capacity_type(node, chosen, offering, &labels, &last),
            ),
        ]);
        let told = [INSTANCE_TYPE, ZONE, CAPACITY_TYPE, HOSTNAME];
        let others = node.requirements.0.values().filter(|left| {
            let key = left.key.as_str();
            !told.contains(&key)
                && key != input.options.reservation_id_label
                && Some(key) != obstacles.key()
        });
        texts.extend(others.filter_map(|left| {
            let narrowing = labels.narrowing(left).filter(Narrowing::is_for_pods)?;
            Some(format!("{} {narrowing}", left.key))
        }));
        texts
    }
}

fn own(pool: &Pool<'_>) -> Requirements {
    let mut own = Requirements::from_selector(pool.requirements);
    for requirement in Requirements::from_labels(&pool.labels).0.into_values() {
        own.add(requirement);
    }
    own
}

/// The NodePool, and the cheapest of the node's choices.
fn bought<'q>(
    node: &NewNode,
    input: &'q Input<'q>,
) -> Option<(&'q Pool<'q>, &'q InstanceType, &'q Offering)> {
    let pool = input.pools.get(node.pool)?;
    let choice = node.choices.first()?;
    let chosen = pool.types.get(choice.instance_type())?;
    Some((pool, chosen, chosen.offerings.get(choice.offering())?))
}

fn zone(
    node: &NewNode,
    chosen: &InstanceType,
    offering: &Offering,
    labels: &Labels<'_>,
    last: &str,
) -> String {
    let left = node.requirements.get(ZONE);
    let missed = passed_over(chosen, offering, |other| {
        let other_zone = other.capacity_type == offering.capacity_type
            && left.is_none_or(|left| left.has(&other.zone));
        other_zone.then_some(other.zone.as_str())
    });
    settled(left.and_then(|left| labels.narrowing(left)), last, &missed)
}

/// The requirement lists what is on offer, so that what pods and the NodePool asked for may be more.
fn capacity_type(
    node: &NewNode,
    chosen: &InstanceType,
    offering: &Offering,
    labels: &Labels<'_>,
    last: &str,
) -> String {
    let left = node.requirements.get(CAPACITY_TYPE);
    let narrowing = left.and_then(|left| labels.narrowing(left));
    let zones = node.requirements.get(ZONE);
    let missed = passed_over(chosen, offering, |other| {
        let name = other.capacity_type.as_str();
        let other_way = other.capacity_type != offering.capacity_type
            && narrowing.as_ref().is_none_or(|known| known.allows(name))
            && zones.is_none_or(|left| left.has(&other.zone));
        other_way.then_some(name)
    });
    settled(narrowing, last, &missed)
}

/// What offerings that are not available would have been taken for first.
fn passed_over<'n>(
    chosen: &'n InstanceType,
    offering: &Offering,
    name: impl Fn(&'n Offering) -> Option<&'n str>,
) -> Vec<&'n str> {
    let mut missed: Vec<&str> = Vec::new();
    let offerings = chosen.offerings.iter();
    // In the order of the list where prices are the same. Without a price, nobody knows.
    let mut is_before = true;
    for other in offerings {
        is_before &= other != offering;
        let is_cheaper =
            other.price < offering.price || (is_before && other.price == offering.price);
        if !other.available && other.price.0 > 0 && is_cheaper {
            missed.extend(name(other).filter(|name| !missed.contains(name)));
        }
    }
    missed
}

fn settled(narrowing: Option<Narrowing<'_>>, last: &str, missed: &[&str]) -> String {
    let mut text = match narrowing {
        Some(narrowing) if narrowing.is_final() => narrowing.to_string(),
        Some(narrowing) => format!("{narrowing}, then {last}"),
        None => last.to_owned(),
    };
    if !missed.is_empty() {
        text += &format!(" ({} not available)", missed.join(", "));
    }
    text
}

/// What has the same driver is told together.
fn grouped(all: [(&str, String); 3]) -> Vec<String> {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for (what, driver) in all {
        match groups.iter_mut().find(|(_, known)| *known == driver) {
            Some((together, _)) => together.push(what),
            None => groups.push((vec![what], driver)),
        }
    }
    let texts = groups
        .into_iter()
        .map(|(together, driver)| match together.as_slice() {
            [first, second, third] => format!("{first}, {second} and {third} {driver}"),
            few => format!("{} {driver}", few.join(" and ")),
        });
    texts.collect()
}
