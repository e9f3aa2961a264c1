//! Selects the pods to place, and rejects pods with impossible requirements (docs/spec/scheduling.md#intake).

mod unreachable;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    Snapshot,
    labels::{self, NODE_POOL},
    plan::{PodRef, Refusal, Unplaced},
    pod::{Pod, PodVolume},
    requirement::Requirement,
    selector::{NodeSelectorRequirement, Operator},
    snapshot::Optimize,
    spelling,
    volume::{Storage, StorageClass, Volume, VolumeClaim},
};

use self::unreachable::Unreachable;
use super::{
    movable::{is_movable, is_static},
    named_node::NAME_FIELD,
};
use crate::{
    inventory::{Inventory, is_daemon, is_terminal},
    pdb_limits::PdbLimits,
    pods::is_reschedulable,
};

/// Pods to place: pending pods, then those of nodes that are being deleted.
pub(crate) struct Intake<'a> {
    pub(crate) pods: Vec<&'a Pod>,
    pub(crate) refused: Vec<Unplaced>,
}

pub(crate) fn intake<'a>(
    snapshot: &'a Snapshot,
    inventory: &Inventory<'a>,
    now: Timestamp,
) -> Intake<'a> {
    let pdb_limits = PdbLimits::new(&snapshot.disruption_budgets, snapshot.settings.optimize);
    let validation = PodValidation::new(snapshot);
    let mut intake = Intake {
        pods: Vec::new(),
        refused: Vec::new(),
    };
    for pod in snapshot.pods.iter().filter(|pod| is_provisionable(pod)) {
        match validation.problem(pod) {
            None => intake.pods.push(pod),
            Some(text) => intake.refused.push(Unplaced {
                pod: PodRef {
                    key: pod.key.clone(),
                    uid: pod.uid.clone(),
                },
                reasons: vec![Refusal {
                    node_pool: None,
                    text,
                    limited: false,
                }],
            }),
        }
    }
    for state_node in inventory
        .state_nodes
        .iter()
        .filter(|state_node| state_node.deleting)
    {
        let moving = state_node.pods.iter().copied();
        intake.pods.extend(
            moving.filter(|pod| match state_node.terminating_unconditionally {
                true => is_reschedulable(pod),
                false => is_movable(pod, &pdb_limits, now),
            }),
        );
    }
    intake
}

/// Whether a pending pod needs a new node (docs/spec/scheduling.md#provisionable). Karpenter also counts pods that are terminal
/// or being deleted.
pub fn is_provisionable(pod: &Pod) -> bool {
    pod.unschedulable
        && pod.deletion.is_none()
        && !is_terminal(pod)
        && pod.node_name.is_none()
        && pod.nominated_node.is_none()
        && !is_daemon(pod)
        && !is_static(pod)
}

/// Checks whether pods can be planned for.
pub(super) struct PodValidation<'a> {
    snapshot: &'a Snapshot,
    claims: BTreeMap<(&'a str, &'a str), &'a VolumeClaim>,
    volumes: BTreeMap<&'a str, &'a Volume>,
    classes: BTreeMap<&'a str, &'a StorageClass>,
    unreachable: Unreachable<'a>,
}

impl<'a> PodValidation<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let Storage {
            claims,
            volumes,
            classes,
            ..
        } = &snapshot.storage;
        Self {
            snapshot,
            unreachable: Unreachable::new(snapshot),
            claims: claims
                .iter()
                .map(|claim| ((claim.namespace.as_str(), claim.name.as_str()), claim))
                .collect(),
            volumes: volumes.iter().map(|v| (v.name.as_str(), v)).collect(),
            classes: classes.iter().map(|c| (c.name.as_str(), c)).collect(),
        }
    }

    /// Returns why the pod cannot be planned for at all.
    pub(super) fn problem(&self, pod: &Pod) -> Option<String> {
        if let Some(problem) = pod.problems.first() {
            return Some(problem.clone());
        }
        if opts_out(pod) {
            return Some(format!(
                "requires nodes without label {NODE_POOL}, which nodes of NodePools have"
            ));
        }
        if pod.resource_claims && !self.snapshot.settings.device_claims {
            return Some(
                "uses resource claims (dynamic resource allocation), which the cluster's settings ignore (ignoreDRARequests)"
                    .to_owned(),
            );
        }
        let selected = pod
            .node_selector
            .iter()
            .map(|(key, value)| NodeSelectorRequirement {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.clone()],
                min_values: None,
            });
        let terms = &pod.node_affinity.required;
        let mut fields = terms.iter().flat_map(|term| &term.match_fields);
        if let Some(field) = fields.find(|field| !self.may_name_nodes() || field.key != NAME_FIELD)
        {
            let key = &field.key;
            return Some(format!(
                "required node affinity selects by field {key}, which is not supported"
            ));
        }
        let required = terms
            .iter()
            .flat_map(|term| &term.match_expressions)
            .cloned();
        selected
            .chain(required)
            .find_map(|entry| self.invalid(&entry))
            .or_else(|| {
                pod.volumes
                    .iter()
                    .find_map(|volume| self.volume_problem(pod, volume))
            })
            .or_else(|| self.unreachable.problem(pod))
    }

    /// Whether a pod may select its node by name. Kubernetes' scheduler supports that; Karpenter ignores such pods.
    fn may_name_nodes(&self) -> bool {
        self.snapshot.settings.optimize == Optimize::Cost
    }

    /// Error of Karpenter's validation of a requirement (docs/spec/scheduling.md#requirement-validation).
    fn invalid(&self, entry: &NodeSelectorRequirement) -> Option<String> {
        let key = labels::normalized(&entry.key);
        let settings = &self.snapshot.settings;
        let well_known = labels::WELL_KNOWN.contains(&key)
            || settings.well_known_labels.iter().any(|known| known == key);
        let restricted = key == labels::HOSTNAME && !self.may_name_nodes()
            || labels::is_in_domain(key, labels::RESTRICTED_DOMAIN)
            || settings
                .restricted_domains
                .iter()
                .any(|domain| labels::is_in_domain(key, domain));
        if restricted && !well_known {
            let is_set = [labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED].contains(&key);
            let provider = settings.well_known_labels.iter().map(String::as_str);
            let known = labels::WELL_KNOWN.into_iter().chain(provider);
            return Some(match spelling::nearest_key(key, known) {
                _ if is_set => format!("cannot require label {key}: the provisioner sets it"),
                Some(meant) => {
                    format!("requires label {key}, which no node has (did you mean {meant}?)")
                }
                None => format!("requires label {key}, which no node has"),
            });
        }
        if !is_qualified_name(key) {
            return Some(format!("\"{key}\" is not a label key"));
        }
        if let Some(value) = entry.values.iter().find(|value| !is_label_value(value)) {
            return Some(format!("label {key}: \"{value}\" is not a label value"));
        }
        match entry.operator {
            Operator::In if entry.values.is_empty() => {
                Some(format!("label {key}: operator In needs a value"))
            }
            Operator::In if key == labels::CAPACITY_TYPE => {
                let valid = |value: &String| value.parse::<model::CapacityType>().is_ok();
                (!entry.values.iter().any(valid)).then(|| {
                    let known = ["reserved", "spot", "on-demand"];
                    let mut values = entry.values.iter();
                    let meant = values.find_map(|value| spelling::nearest_value(value, known));
                    let meant = meant.map(|meant| format!(" (did you mean {meant}?)"));
                    format!(
                        "label {key}: expected reserved, spot or on-demand, not {}{}",
                        entry.values.join(", "),
                        meant.unwrap_or_default()
                    )
                })
            }
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                let bound = match entry.values.as_slice() {
                    [value] => value.parse::<i64>().ok().filter(|bound| *bound >= 0),
                    _ => None,
                };
                bound.is_none().then(|| {
                    format!(
                        "label {key}: operator {:?} needs one whole number, not \"{}\"",
                        entry.operator,
                        entry.values.join(", ")
                    )
                })
            }
            Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => None,
        }
    }

    /// Error about a volume that cannot be attached anywhere yet (docs/spec/scheduling.md#volume-validation).
    fn volume_problem(&self, pod: &Pod, volume: &PodVolume) -> Option<String> {
        let name = match volume {
            PodVolume::Claim { claim } => claim.clone(),
            PodVolume::Ephemeral { volume, .. } => format!("{}-{volume}", pod.key.name),
        };
        let Some(claim) = self
            .claims
            .get(&(pod.key.namespace.as_str(), name.as_str()))
        else {
            return Some(format!("volume claim {name} does not exist"));
        };
        if claim.deleting {
            return Some(format!("volume claim {name} is being deleted"));
        }
        if claim.lost {
            return Some(format!("volume claim {name} has lost its volume"));
        }
        if let Some(bound) = &claim.volume {
            return match self.volumes.get(bound.as_str()) {
                None => Some(format!(
                    "volume claim {name} is bound to {bound}, which does not exist"
                )),
                Some(volume) if volume.deleting => {
                    Some(format!("volume {bound} of claim {name} is being deleted"))
                }
                Some(_) if !claim.bind_completed => {
                    Some(format!("volume claim {name} is not bound completely yet"))
                }
                Some(_) => None,
            };
        }
        let Some(class) = claim
            .storage_class
            .as_deref()
            .filter(|class| !class.is_empty())
        else {
            return Some(format!(
                "volume claim {name} is unbound and has no storage class"
            ));
        };
        match self.classes.get(class) {
            None => Some(format!(
                "storage class {class} of volume claim {name} does not exist"
            )),
            Some(class) if !class.wait_for_first_consumer => Some(format!(
                "volume claim {name} is waiting to be bound (Immediate)"
            )),
            Some(_) => None,
        }
    }
}

/// Whether the pod excludes nodes of NodePools, even as its heaviest preference (docs/spec/scheduling.md#pod-validation).
fn opts_out(pod: &Pod) -> bool {
    let affinity = &pod.node_affinity;
    let required = affinity.required.first();
    let mut preferred: Vec<_> = affinity.preferred.iter().collect();
    preferred.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let terms = required
        .into_iter()
        .chain(preferred.first().map(|(_, term)| term));
    let expressions = terms.flat_map(|term| &term.match_expressions);
    expressions
        .filter(|entry| entry.key == NODE_POOL)
        .map(Requirement::from)
        .reduce(|a, b| a.intersection(&b))
        .is_some_and(|both| both.operator() == Operator::DoesNotExist)
}

const NAME_MAX: usize = 63;
const PREFIX_MAX: usize = 253;

fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_ok = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= PREFIX_MAX
            && prefix.split('.').all(|part| {
                is_name(part)
                    && !part.contains(['_'])
                    && part.chars().all(|c| !c.is_ascii_uppercase())
            })
    });
    prefix_ok && is_name(name)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

fn is_name(name: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= NAME_MAX
        && alphanumeric(name.chars().next())
        && alphanumeric(name.chars().next_back())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests;
