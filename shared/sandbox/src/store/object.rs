use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

use crate::json;

/// Stored object: never changed in place, so that lists, watches and history share it. An object that has not been
/// written for a while is kept as JSON text only, which takes a tenth of the memory.
#[derive(Debug)]
pub struct Object {
    head: Head,
    revision: u64,
    value: OnceLock<Value>,
    encoded: OnceLock<String>,
}

/// Attributes that are read without decoding the object.
#[derive(Clone, Debug)]
struct Head {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    labels: BTreeMap<String, String>,
    owner_uids: Vec<String>,
    is_terminating: bool,
    /// `spec.nodeName`, by which a real server's watch cache is indexed, too.
    node_name: String,
}

impl Head {
    fn of(value: &Value) -> Self {
        let text = |path: &[&str]| json::text(value, path).to_owned();
        let owners = json::items(value, &["metadata", "ownerReferences"]).iter();
        let labels = json::strings(value, &["metadata", "labels"]);
        Self {
            kind: text(&["kind"]),
            namespace: text(&["metadata", "namespace"]),
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            owner_uids: owners
                .map(|owner| json::text(owner, &["uid"]).to_owned())
                .collect(),
            is_terminating: !json::at(value, &["metadata", "deletionTimestamp"]).is_null(),
            node_name: text(&["spec", "nodeName"]),
        }
    }
}

impl Object {
    pub(crate) fn new(mut value: Value, revision: u64) -> Self {
        json::set(
            &mut value,
            &["metadata", "resourceVersion"],
            revision.to_string(),
        );
        Self {
            head: Head::of(&value),
            revision,
            value: value.into(),
            encoded: OnceLock::new(),
        }
    }

    /// Object as it would be written: the result of a dry run.
    pub(crate) fn unsaved(value: Value) -> Self {
        let revision = json::text(&value, &["metadata", "resourceVersion"]);
        Self {
            head: Head::of(&value),
            revision: revision.parse().unwrap_or(0),
            value: value.into(),
            encoded: OnceLock::new(),
        }
    }

    /// Encoded form of the object.
    pub(super) fn encoded_only(&self) -> Self {
        Self {
            head: self.head.clone(),
            revision: self.revision,
            value: OnceLock::new(),
            encoded: self.encoded().to_owned().into(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_encoded_only(&self) -> bool {
        self.value.get().is_none()
    }

    /// Decoded value; an object that was only encoded stays decoded afterwards.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| self.read())
    }

    /// Reads the value without keeping it decoded.
    pub(crate) fn peek<T>(&self, read: impl FnOnce(&Value) -> T) -> T {
        match self.value.get() {
            Some(value) => read(value),
            None => read(&self.read()),
        }
    }

    /// The text was encoded by the store, so it can be decoded.
    fn read(&self) -> Value {
        let text = self.encoded.get();
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// JSON text, encoded once: lists and watches share it.
    pub fn encoded(&self) -> &str {
        self.encoded.get_or_init(|| self.value().to_string())
    }

    /// `metadata.resourceVersion` as a number.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn name(&self) -> &str {
        &self.head.name
    }

    pub fn namespace(&self) -> &str {
        &self.head.namespace
    }

    pub fn uid(&self) -> &str {
        &self.head.uid
    }

    pub fn kind(&self) -> &str {
        &self.head.kind
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.head.labels
    }

    /// `spec.nodeName`; empty if there is none.
    pub(crate) fn node_name(&self) -> &str {
        &self.head.node_name
    }

    /// Returns whether the object is marked for deletion.
    pub fn is_terminating(&self) -> bool {
        self.head.is_terminating
    }

    pub(crate) fn owner_uids(&self) -> impl Iterator<Item = &str> {
        self.head.owner_uids.iter().map(String::as_str)
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }
}

/// Key of an object within its table; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// Table of a kind, named as its CRD would be: `pods`, `deployments.apps`, `nodepools.karpenter.sh`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableId(std::borrow::Cow<'static, str>);

impl TableId {
    pub const fn named(name: &'static str) -> Self {
        Self(std::borrow::Cow::Borrowed(name))
    }

    pub fn of(group: &str, resource: &str) -> Self {
        Self(std::borrow::Cow::Owned(if group.is_empty() {
            resource.to_owned()
        } else {
            format!("{resource}.{group}")
        }))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
