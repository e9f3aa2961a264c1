//! NodeClaims: one per node that Whittle manages, from the decision to launch it until its instance is gone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{NodeClaimName, NodeClassName, NodeName, NodePoolName, Uid},
    node::ConditionStatus,
    resources::Resources,
    selector::NodeSelectorRequirement,
    taint::Taint,
};

/// A NodeClaim as the API server holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClaim {
    pub name: NodeClaimName,
    pub uid: Uid,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub created_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
    pub spec: NodeClaimSpec,
    pub status: NodeClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClaimSpec {
    pub node_class: NodeClassRef,
    pub requirements: Vec<NodeSelectorRequirement>,
    pub requests: Resources,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    /// Duration as the user wrote it, such as `720h`; `None` if absent.
    pub expire_after: Option<String>,
    pub termination_grace_period: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClaimStatus {
    pub provider_id: String,
    pub node_name: Option<NodeName>,
    pub image_id: String,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub conditions: Vec<Condition>,
    pub last_pod_event: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeClassRef {
    pub group: String,
    pub kind: String,
    pub name: NodeClassName,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    pub last_transition: Timestamp,
    pub observed_generation: Option<i64>,
}

impl NodeClaim {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    pub fn node_pool(&self) -> Option<NodePoolName> {
        self.labels
            .get("karpenter.sh/nodepool")
            .map(|name| name.as_str().into())
    }
}
