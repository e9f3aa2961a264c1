//! Nodes: heartbeats and image lists are left out, what lanes act on is kept.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::facts::{Facts, NodeFacts, ObjectFacts, is_told, resources};
use super::meta::{Condition, Meta, null_is_empty};
use super::{Digest, Watched, fingerprint};
use crate::change::What;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    metadata: Meta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSpec {
    #[serde(rename = "providerID")]
    provider_id: String,
    unschedulable: bool,
    #[serde(deserialize_with = "null_is_empty")]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "null_is_empty")]
    capacity: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    allocatable: BTreeMap<String, String>,
    #[serde(rename = "nodeInfo")]
    node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

/// What is kept of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDigest {
    /// Kept whole because changes of its pods are told by its name.
    pub name: Box<str>,
    pub managed: bool,
    pub deleting: bool,
    /// Its pods are to be placed elsewhere: tainted `karpenter.sh/disrupted`, or deleting.
    disrupted: bool,
    /// Whether the node is rebooted in place: tainted `karpenter.sh/rebooting`.
    rebooting: bool,
    has_provider_id: bool,
    content: u64,
}

impl NodeDigest {
    /// Whether its pods are asked to leave.
    pub fn is_draining(&self) -> bool {
        self.managed && (self.deleting || self.rebooting)
    }
}

impl Node {
    /// Nodes made by old releases lack the NodeClass label; EKS Auto Mode's carry the NodePool label, too.
    fn is_managed(&self) -> bool {
        let has_label = |key| self.metadata.labels.contains_key(key);
        has_label("karpenter.k8s.aws/ec2nodeclass")
            || (has_label("karpenter.sh/nodepool") && !has_label("eks.amazonaws.com/nodeclass"))
    }
}

impl Watched for Node {
    const KIND: Kind = Kind::Node;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let managed = self.is_managed();
        let has_taint = |key: &str| {
            let mut taints = spec.taints.iter();
            taints.any(|taint| taint.key == key && taint.effect == "NoSchedule")
        };
        Digest::Node(NodeDigest {
            name: metadata.name.as_str().into(),
            managed,
            deleting: metadata.is_deleting(),
            disrupted: managed && (has_taint("karpenter.sh/disrupted") || metadata.is_deleting()),
            rebooting: has_taint("karpenter.sh/rebooting"),
            has_provider_id: !spec.provider_id.is_empty(),
            content: fingerprint(&(
                (
                    &metadata.labels,
                    metadata.deciding_annotations(),
                    &metadata.finalizers,
                ),
                (&spec.provider_id, spec.unschedulable, &spec.taints),
                (
                    statuses(&status.conditions),
                    &status.capacity,
                    &status.allocatable,
                    &status.node_info.boot_id,
                ),
            )),
        })
    }

    fn facts(&self) -> Option<Facts> {
        let Self {
            metadata, status, ..
        } = self;
        let labels = metadata.labels.iter().filter(|(key, _)| is_told(key));
        let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
        Some(Facts::Node(Box::new(NodeFacts {
            object: ObjectFacts::new(metadata, &status.conditions),
            created_at: metadata.created_at(),
            labels: labels.collect(),
            managed: self.is_managed(),
            capacity: resources(&status.capacity),
            allocatable: resources(&status.allocatable),
        })))
    }
}

/// Type, status and, where node repair looks at it, reason. Those of the kubelet's conditions change with its wording.
fn statuses(conditions: &[Condition]) -> Vec<(&str, &str, &str)> {
    let mut statuses: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let (name, reason) = (condition.name.as_str(), condition.reason.as_str());
            let reason = match name {
                "AcceleratedHardwareReady" => reason,
                _ => "",
            };
            (name, condition.status.as_str(), reason)
        })
        .collect();
    statuses.sort_unstable();
    statuses
}

pub fn differences(old: Option<&NodeDigest>, new: Option<&NodeDigest>) -> Vec<What> {
    let Some(new) = new else {
        return old
            .map(|old| What::NodeGone {
                managed: old.managed,
            })
            .into_iter()
            .collect();
    };
    let mut changes = Vec::new();
    // A Node that its cloud controller gives a provider ID can now be matched with a NodeClaim: as good as new.
    if !old.is_some_and(|old| old.has_provider_id || !new.has_provider_id) {
        changes.push(What::NodeAppeared);
    } else if old.is_some_and(|old| old.content != new.content) {
        changes.push(What::NodeChanged);
    }
    if new.disrupted && !old.is_some_and(|old| old.disrupted) {
        changes.push(What::NodeDisrupted);
    }
    if new.is_draining() && !old.is_some_and(NodeDigest::is_draining) {
        changes.push(What::NodeDraining);
    }
    changes
}
