//! Conversion of pods, and of pod templates to the pods they create.

use std::collections::BTreeMap;

use model::{
    PodKey,
    pod::{
        Deletion, HostPort, NodeAffinity, NodeInclusionPolicy, Owner, Pod, PodAffinity,
        PodAffinityTerm, PodPhase, PodShape, PodVolume, TopologySpread, WhenUnsatisfiable,
    },
    selector::{LabelExpression, LabelOperator, LabelSelector},
    taint::{TaintEffect, Toleration, TolerationOperator},
};

use super::DEFAULT_NAMESPACE;
use super::devices;
use super::pod_requests::pod_requests;
use super::selector::{label_selector, node_selector_term};
use crate::conditions::ConditionStatus;
use crate::kubernetes;
use crate::meta::{ObjectMeta, OwnerReference};

/// The unspecified address, which takes the host port on every address.
const EVERY_ADDRESS: &str = "0.0.0.0";
const DEFAULT_PROTOCOL: &str = "TCP";
const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl From<kubernetes::Pod> for Pod {
    fn from(pod: kubernetes::Pod) -> Self {
        let kubernetes::Pod {
            metadata,
            spec,
            status,
        } = pod;
        let mut problems = Vec::new();
        let mut problem = |text: String| problems.push(text);

        let (requests, limits) = pod_requests(&spec, &status, &mut problem);
        let resource_claims = !spec.resource_claims.is_empty()
            || containers(&spec).any(|container| !container.resources.claims.is_empty());
        let host_ports = host_ports(&spec);
        let claims = devices::of_pod(spec.resource_claims, &status.resource_claim_statuses);
        let affinity = spec.affinity.unwrap_or_default();
        let condition = |kind: &str| {
            status
                .conditions
                .iter()
                .find(|condition| condition.r#type == kind)
        };

        let unschedulable = condition("PodScheduled")
            .is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable"));
        let ready =
            condition("Ready").is_some_and(|condition| condition.status == ConditionStatus::True);
        let shape = PodShape {
            requests,
            limits,
            host_ports,
            resource_claims,
            device_claims: claims,
            node_selector: spec.node_selector,
            node_affinity: node_affinity(affinity.node_affinity.unwrap_or_default(), &mut problem),
            pod_affinity: pod_affinity(affinity.pod_affinity.unwrap_or_default(), &metadata.labels),
            pod_anti_affinity: pod_affinity(
                affinity.pod_anti_affinity.unwrap_or_default(),
                &metadata.labels,
            ),
            topology_spread: spec
                .topology_spread_constraints
                .into_iter()
                .filter_map(|constraint| topology_spread(constraint, &mut problem))
                .collect(),
            tolerations: spec
                .tolerations
                .into_iter()
                .filter_map(|toleration| self::toleration(toleration, &mut problem))
                .collect(),
            volumes: spec.volumes.into_iter().filter_map(volume).collect(),
            scheduling_gates: spec
                .scheduling_gates
                .into_iter()
                .map(|gate| gate.name)
                .collect(),
            priority: spec.priority,
            preemption_never: spec.preemption_policy.as_deref() == Some("Never"),
            critical: matches!(
                spec.priority_class_name.as_deref(),
                Some("system-cluster-critical" | "system-node-critical")
            ),
            scheduler_name: spec
                .scheduler_name
                .unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned()),
            termination_grace_seconds: spec.termination_grace_period_seconds,
            owner: owner(metadata.owner_references),
            labels: metadata.labels,
            annotations: metadata.annotations,
            problems,
        };
        Self {
            key: PodKey {
                namespace: metadata
                    .namespace
                    .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
                name: metadata.name,
            },
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            created_at: metadata.creation_timestamp,
            deletion: metadata.deletion_timestamp.map(|at| Deletion {
                at,
                grace_seconds: metadata.deletion_grace_period_seconds.unwrap_or(0),
            }),
            node_name: non_empty(spec.node_name).map(Into::into),
            nominated_node: non_empty(status.nominated_node_name).map(Into::into),
            phase: phase(status.phase),
            ready,
            unschedulable,
            started_at: status.start_time,
            shape: shape.into(),
        }
    }
}

/// The pod that a template creates in this namespace. A limit without a request becomes the request, as in the API
/// server (docs/spec/scheduling.md#resources).
pub(super) fn from_template(template: kubernetes::PodTemplateSpec, namespace: &str) -> Pod {
    let kubernetes::PodTemplateSpec { metadata, mut spec } = template;
    for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
        let kubernetes::ResourceRequirements {
            requests, limits, ..
        } = &mut container.resources;
        for (name, limit) in limits {
            requests
                .entry(name.clone())
                .or_insert_with(|| limit.clone());
        }
    }
    let metadata = ObjectMeta {
        namespace: Some(namespace.to_owned()),
        ..metadata
    };
    kubernetes::Pod {
        metadata,
        spec,
        status: kubernetes::PodStatus::default(),
    }
    .into()
}

fn containers(spec: &kubernetes::PodSpec) -> impl Iterator<Item = &kubernetes::Container> {
    spec.containers.iter().chain(&spec.init_containers)
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn phase(phase: Option<kubernetes::PodPhase>) -> PodPhase {
    match phase {
        None | Some(kubernetes::PodPhase::Pending) => PodPhase::Pending,
        Some(kubernetes::PodPhase::Running) => PodPhase::Running,
        Some(kubernetes::PodPhase::Succeeded) => PodPhase::Succeeded,
        Some(kubernetes::PodPhase::Failed) => PodPhase::Failed,
        Some(kubernetes::PodPhase::Unknown | kubernetes::PodPhase::Other(_)) => PodPhase::Unknown,
    }
}

/// The owner that determines how the pod is handled: a DaemonSet or (for static pods) a Node, even if it is not the
/// controller (docs/spec/scheduling.md#provisionable); otherwise the controller.
fn owner(references: Vec<OwnerReference>) -> Option<Owner> {
    let rank = |owner: &OwnerReference| match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "DaemonSet") | ("v1", "Node") => Some(0),
        _ if owner.controller == Some(true) => Some(1),
        _ => None,
    };
    let (_, owner) = references
        .into_iter()
        .filter_map(|owner| Some((rank(&owner)?, owner)))
        .min_by_key(|(rank, _)| *rank)?;
    Some(Owner {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid.into(),
    })
}

/// Host ports of the containers that run as long as the pod: ordinary containers and sidecars, as in kube-scheduler
/// (docs/spec/scheduling.md#host-ports).
fn host_ports(spec: &kubernetes::PodSpec) -> Vec<HostPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let running = spec.containers.iter().chain(sidecars);
    running
        .flat_map(|container| &container.ports)
        .filter_map(|port| {
            Some(HostPort {
                port: port.host_port.filter(|port| *port != 0)?,
                ip: non_empty(port.host_ip.clone()).unwrap_or_else(|| EVERY_ADDRESS.to_owned()),
                protocol: non_empty(port.protocol.clone())
                    .unwrap_or_else(|| DEFAULT_PROTOCOL.to_owned()),
            })
        })
        .collect()
}

fn node_affinity(
    affinity: kubernetes::NodeAffinity,
    problem: &mut dyn FnMut(String),
) -> NodeAffinity {
    const PATH: &str = "spec.affinity.nodeAffinity";
    let terms = affinity
        .required
        .map(|required| required.node_selector_terms)
        .unwrap_or_default();
    let mut required: Vec<_> = terms
        .into_iter()
        .filter_map(|term| node_selector_term(term, PATH, problem))
        .collect();
    // A required term without expressions matches no node, so it has no effect next to other terms.
    let matches = |term: &model::pod::NodeSelectorTerm| {
        !(term.match_expressions.is_empty() && term.match_fields.is_empty())
    };
    if required.iter().any(matches) {
        required.retain(matches);
    } else if !required.is_empty() {
        problem(format!(
            "{PATH}: a required term without expressions matches no node: expected matchExpressions"
        ));
    }
    NodeAffinity {
        required,
        preferred: affinity
            .preferred
            .into_iter()
            .filter_map(|term| {
                Some((
                    term.weight,
                    node_selector_term(term.preference, PATH, problem)?,
                ))
            })
            .collect(),
    }
}

fn pod_affinity(
    affinity: kubernetes::PodAffinity,
    labels: &BTreeMap<String, String>,
) -> PodAffinity {
    PodAffinity {
        required: affinity
            .required
            .into_iter()
            .map(|term| pod_affinity_term(term, labels))
            .collect(),
        preferred: affinity
            .preferred
            .into_iter()
            .map(|term| {
                (
                    term.weight,
                    pod_affinity_term(term.pod_affinity_term, labels),
                )
            })
            .collect(),
    }
}

fn pod_affinity_term(
    term: kubernetes::PodAffinityTerm,
    labels: &BTreeMap<String, String>,
) -> PodAffinityTerm {
    let selector = term.label_selector.and_then(label_selector);
    let selector = selector.map(|mut selector| {
        let (same, other) = (&term.match_label_keys, &term.mismatch_label_keys);
        merge_label_keys(&mut selector, same, LabelOperator::In, labels);
        merge_label_keys(&mut selector, other, LabelOperator::NotIn, labels);
        selector
    });
    PodAffinityTerm {
        topology_key: term.topology_key,
        selector,
        namespaces: term.namespaces,
        namespace_selector: term.namespace_selector.and_then(label_selector),
        match_label_keys: term.match_label_keys,
        mismatch_label_keys: term.mismatch_label_keys,
    }
}

/// Adds the pod's own values of these labels to the selector, as the API server does when the pod is created
/// (docs/spec/scheduling.md#pod-affinity). The selector of a pod that was read from a cluster contains them already, and
/// stays as it is even if the pod's labels have changed since.
fn merge_label_keys(
    selector: &mut LabelSelector,
    keys: &[String],
    operator: LabelOperator,
    labels: &BTreeMap<String, String>,
) {
    for key in keys {
        let Some(value) = labels.get(key) else {
            continue;
        };
        let is_merged = selector.match_expressions.iter().any(|expression| {
            expression.key == *key
                && expression.operator == operator
                && expression.values.len() == 1
        });
        if !is_merged {
            selector.match_expressions.push(LabelExpression {
                key: key.clone(),
                operator,
                values: vec![value.clone()],
            });
        }
    }
}

fn topology_spread(
    constraint: kubernetes::TopologySpreadConstraint,
    problem: &mut dyn FnMut(String),
) -> Option<TopologySpread> {
    let when_unsatisfiable = match constraint.when_unsatisfiable {
        kubernetes::UnsatisfiableAction::DoNotSchedule => WhenUnsatisfiable::DoNotSchedule,
        kubernetes::UnsatisfiableAction::ScheduleAnyway => WhenUnsatisfiable::ScheduleAnyway,
        kubernetes::UnsatisfiableAction::Other(text) => {
            problem(format!(
                "spec.topologySpreadConstraints: whenUnsatisfiable \"{text}\": expected DoNotSchedule or ScheduleAnyway"
            ));
            return None;
        }
    };
    if constraint.max_skew < 1 {
        problem(format!(
            "spec.topologySpreadConstraints: maxSkew {}: expected a number greater than zero",
            constraint.max_skew
        ));
        return None;
    }
    Some(TopologySpread {
        topology_key: constraint.topology_key,
        max_skew: constraint.max_skew,
        when_unsatisfiable,
        selector: constraint.label_selector.and_then(label_selector),
        min_domains: constraint.min_domains,
        node_affinity_policy: constraint.node_affinity_policy.and_then(inclusion_policy),
        node_taints_policy: constraint.node_taints_policy.and_then(inclusion_policy),
        match_label_keys: constraint.match_label_keys,
    })
}

/// `None` (the default) also for an unknown policy, which the API server rejects.
fn inclusion_policy(policy: kubernetes::NodeInclusionPolicy) -> Option<NodeInclusionPolicy> {
    match policy {
        kubernetes::NodeInclusionPolicy::Honor => Some(NodeInclusionPolicy::Honor),
        kubernetes::NodeInclusionPolicy::Ignore => Some(NodeInclusionPolicy::Ignore),
        kubernetes::NodeInclusionPolicy::Other(_) => None,
    }
}

fn toleration(
    toleration: kubernetes::Toleration,
    problem: &mut dyn FnMut(String),
) -> Option<Toleration> {
    use crate::karpenter::TaintEffect as WireEffect;
    let mut unknown = |field: &str, text: &str, allowed: &str| {
        problem(format!(
            "spec.tolerations: {field} \"{text}\": expected {allowed}"
        ));
    };
    let operator = match toleration.operator {
        None | Some(kubernetes::TolerationOperator::Equal) => TolerationOperator::Equal,
        Some(kubernetes::TolerationOperator::Exists) => TolerationOperator::Exists,
        Some(kubernetes::TolerationOperator::Gt) => TolerationOperator::Gt,
        Some(kubernetes::TolerationOperator::Lt) => TolerationOperator::Lt,
        Some(kubernetes::TolerationOperator::Other(text)) if text.is_empty() => {
            TolerationOperator::Equal
        }
        Some(kubernetes::TolerationOperator::Other(text)) => {
            unknown("operator", &text, "Equal, Exists, Gt or Lt");
            return None;
        }
    };
    let effect = match toleration.effect {
        None => None,
        Some(WireEffect::NoSchedule) => Some(TaintEffect::NoSchedule),
        Some(WireEffect::PreferNoSchedule) => Some(TaintEffect::PreferNoSchedule),
        Some(WireEffect::NoExecute) => Some(TaintEffect::NoExecute),
        Some(WireEffect::Other(text)) if text.is_empty() => None,
        Some(WireEffect::Other(text)) => {
            unknown("effect", &text, "NoSchedule, PreferNoSchedule or NoExecute");
            return None;
        }
    };
    Some(Toleration {
        key: toleration.key,
        operator,
        value: toleration.value,
        effect,
        toleration_seconds: toleration.toleration_seconds,
    })
}

fn volume(volume: kubernetes::Volume) -> Option<PodVolume> {
    if let Some(claim) = volume.persistent_volume_claim {
        return Some(PodVolume::Claim {
            claim: claim.claim_name,
        });
    }
    let ephemeral = volume.ephemeral?;
    Some(PodVolume::Ephemeral {
        volume: volume.name,
        storage_class: ephemeral
            .volume_claim_template
            .and_then(|template| template.spec.storage_class_name),
    })
}
