//! NodePools, with the fields that decisions need.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    catalog::NanosPerHour,
    ids::{NodePoolName, Uid},
    node_claim::NodeClassRef,
    requirement::Requirements,
    resources::Resources,
    selector::{NodeSelectorRequirement, Operator},
    taint::Taint,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePool {
    pub name: NodePoolName,
    pub uid: Uid,
    pub generation: i64,
    pub weight: i32,
    /// Set on static NodePools only. Those are never scaled up for pending pods.
    pub replicas: Option<i64>,
    pub limits: Resources,
    pub template: NodeClaimTemplate,
    pub disruption: Disruption,
    pub annotations: BTreeMap<String, String>,
    /// Hourly price of the volumes that the NodeClass attaches to each node; zero if unknown.
    #[serde(default, skip_serializing_if = "NanosPerHour::is_zero")]
    pub volume_price: NanosPerHour,
    /// Resources that the NodeClass refuses to launch instance types with, even if a NodeOverlay adds them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused_resources: BTreeSet<String>,
    /// AMIs of the NodeClass, in order of preference: the first whose requirements fit is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<BootImage>,
    pub deleted_at: Option<Timestamp>,
    /// Reason why the NodePool cannot be used, as a message for the user: an invalid field, or a missing or unready
    /// NodeClass.
    pub not_ready: Option<String>,
}

/// An AMI and the requirements of instance types that boot it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootImage {
    /// AMI id.
    pub id: String,
    pub requirements: Requirements,
}

impl NodePool {
    /// Id of the AMI that a new node with these labels would boot.
    pub fn image_for(&self, labels: &BTreeMap<String, String>) -> Option<&str> {
        let fits = |image: &&BootImage| {
            let mut wanted = image.requirements.0.values();
            wanted.all(|wanted| match labels.get(&wanted.key) {
                Some(value) => wanted.has(value),
                None => matches!(wanted.operator(), Operator::NotIn | Operator::DoesNotExist),
            })
        };
        let image = self.images.iter().find(fits);
        image.map(|image| image.id.as_str())
    }

    /// Whether the NodeClass refuses instance types with this resource.
    pub fn refuses(&self, resource: &str) -> bool {
        self.refused_resources.contains(resource)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub node_class: NodeClassRef,
    pub requirements: Vec<NodeSelectorRequirement>,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub expire_after: Option<String>,
    pub termination_grace_period: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disruption {
    pub policy: ConsolidationPolicy,
    pub consolidate_after: ConsolidateAfter,
    pub budgets: Vec<Budget>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    #[default]
    WhenEmptyOrUnderutilized,
    WhenEmpty,
    Balanced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsolidateAfter {
    Never,
    Seconds(i64),
}

impl Default for ConsolidateAfter {
    fn default() -> Self {
        Self::Seconds(0)
    }
}

/// Bound on concurrently disrupted nodes, with its reasons and schedule. All values as the user wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub nodes: String,
    pub schedule: Option<String>,
    pub duration: Option<String>,
    /// Empty means every reason.
    pub reasons: Vec<String>,
}
