//! Nodes: heartbeats and image lists are ignored; the fields that lanes use are kept.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::meta::{Condition, Meta, null_is_empty};
use super::metric_data::{MetricData, NodeData, ObjectData, is_exported, resources};
use super::{Digest, WatchedObject, fingerprint};
use crate::change::ChangeKind;
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

/// Digest of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDigest {
    /// The complete name, because wakes about the node's pods carry it as a hint.
    pub name: Box<str>,
    pub managed: bool,
    pub deleting: bool,
    /// Whether the node's pods have to be placed elsewhere: it is tainted `karpenter.sh/disrupted`, or being deleted.
    disrupted: bool,
    /// Whether the node is rebooted in place: it is tainted `karpenter.sh/rebooting`.
    rebooting: bool,
    has_provider_id: bool,
    content: u64,
}

impl NodeDigest {
    /// Returns whether the node's pods are being evicted.
    pub fn is_draining(&self) -> bool {
        self.managed && (self.deleting || self.rebooting)
    }
}

impl Node {
    /// Returns whether a NodeClaim of Whittle owns the node. Nodes of old releases lack the NodeClass label; those of EKS Auto
    /// Mode have the NodePool label as well.
    fn is_managed(&self) -> bool {
        let has_label = |key| self.metadata.labels.contains_key(key);
        has_label("karpenter.k8s.aws/ec2nodeclass")
            || (has_label("karpenter.sh/nodepool") && !has_label("eks.amazonaws.com/nodeclass"))
    }
}

impl WatchedObject for Node {
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

    fn metric_data(&self) -> Option<MetricData> {
        let Self {
            metadata, status, ..
        } = self;
        let labels = metadata.labels.iter().filter(|(key, _)| is_exported(key));
        let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
        Some(MetricData::Node(Box::new(NodeData {
            object: ObjectData::new(metadata, &status.conditions),
            created_at: metadata.created_at(),
            labels: labels.collect(),
            managed: self.is_managed(),
            capacity: resources(&status.capacity),
            allocatable: resources(&status.allocatable),
        })))
    }
}

/// Type and status of conditions, and the reason if node repair uses it. Reasons of the kubelet's conditions change with its
/// wording.
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

pub fn differences(old: Option<&NodeDigest>, new: Option<&NodeDigest>) -> Vec<ChangeKind> {
    let Some(new) = new else {
        return old
            .map(|old| ChangeKind::NodeGone {
                managed: old.managed,
            })
            .into_iter()
            .collect();
    };
    let mut changes = Vec::new();
    // A Node that gets its provider ID from the cloud controller can be matched with a NodeClaim from now on, like a new one.
    if !old.is_some_and(|old| old.has_provider_id || !new.has_provider_id) {
        changes.push(ChangeKind::NodeAppeared);
    } else if old.is_some_and(|old| old.content != new.content) {
        changes.push(ChangeKind::NodeChanged);
    }
    if new.disrupted && !old.is_some_and(|old| old.disrupted) {
        changes.push(ChangeKind::NodeDisrupted);
    }
    if new.is_draining() && !old.is_some_and(NodeDigest::is_draining) {
        changes.push(ChangeKind::NodeDraining);
    }
    changes
}
