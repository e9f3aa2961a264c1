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
    /// Set on static NodePools only; those are never grown for pods.
    pub replicas: Option<i64>,
    pub limits: Resources,
    pub template: NodeClaimTemplate,
    pub disruption: Disruption,
    pub annotations: BTreeMap<String, String>,
    /// What the volumes cost that its NodeClass gives each node; nothing where they are not known.
    #[serde(default, skip_serializing_if = "NanosPerHour::is_nothing")]
    pub volume_price: NanosPerHour,
    /// Resources that its NodeClass refuses to launch anything for, whatever NodeOverlays say of its types.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused_resources: BTreeSet<String>,
    /// AMIs that its NodeClass launches, in the order in which the first that fits is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<BootImage>,
    pub deleted_at: Option<Timestamp>,
    /// What keeps this NodePool from being used, in the user's words: an invalid field, a missing or unready NodeClass.
    pub not_ready: Option<String>,
}

/// AMI that nodes boot, and which nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootImage {
    /// Its id.
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

    /// Whether its NodeClass refuses to launch anything that has this resource.
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

/// How many nodes may be disrupted at once, for which reasons and when. Text as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub nodes: String,
    pub schedule: Option<String>,
    pub duration: Option<String>,
    /// Empty means every reason.
    pub reasons: Vec<String>,
}
