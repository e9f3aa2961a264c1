use model::{
    node_claim::{Condition, NodeClaim, NodeClaimSpec, NodeClaimStatus},
    selector::NodeSelectorRequirement,
};

use super::amounts::trusted_amounts;
use super::selector::{requirement, taints};
use crate::quantity::ResourceList;
use crate::{conditions, karpenter};

impl From<karpenter::NodeClaim> for NodeClaim {
    fn from(claim: karpenter::NodeClaim) -> Self {
        let karpenter::NodeClaim {
            metadata,
            spec,
            status,
        } = claim;
        Self {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or(0),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            created_at: metadata.creation_timestamp,
            deleted_at: metadata.deletion_timestamp,
            spec: spec.into(),
            status: status.unwrap_or_default().into(),
        }
    }
}

impl From<karpenter::NodeClaimSpec> for NodeClaimSpec {
    fn from(spec: karpenter::NodeClaimSpec) -> Self {
        let requests = spec.resources.and_then(|resources| resources.requests);
        Self {
            node_class: spec.node_class_ref.into(),
            requirements: requirements(spec.requirements),
            requests: amounts_of(requests),
            taints: taints(spec.taints),
            startup_taints: taints(spec.startup_taints),
            expire_after: Some(spec.expire_after.as_str().to_owned()),
            termination_grace_period: spec
                .termination_grace_period
                .map(|period| period.as_str().to_owned()),
        }
    }
}

impl From<karpenter::NodeClaimStatus> for NodeClaimStatus {
    fn from(status: karpenter::NodeClaimStatus) -> Self {
        Self {
            provider_id: status.provider_id.unwrap_or_default(),
            node_name: status
                .node_name
                .filter(|name| !name.is_empty())
                .map(Into::into),
            image_id: status.image_id.unwrap_or_default(),
            capacity: amounts_of(status.capacity),
            allocatable: amounts_of(status.allocatable),
            conditions: status
                .conditions
                .into_iter()
                .flatten()
                .map(Into::into)
                .collect(),
            last_pod_event: status.last_pod_event_time,
        }
    }
}

impl From<conditions::Condition> for Condition {
    fn from(condition: conditions::Condition) -> Self {
        Self {
            kind: condition.r#type,
            status: condition.status.into(),
            reason: condition.reason,
            message: condition.message,
            last_transition: condition.last_transition_time,
            observed_generation: condition.observed_generation,
        }
    }
}

/// The API server's schema rejects unknown operators.
pub(super) fn requirements(entries: Vec<karpenter::Requirement>) -> Vec<NodeSelectorRequirement> {
    entries.into_iter().filter_map(requirement).collect()
}

fn amounts_of(list: Option<ResourceList>) -> model::Resources {
    list.as_ref().map(trusted_amounts).unwrap_or_default()
}
