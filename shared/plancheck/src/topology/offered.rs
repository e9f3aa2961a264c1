//! The domains in which a NodePool can make nodes.

use std::collections::BTreeSet;

use model::{
    InstanceType, Snapshot,
    node_pool::NodePool,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use crate::label::overlap;

/// Every value of `key` that a node of this NodePool may have. Labels that differ from node to node are not listed.
pub(super) fn by_pool(snapshot: &Snapshot, pool: &NodePool, key: &str) -> BTreeSet<String> {
    let mut of_pool = Requirements::from_selector(&pool.template.requirements);
    for (label, value) in &pool.template.labels {
        of_pool.add(Requirement::new(label, Operator::In, [value.clone()]));
    }
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
        // Most are there already.
        if !domains.contains(value) {
            domains.insert(value.clone());
        }
    }
    let own = own.filter(|own| !own.complement);
    domains.extend(own.into_iter().flat_map(|own| own.values.iter().cloned()));
    domains
}
