//! Pods: pending ones, and those whose coming and going moves a drain or an empty node along.

use serde::Deserialize;

use super::meta::{Condition, Meta, is_true, null_is_empty};
use super::{Digest, Key, Watched, fingerprint};
use crate::change::What;
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

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDigest {
    pub node: Option<Key>,
    /// Waits for capacity a node could bring (docs/spec/scheduling.md#provisionable).
    pub provisionable: bool,
    /// Owned by a DaemonSet, or static: its coming and going says nothing about how its node is used.
    daemon: bool,
    /// Terminal or terminating.
    ending: bool,
    ready: bool,
    /// Value of `karpenter.sh/do-not-disrupt`, as a hash; 0 without one.
    protection: u64,
    /// What a pending pod may change while it waits.
    shape: u64,
}

impl PodDigest {
    /// The node that the pod keeps from being empty.
    pub fn occupied(&self) -> Option<Key> {
        self.node.filter(|_| !self.daemon && !self.ending)
    }
}

impl Watched for Pod {
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

pub fn differences(old: Option<&PodDigest>, new: Option<&PodDigest>) -> Vec<What> {
    let mut changes = Vec::new();
    let Some(new) = new else {
        changes.extend(
            old.filter(|old| old.node.is_some())
                .map(|old| What::PodMoved { daemon: old.daemon }),
        );
        return changes;
    };
    let pending = |pod: &PodDigest| pod.provisionable.then_some(pod.shape);
    if new.provisionable && old.and_then(pending) != pending(new) {
        changes.push(What::PodUnschedulable);
    }
    if new.node.is_none() {
        return changes;
    }
    if old.and_then(|old| old.node) != new.node
        || (new.ending && !old.is_some_and(|old| old.ending))
    {
        changes.push(What::PodMoved { daemon: new.daemon });
    }
    match (old.is_some_and(|old| old.ready), new.ready) {
        (false, true) => changes.push(What::PodReady),
        (true, false) => changes.push(What::PodUnready),
        (true, true) | (false, false) => {}
    }
    if old.is_some_and(|old| old.protection != new.protection) {
        changes.push(What::PodProtectionChanged);
    }
    changes
}
