//! NodePools and their EC2NodeClasses: what they allow, and overlaps between NodePools.

use model::{node_pool::NodePool, requirement::Requirements};
use serde_json::Value;

use super::nodes::plain;
use crate::{
    finding::Finding,
    objects::{Objects, short_name, text},
};

pub(super) fn checks(objects: &Objects) -> Vec<Finding> {
    vec![few_spot_types(objects), limits(objects), overlaps(objects)]
}

fn requirements(pool: &Value) -> impl Iterator<Item = &Value> {
    let requirements = pool.pointer("/spec/template/spec/requirements");
    requirements.and_then(Value::as_array).into_iter().flatten()
}

/// The values of a NodePool's requirement.
pub(super) fn requirement<'a>(pool: &'a Value, key: &str, operator: &str) -> Option<Vec<&'a str>> {
    let is_requested = |requirement: &&Value| {
        text(requirement, "/key") == key && text(requirement, "/operator") == operator
    };
    let values = requirements(pool)
        .find(is_requested)?
        .get("values")?
        .as_array()?;
    Some(values.iter().filter_map(Value::as_str).collect())
}

pub(super) fn startup_taints(pool: &Value) -> impl Iterator<Item = &str> {
    let taints = pool.pointer("/spec/template/spec/startupTaints");
    let taints = taints.and_then(Value::as_array).into_iter().flatten();
    taints.map(|taint| text(taint, "/key"))
}

/// Whether any EC2NodeClass makes Windows nodes.
pub(super) fn any_windows(objects: &Objects) -> bool {
    let is_windows = |class: &Value| {
        let terms = class.pointer("/spec/amiSelectorTerms");
        let terms = terms.and_then(Value::as_array).into_iter().flatten();
        let mut aliases = terms.map(|term| text(term, "/alias"));
        text(class, "/spec/amiFamily").starts_with("Windows")
            || aliases.any(|alias| alias.starts_with("windows"))
    };
    objects.of_kind("EC2NodeClass").any(is_windows)
}

/// NodePools with few spot types. Only lists of types are checked: the types of a family depend on the Region.
fn few_spot_types(objects: &Objects) -> Finding {
    const ENOUGH: usize = 20;
    let found = objects.of_kind("NodePool").filter_map(|pool| {
        let capacity = requirement(pool, "karpenter.sh/capacity-type", "In")?;
        let types = requirement(pool, "node.kubernetes.io/instance-type", "In")?;
        let few = capacity.contains(&"spot") && types.len() < ENOUGH;
        few.then(|| {
            format!(
                "{}: {}",
                short_name(pool),
                crate::plan::counted(types.len(), "type")
            )
        })
    });
    Finding::new(
        "42. NodePools for spot that list few types",
        found.collect(),
        "allow 20 types for spot, and 15 at least for spot-to-spot consolidation",
    )
}

fn limits(objects: &Objects) -> Finding {
    let found = objects.of_kind("NodePool").flat_map(|pool| {
        let limits = pool.pointer("/spec/limits").and_then(Value::as_object);
        let used = |name: &str| pool.pointer("/status/resources")?.get(name);
        let limits = limits.into_iter().flatten();
        limits.filter_map(move |(name, limit)| {
            let used = used(name)?;
            let (used, limit) = (plain(used), plain(limit));
            let reached = amount(name, &used)? >= amount(name, &limit)?;
            reached.then(|| format!("{}: {used} of {limit} {name} are used", short_name(pool)))
        })
    });
    Finding::new(
        "47. NodePools that are at their limits",
        found.collect(),
        "raise spec.limits, or let another NodePool take the rest",
    )
}

fn amount(name: &str, quantity: &str) -> Option<i64> {
    let mut amounts = model::Resources::default();
    amounts.set_quantity(name, quantity).ok()?;
    Some(amounts.get(name))
}

/// Pairs of NodePools with the same weight between which only the price decides where a pod runs.
fn overlaps(objects: &Objects) -> Finding {
    let pools: Vec<NodePool> = objects.of_kind("NodePool").filter_map(dynamic).collect();
    let mut found = Vec::new();
    for (nth, pool) in pools.iter().enumerate() {
        let others = pools.iter().skip(nth + 1);
        let same = others.filter(|other| {
            other.weight == pool.weight
                && other.template.taints == pool.template.taints
                && could_share_a_node(pool, other)
        });
        found.extend(same.map(|other| {
            format!(
                "NodePools {} and {}, both of weight {}",
                pool.name, other.name, pool.weight
            )
        }));
    }
    Finding::new(
        "39. NodePools that take the same pods, so that the cheaper node decides",
        found,
        "give the one that is meant to be tried first a higher spec.weight, or keep pods apart by taints or a label that pods \
         select; whittle plan shows which takes a pod, and why",
    )
}

/// The NodePool as planning reads it; `None` for static NodePools, which no pod is placed by.
fn dynamic(pool: &Value) -> Option<NodePool> {
    let mut pool = pool.clone();
    // The status is irrelevant, and may be of any version.
    pool.as_object_mut()?.remove("status");
    let read: api::karpenter::NodePool = serde_json::from_value(pool).ok()?;
    let pool = NodePool::from(read);
    pool.replicas.is_none().then_some(pool)
}

/// Whether both NodePools could launch the same node.
fn could_share_a_node(first: &NodePool, second: &NodePool) -> bool {
    let (first, second) = (labels(first), labels(second));
    let mut shared = first
        .0
        .iter()
        .filter_map(|(key, of_one)| Some((of_one, second.get(key)?)));
    shared.all(|(of_one, of_other)| of_one.intersects(of_other))
}

/// Labels of the NodePool's nodes.
fn labels(pool: &NodePool) -> Requirements {
    let mut labels = Requirements::from_labels(&pool.template.labels);
    for requirement in &pool.template.requirements {
        labels.add(requirement.into());
    }
    labels
}
