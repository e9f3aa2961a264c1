//! The domains in which a NodePool can launch nodes.

use std::collections::BTreeSet;

use model::{
    InstanceType, Offering, Snapshot, labels,
    node_pool::NodePool,
    pod::Pod,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use crate::{
    label::{Label, overlap},
    limits::RemainingLimits,
    node_rules::NodeConstraints,
};

/// All values of `key` that nodes of this NodePool may have. Labels that are unique per node are not listed.
pub(super) fn by_pool(snapshot: &Snapshot, pool: &NodePool, key: &str) -> BTreeSet<String> {
    let of_pool = requirements(pool);
    let own = of_pool.get(key);
    let types = snapshot.instance_types.get(&pool.name);
    let Some(types) = types.filter(|types| !types.is_empty()) else {
        return BTreeSet::new();
    };
    let suits = |instance_type: &&InstanceType| {
        let known = &instance_type.requirements;
        of_pool.0.values().all(|wanted| {
            known
                .get(&wanted.key)
                .is_none_or(|of_type| overlap(of_type, wanted))
        })
    };
    let known = types.iter().filter(suits);
    let known = known.filter_map(|instance_type| instance_type.requirements.get(key));
    let listed = known.filter(|of_type| !of_type.complement);
    let values = listed.flat_map(|of_type| &of_type.values);
    let mut domains = BTreeSet::new();
    for value in values.filter(|value| own.is_none_or(|own| own.has(value))) {
        // Avoids cloning values that are present already.
        if !domains.contains(value) {
            domains.insert(value.clone());
        }
    }
    let own = own.filter(|own| !own.complement);
    domains.extend(own.into_iter().flat_map(|own| own.values.iter().cloned()));
    domains
}

fn requirements(pool: &NodePool) -> Requirements {
    let mut of_pool = Requirements::from_selector(&pool.template.requirements);
    for (label, value) in &pool.template.labels {
        of_pool.add(Requirement::new(label, Operator::In, [value.clone()]));
    }
    of_pool
}

/// Whether the NodePool could launch a node for the pod in this domain: with an available offering of a type that is
/// large enough and within its limits.
pub(super) fn for_pod(
    snapshot: &Snapshot,
    (pool, limits): (&NodePool, &RemainingLimits),
    (key, domain): (&str, &str),
    pod: &Pod,
    wanted: &NodeConstraints<'_>,
) -> bool {
    let mut of_pool = requirements(pool);
    let own = [(labels::NODE_POOL, pool.name.as_str()), (key, domain)];
    for (key, value) in own {
        of_pool.add(Requirement::new(key, Operator::In, [value.to_owned()]));
    }
    let types = snapshot.instance_types.get(&pool.name);
    let mut large_enough =
        types
            .into_iter()
            .flat_map(|types| types.iter())
            .filter(|instance_type| {
                let allocatable = instance_type.allocatable();
                let mut requests = pod.requests.iter();
                limits.admits(instance_type)
                    && requests.all(|(name, amount)| amount <= allocatable.get(name))
            });
    let alternatives = wanted.alternatives();
    large_enough.any(|instance_type| {
        let mut offerings = instance_type
            .offerings
            .iter()
            .filter(|offering| offering.available);
        offerings.any(|offering| {
            let is = |known: &Requirement| {
                let Some(of_node) = of_offering(offering, &known.key) else {
                    let of_type = instance_type.requirements.get(&known.key);
                    return of_type.is_none_or(|of_type| overlap(of_type, known));
                };
                known.has(of_node)
            };
            let agrees = of_pool.0.values().all(is);
            agrees
                && alternatives.iter().any(|alternative| {
                    alternative.iter().all(|asked| {
                        let key = labels::normalized(&asked.key);
                        let label = match of_offering(offering, key) {
                            Some(value) => Label::Is(value),
                            None => label(&of_pool, instance_type, key),
                        };
                        label.permits(asked)
                    })
                })
        })
    })
}

/// Labels that differ between offerings of a type.
fn of_offering<'o>(offering: &'o Offering, key: &str) -> Option<&'o str> {
    match key {
        labels::ZONE => Some(&offering.zone),
        labels::CAPACITY_TYPE => Some(offering.capacity_type.as_str()),
        labels::ZONE_ID if !offering.zone_id.is_empty() => Some(&offering.zone_id),
        _ => None,
    }
}

fn label<'l>(of_pool: &'l Requirements, instance_type: &'l InstanceType, key: &str) -> Label<'l> {
    let known = of_pool
        .get(key)
        .or_else(|| instance_type.requirements.get(key));
    known.map_or(Label::Absent, Label::of_known)
}
