//! Pods: unschedulable ones, and those that affect a drain or an empty node.

use serde::Deserialize;

use super::meta::{Condition, Meta, is_true, null_is_empty};
use super::{Digest, Key, WatchedObject, fingerprint};
use crate::change::ChangeKind;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    metadata: Meta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    nominated_node_name: String,
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
}

impl Pod {
    pub(super) fn conditions(&self) -> &[Condition] {
        &self.status.conditions
    }
}

/// Digest of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDigest {
    pub node: Option<Key>,
    /// Whether the pod needs capacity that a new node could provide (docs/spec/scheduling.md#provisionable).
    pub provisionable: bool,
    /// Whether the pod belongs to a DaemonSet or is static, so that it does not count as usage of its node.
    daemon: bool,
    /// Whether the pod has ended or is terminating.
    ending: bool,
    ready: bool,
    /// Hash of the value of `karpenter.sh/do-not-disrupt`; 0 without it.
    protection: u64,
    /// Hash of the fields that may change while the pod is pending.
    shape: u64,
}

impl PodDigest {
    /// The node that the pod keeps from being empty.
    pub fn occupied(&self) -> Option<Key> {
        self.node.filter(|_| !self.daemon && !self.ending)
    }
}

impl WatchedObject for Pod {
    const KIND: Kind = Kind::Pod;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        let daemon = self.metadata.is_owned_by("apps/v1", "DaemonSet")
            || self.metadata.is_owned_by("v1", "Node");
        let unschedulable = self.status.conditions.iter().any(|condition| {
            condition.name == "PodScheduled" && condition.reason == "Unschedulable"
        });
        let node = &self.spec.node_name;
        Digest::Pod(PodDigest {
            node: (!node.is_empty()).then(|| Key::node(node)),
            provisionable: unschedulable
                && node.is_empty()
                && self.status.nominated_node_name.is_empty()
                && !daemon,
            daemon,
            ending: self.metadata.is_deleting()
                || matches!(self.status.phase.as_str(), "Succeeded" | "Failed"),
            ready: is_true(&self.status.conditions, "Ready"),
            protection: self
                .metadata
                .annotations
                .get("karpenter.sh/do-not-disrupt")
                .map_or(0, fingerprint),
            shape: fingerprint(&(
                &self.metadata.uid,
                self.metadata.generation,
                &self.metadata.labels,
            )),
        })
    }
}

pub fn differences(old: Option<&PodDigest>, new: Option<&PodDigest>) -> Vec<ChangeKind> {
    let mut changes = Vec::new();
    let Some(new) = new else {
        changes.extend(
            old.filter(|old| old.node.is_some())
                .map(|old| ChangeKind::PodMoved { daemon: old.daemon }),
        );
        return changes;
    };
    let pending = |pod: &PodDigest| pod.provisionable.then_some(pod.shape);
    if new.provisionable && old.and_then(pending) != pending(new) {
        changes.push(ChangeKind::PodUnschedulable);
    }
    if new.node.is_none() {
        return changes;
    }
    if old.and_then(|old| old.node) != new.node
        || (new.ending && !old.is_some_and(|old| old.ending))
    {
        changes.push(ChangeKind::PodMoved { daemon: new.daemon });
    }
    match (old.is_some_and(|old| old.ready), new.ready) {
        (false, true) => changes.push(ChangeKind::PodReady),
        (true, false) => changes.push(ChangeKind::PodUnready),
        (true, true) | (false, false) => {}
    }
    if old.is_some_and(|old| old.protection != new.protection) {
        changes.push(ChangeKind::PodProtectionChanged);
    }
    changes
}
