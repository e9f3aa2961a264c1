//! Converts a planned node into the launch of a NodeClaim (docs/spec/scheduling.md#node-claim-object).

use std::collections::{BTreeMap, BTreeSet};

use api::names::annotation;
use model::{
    InstanceType, InstanceTypeName, NanosPerHour, NodeClaimName, Resources, Snapshot,
    labels::{self, HOSTNAME},
    node_claim::NodeClaimSpec,
    node_pool::NodePool,
    plan::{Action, ExpectedOffering, Launch, Planned},
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
};
use scheduling::{Input, NewNode, Pool};

use super::{buffers, drivers::Drivers, overlays, planning_context, reference};
use crate::{
    digest::fnv,
    disrupt::price_of_template,
    node_pool_hash::{NODE_POOL_HASH_VERSION, node_pool_hash},
};

/// Most pods named in a reason; the rest are counted.
const PODS_NAMED: usize = 3;

/// Builds the launches of one NodePool from shared data.
pub(crate) struct PoolLaunches<'a> {
    pool: &'a NodePool,
    mould: &'a Pool<'a>,
    type_names: Vec<InstanceTypeName>,
    /// Indexes of the instance types, sorted by name.
    types_by_name: Vec<usize>,
    hash: String,
}

impl<'a> PoolLaunches<'a> {
    pub(crate) fn new(pool: &'a NodePool, mould: &'a Pool<'a>) -> Self {
        let names = mould
            .types
            .iter()
            .map(|instance_type| instance_type.name.as_str().into());
        let type_names: Vec<InstanceTypeName> = names.collect();
        let mut types_by_name: Vec<usize> = (0..type_names.len()).collect();
        types_by_name.sort_by_key(|at| type_names.get(*at));
        Self {
            pool,
            mould,
            type_names,
            types_by_name,
            // Hash of the template used here. The NodePool's annotation may be outdated.
            hash: node_pool_hash(&pool.template),
        }
    }

    pub(crate) fn launch(
        &self,
        node: &NewNode,
        input: &Input<'_>,
        drivers: &mut Drivers<'_>,
        names: &mut Names<'_>,
    ) -> Planned {
        let template = &self.pool.template;
        let pods = node
            .pods
            .iter()
            .filter_map(|at| input.pods.get(*at).copied());
        let pods: Vec<_> = pods
            .filter(|pod| !buffers::is_virtual(pod))
            .map(reference)
            .collect();
        let cheapest = cheapest(node, self.mould);
        let options = options(node, self.mould);
        let drivers = drivers.explain(node, &options);
        let because = because(&pods, &cheapest, node.choices.len(), &drivers);
        let choices = node.choices.iter();
        let launch = Launch {
            name: names.next(self.pool),
            node_pool: self.pool.name.clone(),
            node_pool_uid: self.pool.uid.clone(),
            labels: self.labels(node, input.options.well_known_labels),
            annotations: self.annotations(node, names.snapshot),
            spec: NodeClaimSpec {
                node_class: template.node_class.clone(),
                requirements: self.requirements(node, &options),
                requests: node.requests.clone(),
                taints: template.taints.clone(),
                startup_taints: template.startup_taints.clone(),
                expire_after: template.expire_after.clone(),
                termination_grace_period: template.termination_grace_period.clone(),
            },
            pods,
            instance_types: choices
                .filter_map(|choice| self.type_names.get(choice.instance_type()).cloned())
                .collect(),
            cheapest,
        };
        Planned {
            action: Action::Launch(Box::new(launch)),
            because,
        }
    }

    fn labels(&self, node: &NewNode, known: &[String]) -> BTreeMap<String, String> {
        let mut labels = self.mould.labels.clone();
        for requirement in node.requirements.0.values() {
            let key = requirement.key.as_str();
            let is_known =
                labels::WELL_KNOWN.contains(&key) || known.iter().any(|known| known == key);
            if !is_known
                && key != HOSTNAME
                && let Some(value) = some_value(requirement, self.pool)
            {
                labels.insert(requirement.key.clone(), value);
            }
        }
        labels
    }

    fn annotations(&self, node: &NewNode, snapshot: &Snapshot) -> BTreeMap<String, String> {
        let mut annotations = annotations(self.pool, self.hash.clone());
        for key in self.overlays(node, snapshot) {
            annotations.insert(key.to_owned(), "true".to_owned());
        }
        if !node.drivers.is_empty() {
            let drivers: Vec<&str> = node.drivers.iter().map(String::as_str).collect();
            let requested = annotation::REQUESTED_DRA_DRIVERS.to_owned();
            annotations.insert(requested, drivers.join(","));
        }
        let relaxed = node.min_values_relaxed.to_string();
        annotations.insert(annotation::MIN_VALUES_RELAXED.to_owned(), relaxed);
        annotations
    }

    /// Annotations for NodeOverlays that changed any of the remaining instance types (docs/spec/scheduling.md#node-overlay).
    fn overlays(&self, node: &NewNode, snapshot: &Snapshot) -> BTreeSet<&'static str> {
        let mut keys = BTreeSet::new();
        let Some(plain) = snapshot.instance_types.get(&self.pool.name) else {
            return keys;
        };
        if std::ptr::eq(plain.as_slice(), self.mould.types) {
            return keys;
        }
        for choice in &node.choices {
            let at = choice.instance_type();
            if let (Some(plain), Some(overlaid)) = (plain.get(at), self.mould.types.get(at)) {
                let (price, capacity) = overlays::changes(plain, overlaid);
                keys.extend(price.then_some(annotation::PRICE_OVERLAY_APPLIED));
                keys.extend(capacity.then_some(annotation::CAPACITY_OVERLAY_APPLIED));
            }
        }
        keys
    }

    /// Requirements of the node by key, with the remaining instance types by name.
    fn requirements(&self, node: &NewNode, options: &[bool]) -> Vec<NodeSelectorRequirement> {
        let left = self.types_by_name.iter();
        let left = left.filter(|at| options.get(**at) == Some(&true));
        let types = NodeSelectorRequirement {
            key: labels::INSTANCE_TYPE.to_owned(),
            operator: Operator::In,
            values: left
                .filter_map(|at| Some(self.mould.types.get(*at)?.name.clone()))
                .collect(),
            min_values: node
                .requirements
                .get(labels::INSTANCE_TYPE)
                .and_then(|requirement| requirement.min_values),
        };
        let others = node.requirements.0.values();
        let mut all: Vec<NodeSelectorRequirement> = others
            .filter(|requirement| requirement.key != labels::INSTANCE_TYPE)
            .flat_map(Requirement::to_selector)
            .chain([types])
            .collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }
}

/// Marks the NodePool's instance types that are among the node's choices.
fn options(node: &NewNode, mould: &Pool<'_>) -> Vec<bool> {
    let mut options = vec![false; mould.types.len()];
    for choice in &node.choices {
        if let Some(slot) = options.get_mut(choice.instance_type()) {
            *slot = true;
        }
    }
    options
}

/// Launch from the NodePool's template alone. The provider chooses the instance type (docs/spec/lifecycle.md#static-drift,
/// docs/spec/lifecycle.md#static-scale-up), so only the lowest possible price is known.
pub(crate) fn of_template(
    pool: &NodePool,
    types: &[InstanceType],
    names: &mut Names<'_>,
) -> Launch {
    let template = &pool.template;
    let mut labels = planning_context::labels(pool);
    let wanted = Requirements::from_selector(&template.requirements);
    for requirement in wanted.0.values() {
        let key = requirement.key.as_str();
        if !labels::WELL_KNOWN.contains(&key)
            && key != HOSTNAME
            && let Some(value) = some_value(requirement, pool)
        {
            labels.entry(key.to_owned()).or_insert(value);
        }
    }
    Launch {
        name: names.next(pool),
        node_pool: pool.name.clone(),
        node_pool_uid: pool.uid.clone(),
        labels,
        annotations: annotations(pool, node_pool_hash(template)),
        spec: NodeClaimSpec {
            node_class: template.node_class.clone(),
            requirements: template.requirements.clone(),
            requests: Resources::default(),
            taints: template.taints.clone(),
            startup_taints: template.startup_taints.clone(),
            expire_after: template.expire_after.clone(),
            termination_grace_period: template.termination_grace_period.clone(),
        },
        pods: Vec::new(),
        instance_types: Vec::new(),
        cheapest: ExpectedOffering {
            price: price_of_template(pool, types, names.snapshot).unwrap_or_default(),
            ..unknown_offering()
        },
    }
}

/// Annotations of the template, with its hash and the hash version.
fn annotations(pool: &NodePool, hash: String) -> BTreeMap<String, String> {
    let mut annotations = pool.template.annotations.clone();
    annotations.extend([
        (annotation::NODE_POOL_HASH.to_owned(), hash),
        (
            annotation::NODE_POOL_HASH_VERSION.to_owned(),
            NODE_POOL_HASH_VERSION.to_owned(),
        ),
    ]);
    annotations
}

/// Returns a value for a custom label: one of the listed values or, for a key that the NodePool leaves open, the lowest allowed
/// number.
fn some_value(requirement: &Requirement, pool: &NodePool) -> Option<String> {
    if !requirement.complement {
        return requirement.values.first().cloned();
    }
    let declared = pool
        .template
        .requirements
        .iter()
        .any(|entry| entry.key == requirement.key);
    let first = requirement.gte.unwrap_or(0).max(0);
    let candidates = (first..=first.saturating_add(PROBES_MAX)).map(|n| n.to_string());
    declared
        .then_some(candidates)?
        .find(|value| requirement.has(value))
}

/// Most numbers tried. No real requirement excludes more in a row.
const PROBES_MAX: i64 = 1_000;

fn cheapest(node: &NewNode, mould: &Pool<'_>) -> ExpectedOffering {
    let choice = node.choices.first();
    let found = choice.and_then(|choice| {
        let instance_type = mould.types.get(choice.instance_type())?;
        let offering = instance_type.offerings.get(choice.offering())?;
        Some((choice, instance_type, offering))
    });
    match found {
        Some((choice, instance_type, offering)) => ExpectedOffering {
            instance_type: instance_type.name.clone(),
            capacity_type: offering.capacity_type,
            zone: offering.zone.clone(),
            price: choice.price,
            capacity: instance_type.capacity.clone(),
        },
        None => unknown_offering(),
    }
}

fn unknown_offering() -> ExpectedOffering {
    ExpectedOffering {
        instance_type: String::new(),
        capacity_type: model::CapacityType::OnDemand,
        zone: String::new(),
        price: NanosPerHour(0),
        capacity: Resources::default(),
    }
}

fn because(
    pods: &[model::plan::PodRef],
    cheapest: &ExpectedOffering,
    options: usize,
    drivers: &[String],
) -> String {
    let drivers: String = drivers.iter().map(|text| format!("; {text}")).collect();
    let named: Vec<String> = pods
        .iter()
        .take(PODS_NAMED)
        .map(|pod| pod.key.to_string())
        .collect();
    let more = pods.len().saturating_sub(PODS_NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let who = if pods.is_empty() {
        "capacity buffers".to_owned()
    } else {
        named.join(", ")
    };
    let of = match options {
        1 => "the only suitable instance type".to_owned(),
        options => format!("cheapest of {options} instance types"),
    };
    format!(
        "for {who}{more}; {of}: {} {} in {} at ${}/h{drivers}",
        cheapest.instance_type, cheapest.capacity_type, cheapest.zone, cheapest.price
    )
}

/// Deterministic names of NodeClaims: equal plans get equal names, and different plans different ones.
pub(crate) struct Names<'a> {
    snapshot: &'a Snapshot,
    taken: BTreeSet<NodeClaimName>,
    index: u64,
}

const SUFFIX_LETTERS: usize = 8;
/// Kubernetes limits label values, and therefore the full name, to 63 characters.
const BASE_MAX: usize = 63 - 1 - SUFFIX_LETTERS;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

impl<'a> Names<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let claims = snapshot.node_claims.iter().map(|claim| claim.name.clone());
        let intents = snapshot.intents.iter().map(|intent| intent.name().clone());
        Self {
            snapshot,
            taken: claims.chain(intents).collect(),
            index: 0,
        }
    }

    pub(crate) fn next(&mut self, pool: &NodePool) -> NodeClaimName {
        loop {
            let base: String = pool.name.as_str().chars().take(BASE_MAX).collect();
            let base = base.trim_end_matches(['-', '.']);
            let name = NodeClaimName(format!("{base}-{}", self.suffix()));
            self.index += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Hash of the cluster, the generation and time of the plan, and the launch's index.
    fn suffix(&self) -> String {
        let text = format!(
            "{}/{}/{}/{}",
            self.snapshot.cluster, self.snapshot.generation, self.snapshot.now, self.index
        );
        let mut hash = fnv(&text);
        let mut suffix = String::with_capacity(SUFFIX_LETTERS);
        for _ in 0..SUFFIX_LETTERS {
            let letter = ALPHABET.get((hash >> 59) as usize).copied().unwrap_or(b'0');
            suffix.push(char::from(letter));
            hash <<= 5;
        }
        suffix
    }
}

#[cfg(test)]
mod tests;
