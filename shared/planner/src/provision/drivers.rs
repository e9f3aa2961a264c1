//! Explains a new node: the constraint that determined its instance type, zone, capacity type, and each label that is narrower
//! than its NodePool's. Constraints are pod requirements, volumes, topology, the NodePool, a reservation, availability, or
//! price.

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

/// Explains the nodes of one plan. Data of a NodePool is computed once.
pub(crate) struct Drivers<'q> {
    input: &'q Input<'q>,
    volumes: Volumes<'q>,
    pools: BTreeMap<usize, Known>,
}

struct Known {
    /// Requirements of the NodePool, its labels included.
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

    /// Returns one text each for instance type, zone and capacity type, and one for each other label that pods narrowed.
    /// `options` marks the NodePool's instance types that are among the node's choices.
    pub(super) fn explain(&mut self, node: &NewNode, options: &[bool]) -> Vec<String> {
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
        let reported = [INSTANCE_TYPE, ZONE, CAPACITY_TYPE, HOSTNAME];
        let others = node.requirements.0.values().filter(|left| {
            let key = left.key.as_str();
            !reported.contains(&key)
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

/// NodePool, instance type and offering of the node's cheapest choice.
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

/// The node's requirement lists only available capacity types, so pods and the NodePool may admit more.
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

/// Unavailable offerings that would have been preferred.
fn passed_over<'n>(
    chosen: &'n InstanceType,
    offering: &Offering,
    name: impl Fn(&'n Offering) -> Option<&'n str>,
) -> Vec<&'n str> {
    let mut missed: Vec<&str> = Vec::new();
    let offerings = chosen.offerings.iter();
    // Equal prices are taken in list order. Offerings without a price are skipped.
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

/// Merges texts with the same driver.
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
