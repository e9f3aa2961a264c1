//! Reasons why a NodePool can launch no node, or none within its limits.

use std::collections::BTreeSet;

use model::{
    requirement::{Requirement, Requirements},
    selector::NodeSelectorRequirement,
    spelling::nearest_value,
};

use super::{disagreement::irreconcilable, too_few};
use crate::{
    algebra::{Algebra, Sym},
    bits::BitSet,
    catalog::Catalog,
    min_values,
    outcome::to_requirement,
    placement_context::PlacementContext,
    reason::Reason,
};

/// Reason why the NodePool can launch no node for any pod.
pub(super) fn nothing_to_make(at: usize, context: &mut PlacementContext<'_>) -> Reason {
    let PlacementContext {
        templates,
        catalogs,
        algebra,
        input,
        ..
    } = context;
    let set = templates.get(at).map(|template| template.set);
    let catalog = templates.get(at).map(|template| template.catalog);
    let catalog = catalog.and_then(|catalog| catalogs.get_mut(catalog));
    if let (Some(set), Some(catalog), Some(pool)) = (set, catalog, input.pools.get(at)) {
        let agreeing = catalog.agreeing(set, algebra);
        let mut offered = catalog.offering(set, algebra);
        offered.and(&agreeing);
        let entries = algebra.set(set);
        match irreconcilable(&entries, &[], catalog, algebra).as_deref() {
            Some([(key, req)]) => {
                let own = of_key(pool.requirements, algebra.text(*key));
                let both = algebra.req(*req);
                if own.len() > 1 && !both.complement && both.values.is_empty() {
                    return Reason::NoTypeHasAll(own);
                }
                return no_type_has(to_requirement(*key, *req, algebra), *key, catalog, algebra);
            }
            Some(several) => {
                let several = several.iter();
                let spelled = several.map(|(key, req)| to_requirement(*key, *req, algebra));
                return Reason::NoTypeHasAll(spelled.collect());
            }
            None => {}
        }
        if offered.is_empty() {
            let own = Requirements::from_selector(pool.requirements);
            return Reason::NoOffering(own.0.into_values().collect());
        }
        if let Some(unmet) = min_values::unmet(set, &offered, catalog, algebra) {
            return too_few(&unmet, algebra);
        }
    }
    Reason::NoTypes
}

/// Requirements of a label, each by itself.
fn of_key(requirements: &[NodeSelectorRequirement], key: &str) -> Vec<Requirement> {
    let single = |entry| Requirements::from_selector([entry]).0.into_values();
    let all = requirements.iter().flat_map(single);
    all.filter(|requirement| requirement.key == key).collect()
}

/// Reason for a single requirement of the NodePool that leaves no type.
fn no_type_has(own: Requirement, key: Sym, catalog: &Catalog<'_>, algebra: &Algebra) -> Reason {
    let column = catalog.column(key).iter();
    let known = column.flat_map(|(stated, _)| algebra.req(*stated).values.to_vec());
    // Sorted, so that the suggestion does not depend on the order of the catalog.
    let known: BTreeSet<&str> = known.map(|value| algebra.text(value)).collect();
    let value = own.values.first().filter(|_| !own.complement);
    let meant = value.and_then(|value| nearest_value(value, known));
    Reason::NoTypeHas {
        meant: meant.map(str::to_owned),
        own,
    }
}

/// Limit that keeps the NodePool from launching any of these types.
pub(super) fn limit(at: usize, rows: &BitSet, context: &PlacementContext<'_>) -> Reason {
    let Some(template) = context.templates.get(at) else {
        return Reason::NodeLimit;
    };
    if template.limits.has_no_node_left() {
        return Reason::NodeLimit;
    }
    let catalog = context.catalogs.get(template.catalog);
    let smallest = |name: &str| {
        let types = rows.iter().filter_map(|row| catalog?.instance_type(row));
        types
            .map(|instance_type| instance_type.capacity.get(name))
            .min()
            .unwrap_or(0)
    };
    let limits: Vec<(&str, i64, i64)> = template
        .limits
        .iter()
        .map(|(name, left)| (name, left, smallest(name)))
        .collect();
    let exceeded = limits.iter().find(|(_, left, least)| least > left);
    // If no single limit excludes all types, they exclude all types together; the first one is named.
    let named = exceeded.or(limits.first());
    named.map_or(Reason::NodeLimit, |(name, left, least)| Reason::Limit {
        name: (*name).to_owned(),
        left: *left,
        least: *least,
    })
}
