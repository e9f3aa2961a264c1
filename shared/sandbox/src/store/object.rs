use std::{collections::BTreeMap, sync::OnceLock};

use serde_json::Value;

use crate::json;

/// An object as stored: never changed in place, so that lists, watches and history share it.
#[derive(Debug)]
pub struct Object {
    value: Value,
    revision: u64,
    encoded: OnceLock<String>,
}

impl Object {
    pub(crate) fn new(mut value: Value, revision: u64) -> Self {
        json::set(
            &mut value,
            &["metadata", "resourceVersion"],
            revision.to_string(),
        );
        Self {
            value,
            revision,
            encoded: OnceLock::new(),
        }
    }

    /// An object as it would be written: the answer to a dry run.
    pub(crate) fn unsaved(value: Value) -> Self {
        let revision = json::text(&value, &["metadata", "resourceVersion"]);
        Self {
            revision: revision.parse().unwrap_or(0),
            value,
            encoded: OnceLock::new(),
        }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The JSON text, made once: the same pod is written to every list and watch.
    pub fn encoded(&self) -> &str {
        self.encoded.get_or_init(|| self.value.to_string())
    }

    /// `metadata.resourceVersion` as a number.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn name(&self) -> &str {
        json::text(&self.value, &["metadata", "name"])
    }

    pub fn namespace(&self) -> &str {
        json::text(&self.value, &["metadata", "namespace"])
    }

    pub fn uid(&self) -> &str {
        json::text(&self.value, &["metadata", "uid"])
    }

    pub fn kind(&self) -> &str {
        json::text(&self.value, &["kind"])
    }

    pub fn labels(&self) -> BTreeMap<String, String> {
        json::strings(&self.value, &["metadata", "labels"])
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// Whether deletion was asked for.
    pub fn is_terminating(&self) -> bool {
        !json::at(&self.value, &["metadata", "deletionTimestamp"]).is_null()
    }

    pub(crate) fn owner_uids(&self) -> impl Iterator<Item = &str> {
        json::items(&self.value, &["metadata", "ownerReferences"])
            .iter()
            .map(|owner| json::text(owner, &["uid"]))
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }
}

/// Where an object lives within its table; the namespace is empty for cluster-scoped objects.
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

/// A kind's place in the store, named as its CRD would be: `pods`, `deployments.apps`, `nodepools.karpenter.sh`.
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
