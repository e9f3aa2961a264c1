//! EC2NodeClasses: the lifecycle lane resolves the spec, and launches use the status.

use serde::Deserialize;
use serde_json::Value;

use super::meta::{Condition, Meta, null_is_empty};
use super::metric_data::{MetricData, ObjectData};
use super::{Digest, WatchedObject, fingerprint};
use crate::change::ChangeKind;
use crate::kind::Kind;

/// The complete status is decoded, unlike for other kinds, because any part of it may change launches. NodeClasses are few, and
/// only a hash of it is kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeClass {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_empty")]
    status: serde_json::Map<String, Value>,
}

/// Digest of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClassDigest {
    spec: u64,
    status: u64,
}

impl WatchedObject for NodeClass {
    const KIND: Kind = Kind::Ec2NodeClass;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        let metadata = &self.metadata;
        Digest::NodeClass(NodeClassDigest {
            spec: fingerprint(&(
                metadata.generation,
                metadata.is_deleting(),
                &metadata.finalizers,
            )),
            status: fingerprint(&Value::Object(self.status.clone()).to_string()),
        })
    }

    fn metric_data(&self) -> Option<MetricData> {
        let conditions = self.status.get("conditions");
        let conditions: Option<Vec<Condition>> =
            conditions.and_then(|conditions| Deserialize::deserialize(conditions).ok());
        let conditions = conditions.unwrap_or_default();
        Some(MetricData::Other(ObjectData::new(
            &self.metadata,
            &conditions,
        )))
    }
}

pub fn differences(
    old: Option<&NodeClassDigest>,
    new: Option<&NodeClassDigest>,
) -> Vec<ChangeKind> {
    let mut changes = Vec::new();
    if old.map(|old| old.spec) != new.map(|new| new.spec) {
        changes.push(ChangeKind::NodeClassChanged);
    } else if old.map(|old| old.status) != new.map(|new| new.status) {
        changes.push(ChangeKind::NodeClassResolved);
    }
    changes
}
