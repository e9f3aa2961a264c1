//! Counts pending pods: those that cannot be planned for, and the others by the zones that they can use.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Snapshot,
    labels::ZONE,
    pod::Pod,
    requirement::{Requirement, Requirements},
    selector::Operator,
};
use scheduling::Volumes;

use super::intake::{PodValidation, is_provisionable};

/// Number of pending pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Pods with impossible requirements, which are not planned for.
    pub ignored: usize,
    /// All other pods.
    pub by_zone: BTreeMap<EffectiveZone, usize>,
}

/// Zones that a pod's node selector, required affinity and volumes allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectiveZone {
    Only(String),
    /// Several zones, or any.
    Flexible,
    /// No offered zone satisfies all constraints.
    Conflicting,
}

/// Counts the pending pods of a snapshot.
pub fn pending_pods(snapshot: &Snapshot) -> PendingPods {
    let validation = PodValidation::new(snapshot);
    let zones = offered_zones(snapshot);
    let volumes = Volumes::new(&snapshot.storage);
    let mut pending = PendingPods::default();
    for pod in snapshot.pods.iter().filter(|pod| is_provisionable(pod)) {
        match validation.problem(pod) {
            Some(_) => pending.ignored += 1,
            None => {
                let zone = zone_of(pod, &volumes, &zones);
                *pending.by_zone.entry(zone).or_default() += 1;
            }
        }
    }
    pending
}

/// Zones with an offering of any NodePool. Zones that only pods name are ignored.
fn offered_zones(snapshot: &Snapshot) -> BTreeSet<&str> {
    let types = snapshot.instance_types.values();
    let offerings = types.flat_map(|types| {
        types
            .iter()
            .flat_map(|instance_type| &instance_type.offerings)
    });
    offerings.map(|offering| offering.zone.as_str()).collect()
}

fn zone_of<'a>(pod: &'a Pod, volumes: &Volumes<'a>, offered: &BTreeSet<&str>) -> EffectiveZone {
    let by_labels = Requirements::from_labels(&pod.node_selector);
    // One of the terms and one of the alternatives must hold.
    let terms = pod.node_affinity.required.iter();
    let terms = or_none(terms.map(|term| Requirements::from_selector(&term.match_expressions)));
    let alternatives = or_none(volumes.alternatives(pod).unwrap_or_default());
    let mut zones = BTreeSet::new();
    for term in &terms {
        for alternative in &alternatives {
            let constraints =
                [&by_labels, term, alternative].map(|constraints| constraints.get(ZONE));
            let constraints = constraints.into_iter().flatten().cloned();
            let left = constraints.reduce(|left, other| Requirement::intersection(&left, &other));
            match left {
                Some(left) if left.operator() == Operator::In => zones.extend(left.values),
                Some(left) if left.operator() == Operator::DoesNotExist => {}
                Some(_) | None => return EffectiveZone::Flexible,
            }
        }
    }
    let mut zones = zones
        .into_iter()
        .filter(|zone| offered.contains(zone.as_str()));
    match (zones.next(), zones.next()) {
        (None, _) => EffectiveZone::Conflicting,
        (Some(zone), None) => EffectiveZone::Only(zone),
        (Some(_), Some(_)) => EffectiveZone::Flexible,
    }
}

/// The alternatives, or an unconstrained one if there are none.
fn or_none(alternatives: impl IntoIterator<Item = Requirements>) -> Vec<Requirements> {
    let alternatives: Vec<Requirements> = alternatives.into_iter().collect();
    match alternatives.is_empty() {
        true => vec![Requirements::default()],
        false => alternatives,
    }
}

#[cfg(test)]
mod tests;
