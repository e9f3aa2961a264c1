//! The parts of metadata and conditions that the relay decodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// The slim `metadata` of any object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generation: i64,
    pub resource_version: String,
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub finalizers: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub owner_references: Vec<Owner>,
}

impl Meta {
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn created_at(&self) -> Option<Timestamp> {
        self.creation_timestamp.as_ref()?.parse().ok()
    }

    pub fn deleted_at(&self) -> Option<Timestamp> {
        self.deletion_timestamp.as_ref()?.parse().ok()
    }

    /// `namespace/name`, or the name of a cluster-scoped object.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// Annotations of Karpenter's groups and of Whittle's, which decisions use; others, such as a CSI driver's, are irrelevant.
    pub fn deciding_annotations(&self) -> Vec<(&str, &str)> {
        let deciding = ["karpenter.sh/", "karpenter.k8s.aws/", "whittle.sh/"];
        self.annotations
            .iter()
            .filter(|(key, _)| deciding.iter().any(|group| key.starts_with(group)))
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect()
    }

    /// Returns whether an owner has this kind; any reference counts, not only the controller
    /// (docs/spec/lifecycle.md#pod-predicates).
    pub fn is_owned_by(&self, api_version: &str, kind: &str) -> bool {
        self.owner_references
            .iter()
            .any(|owner| owner.api_version == api_version && owner.kind == kind)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
}

/// One status condition. Digests omit its time, which does not matter to lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub name: String,
    pub status: String,
    pub reason: String,
    #[serde(rename = "lastTransitionTime")]
    last_transition: Option<String>,
}

impl Condition {
    /// Time at which the condition took its status.
    pub fn since(&self) -> Option<Timestamp> {
        self.last_transition.as_ref()?.parse().ok()
    }
}

/// The `nodeClassRef` of a NodePool's template or of a NodeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeClassRef {
    pub group: String,
    pub kind: String,
}

impl NodeClassRef {
    /// Returns whether the reference is to an EC2NodeClass. EKS Auto Mode uses Karpenter's CRDs with other NodeClasses.
    pub fn is_ours(&self) -> bool {
        self.group == "karpenter.k8s.aws" && self.kind == "EC2NodeClass"
    }
}

/// Returns whether the condition exists and is True.
pub fn is_true(conditions: &[Condition], name: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.name == name && condition.status == "True")
}

/// Decodes `null` as empty: API servers write it for an empty Go list or map.
pub fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
