//! Hints about labels and values that no node has because they are misspelt, with the probable spelling. Labels in users' own domains are
//! not checked.

use std::collections::{BTreeMap, BTreeSet};

use api::names::label;
use model::{
    Snapshot,
    labels::{HOSTNAME, NODE_POOL, OS, REGION, WELL_KNOWN, normalized},
    pod::Pod,
    selector::{NodeSelectorRequirement, Operator},
    spelling::{nearest_key, nearest_value},
};

/// End of a hint that names a label and its value.
pub(super) const NO_TYPE: &str = ": no instance type has this value";

/// All labels that nodes may have, with the values of instance types.
pub(crate) struct KnownLabels {
    keys: BTreeSet<String>,
    values: BTreeMap<String, BTreeSet<String>>,
    resources: BTreeSet<String>,
}

impl KnownLabels {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let well_known = WELL_KNOWN.iter().map(|key| (*key).to_owned());
        let mut keys: BTreeSet<String> = well_known.collect();
        keys.insert(HOSTNAME.to_owned());
        keys.extend(snapshot.settings.well_known_labels.iter().cloned());
        for pool in &snapshot.node_pools {
            keys.extend(pool.template.labels.keys().cloned());
            keys.extend(
                pool.template
                    .requirements
                    .iter()
                    .map(|requirement| requirement.key.clone()),
            );
        }
        for node in &snapshot.nodes {
            keys.extend(node.labels.keys().cloned());
        }
        let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let pools = snapshot.node_pools.iter().map(|pool| pool.name.to_string());
        values.insert(NODE_POOL.to_owned(), pools.collect());
        let mut resources: BTreeSet<String> = BTreeSet::new();
        let overlays = snapshot.node_overlays.iter();
        resources.extend(overlays.flat_map(|overlay| overlay.capacity.0.keys().cloned()));
        let mut seen = BTreeSet::new();
        for types in snapshot.instance_types.values() {
            if !seen.insert(std::sync::Arc::as_ptr(types)) {
                continue;
            }
            for instance_type in types.iter() {
                resources.extend(instance_type.capacity.0.keys().cloned());
                for (key, requirement) in &instance_type.requirements.0 {
                    let known = values.entry(key.clone()).or_default();
                    known.extend(requirement.values.iter().cloned());
                }
            }
        }
        // Values that are spelled correctly, even if no instance type of these NodePools has them.
        values
            .entry(OS.to_owned())
            .or_default()
            .extend(["linux", "windows"].map(str::to_owned));
        let reserved = values.entry(label::CAPACITY_TYPE.to_owned()).or_default();
        reserved.extend(["on-demand", "reserved", "spot"].map(str::to_owned));
        Self {
            keys,
            values,
            resources,
        }
    }

    /// Mistakes in requirements, such as a NodePool's.
    pub(super) fn of_requirements(&self, requirements: &[NodeSelectorRequirement]) -> Vec<String> {
        let mut hints = Vec::new();
        for requirement in requirements {
            if let Some(hint) = self.of_key(&requirement.key) {
                hints.push(hint);
                continue;
            }
            if requirement.operator == Operator::In {
                let values = requirement.values.iter();
                hints.extend(values.filter_map(|value| self.of_value(&requirement.key, value)));
            }
        }
        hints
    }

    /// Mistakes in the requirements of NodePools that are ready; other NodePools are named with the reason why they are not.
    pub(crate) fn of_pools(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut hints = Vec::new();
        let used = snapshot.node_pools.iter();
        for pool in used.filter(|pool| pool.not_ready.is_none()) {
            let found = self.of_requirements(&pool.template.requirements);
            hints.extend(
                found
                    .iter()
                    .map(|hint| format!("NodePool {}: {hint}", pool.name)),
            );
        }
        hints
    }

    /// Mistakes in the node selectors and affinities of a pod.
    pub(crate) fn of_pod(&self, pod: &Pod) -> Vec<String> {
        let mut hints = Vec::new();
        for (key, value) in &pod.node_selector {
            match self.of_key(key) {
                Some(hint) => hints.push(hint),
                None => hints.extend(self.of_value(key, value)),
            }
        }
        for term in &pod.node_affinity.required {
            hints.extend(self.of_requirements(&term.match_expressions));
        }
        for spread in &pod.topology_spread {
            hints.extend(self.of_key(&spread.topology_key));
        }
        for (name, _) in pod.requests.iter() {
            if !self.resources.is_empty() && !self.resources.contains(name) {
                hints.push(format!(
                    "no instance type has the resource {name}: where nodes get it later, a NodeOverlay says so by spec.capacity"
                ));
            }
        }
        hints.dedup();
        hints
    }

    fn of_key(&self, key: &str) -> Option<String> {
        if self.keys.contains(normalized(key)) {
            return None;
        }
        let meant = nearest_key(key, self.keys.iter().map(String::as_str))?;
        Some(format!(
            "no node has the label {key} (did you mean {meant}?)"
        ))
    }

    fn of_value(&self, key: &str, value: &str) -> Option<String> {
        let key = normalized(key);
        let known = self.values.get(key)?;
        if known.contains(value) || [HOSTNAME, REGION].contains(&key) {
            return None;
        }
        let meant = nearest_value(value, known.iter().map(String::as_str));
        let what = match key {
            NODE_POOL => ": there is no NodePool of this name",
            _ => NO_TYPE,
        };
        Some(match meant {
            Some(meant) => format!("{key}={value}{what} (did you mean {meant}?)"),
            None => format!("{key}={value}{what}"),
        })
    }
}
