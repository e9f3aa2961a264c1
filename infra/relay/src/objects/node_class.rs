//! EC2NodeClasses: the spec is the lifecycle lane's to resolve, the status is what others launch with.

use serde::Deserialize;
use serde_json::Value;

use super::facts::{Facts, ObjectFacts};
use super::meta::{Condition, Meta, null_is_empty};
use super::{Digest, Watched, fingerprint};
use crate::change::What;
use crate::kind::Kind;

/// The whole status is read, unlike in other kinds, because any part of it may change what is launched; NodeClasses
/// are few and nothing but its hash is kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeClass {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_empty")]
    status: serde_json::Map<String, Value>,
}

/// What is kept of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClassDigest {
    spec: u64,
    status: u64,
}

impl Watched for NodeClass {
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

    fn facts(&self) -> Option<Facts> {
        let conditions = self.status.get("conditions");
        let conditions: Option<Vec<Condition>> =
            conditions.and_then(|conditions| Deserialize::deserialize(conditions).ok());
        let conditions = conditions.unwrap_or_default();
        Some(Facts::Other(ObjectFacts::new(&self.metadata, &conditions)))
    }
}

pub fn differences(old: Option<&NodeClassDigest>, new: Option<&NodeClassDigest>) -> Vec<What> {
    let mut changes = Vec::new();
    if old.map(|old| old.spec) != new.map(|new| new.spec) {
        changes.push(What::NodeClassChanged);
    } else if old.map(|old| old.status) != new.map(|new| new.status) {
        changes.push(What::NodeClassResolved);
    }
    changes
}
