//! NodePools: their spec, and whether they are ready.

use api::names::annotation::REGISTRATIONS;
use serde::Deserialize;

use super::meta::{Condition, Meta, NodeClassRef, is_true, null_is_empty};
use super::metric_data::{MetricData, ObjectData};
use super::{Digest, WatchedObject, fingerprint};
use crate::change::ChangeKind;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodePool {
    metadata: Meta,
    spec: NodePoolSpec,
    status: NodePoolStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodePoolSpec {
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TemplateSpec {
    node_class_ref: NodeClassRef,
}

/// Usage is omitted: it follows from nodes that the relay watches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodePoolStatus {
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
}

/// Digest of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePoolDigest {
    ours: bool,
    ready: bool,
    /// The generation changes with the spec and when deletion begins; Whittle's settings are annotations.
    spec: u64,
}

impl WatchedObject for NodePool {
    const KIND: Kind = Kind::NodePool;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::NodePool(NodePoolDigest {
            ours: self.spec.template.spec.node_class_ref.is_ours(),
            ready: is_true(&self.status.conditions, "Ready"),
            spec: fingerprint(&(
                self.metadata.generation,
                self.metadata.is_deleting(),
                settings(&self.metadata),
            )),
        })
    }

    fn metric_data(&self) -> Option<MetricData> {
        let metric_data = ObjectData::new(&self.metadata, &self.status.conditions);
        Some(MetricData::Other(metric_data))
    }
}

/// Annotations that users set; annotations that turns write do not count as changes.
fn settings(metadata: &Meta) -> Vec<(&str, &str)> {
    let mut deciding = metadata.deciding_annotations();
    deciding.retain(|(key, _)| key.starts_with("whittle.sh/") && *key != REGISTRATIONS);
    deciding
}

pub fn differences(old: Option<&NodePoolDigest>, new: Option<&NodePoolDigest>) -> Vec<ChangeKind> {
    let ours = |pool: &&NodePoolDigest| pool.ours;
    let (old, new) = (old.filter(ours), new.filter(ours));
    let mut changes = Vec::new();
    if old.map(|old| old.spec) != new.map(|new| new.spec) {
        changes.push(ChangeKind::NodePoolChanged);
    } else if old.map(|old| old.ready) != new.map(|new| new.ready) {
        changes.push(ChangeKind::NodePoolReadyChanged);
    }
    changes
}
