//! NodePools: their spec, and whether they may be used.

use api::names::annotation::REGISTRATIONS;
use serde::Deserialize;

use super::facts::{Facts, ObjectFacts};
use super::meta::{Condition, Meta, NodeClassRef, is_true, null_is_empty};
use super::{Digest, Watched, fingerprint};
use crate::change::What;
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

/// Usage counts are left out: they follow from nodes the relay sees itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodePoolStatus {
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
}

/// What is kept of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePoolDigest {
    ours: bool,
    ready: bool,
    /// Generation moves with every change of the spec and when deletion begins; settings of ours are annotations.
    spec: u64,
}

impl Watched for NodePool {
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

    fn facts(&self) -> Option<Facts> {
        let facts = ObjectFacts::new(&self.metadata, &self.status.conditions);
        Some(Facts::Other(facts))
    }
}

/// What users set by annotations; what turns write down there is no change.
fn settings(metadata: &Meta) -> Vec<(&str, &str)> {
    let mut deciding = metadata.deciding_annotations();
    deciding.retain(|(key, _)| key.starts_with("whittle.sh/") && *key != REGISTRATIONS);
    deciding
}

pub fn differences(old: Option<&NodePoolDigest>, new: Option<&NodePoolDigest>) -> Vec<What> {
    let ours = |pool: &&NodePoolDigest| pool.ours;
    let (old, new) = (old.filter(ours), new.filter(ours));
    let mut changes = Vec::new();
    if old.map(|old| old.spec) != new.map(|new| new.spec) {
        changes.push(What::NodePoolChanged);
    } else if old.map(|old| old.ready) != new.map(|new| new.ready) {
        changes.push(What::NodePoolReadyChanged);
    }
    changes
}
