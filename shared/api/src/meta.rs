//! Common parts of Kubernetes objects: kind, metadata and lists.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use jiff::Timestamp;
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::wire::null_as_default;

/// A kind of object: its address in the API, and access to the metadata.
pub trait Resource: DeserializeOwned + Serialize {
    /// `v1`, `apps/v1`, `karpenter.sh/v1` …
    const API_VERSION: &'static str;
    const KIND: &'static str;
    /// Plural name in URLs, such as `pods`.
    const PLURAL: &'static str;
    const SCOPE: Scope;

    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// The object with `apiVersion` and `kind`, as it is sent to the API server or written to a file.
    fn to_manifest(&self) -> serde_json::Result<Value> {
        let mut manifest = serde_json::to_value(self)?;
        if let Value::Object(fields) = &mut manifest {
            fields.insert("apiVersion".to_owned(), Self::API_VERSION.into());
            fields.insert("kind".to_owned(), Self::KIND.into());
        }
        Ok(manifest)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// Implements [`Resource`] for a type with a field `metadata`.
macro_rules! resource {
    ($type:ident, $api_version:literal, $plural:literal, $scope:ident) => {
        impl $crate::meta::Resource for $type {
            const API_VERSION: &'static str = $api_version;
            const KIND: &'static str = stringify!($type);
            const PLURAL: &'static str = $plural;
            const SCOPE: $crate::meta::Scope = $crate::meta::Scope::$scope;

            fn metadata(&self) -> &$crate::meta::ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut $crate::meta::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use resource;

/// The part of an object's metadata that decisions use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `None` for cluster-scoped objects, and for manifests that do not specify it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Empty until the API server has stored the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, String>,
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object is being deleted. For pods, the end of the grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds between the deletion request and `deletion_timestamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub owner_references: Vec<OwnerReference>,
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl ObjectMeta {
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether some owner is of this kind, whether or not it is the controller (docs/spec/lifecycle.md#pod-predicates).
    pub fn is_owned_by(&self, api_version: &str, kind: &str) -> bool {
        self.owner_references
            .iter()
            .any(|owner| owner.api_version == api_version && owner.kind == kind)
    }

    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T> {
    /// ResourceVersion of the list; a watch continues from here.
    pub resource_version: String,
    /// Token of the next page; `None` on the last page.
    pub continue_token: Option<String>,
    pub items: Vec<T>,
    /// Items that could not be parsed. They are reported by name, and do not affect the others.
    pub unreadable: Vec<UnreadableItem>,
}

#[derive(Debug, Error)]
#[error("cannot read {kind} \"{name}\"")]
pub struct UnreadableItem {
    pub kind: &'static str,
    /// `namespace/name`, or `name` for cluster-scoped objects; `item <index>` if even that cannot be parsed.
    pub name: String,
    /// Empty if it cannot be parsed.
    pub uid: String,
    /// The complete item, for callers that can use a part of it.
    pub object: Value,
    #[source]
    pub source: serde_json::Error,
}

impl Clone for UnreadableItem {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            name: self.name.clone(),
            uid: self.uid.clone(),
            object: self.object.clone(),
            source: serde::de::Error::custom(&self.source),
        }
    }
}

impl PartialEq for UnreadableItem {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.name, self.source.to_string())
            == (other.kind, &other.name, other.source.to_string())
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct WireList<T> {
    /// Rejects responses of another kind, such as a proxy's or a `Status`, which would otherwise look like an empty
    /// list.
    #[serde(rename = "kind", deserialize_with = "list_kind")]
    _kind: (),
    metadata: ListMeta,
    #[serde(default, deserialize_with = "page_items")]
    items: Vec<T>,
}

/// Upper bound on the items of one page, of which 500 are requested. Bounds the memory for a page before its items are
/// processed.
const ITEMS_MAX: usize = 10_000;

fn list_kind<'de, D: Deserializer<'de>>(kind: D) -> Result<(), D::Error> {
    let kind = Cow::<'de, str>::deserialize(kind)?;
    match kind.ends_with("List") {
        true => Ok(()),
        false => Err(D::Error::custom(format!("it is a {kind}, not a list"))),
    }
}

/// Deserializes an array, or `null` as an empty one.
fn page_items<'de, D, T>(items: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Items<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("items")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element()? {
                if items.len() == ITEMS_MAX {
                    let message = format!("the page has more than {ITEMS_MAX} items");
                    return Err(A::Error::custom(message));
                }
                items.push(item);
            }
            Ok(items)
        }
    }
    items.deserialize_any(Items(PhantomData))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: Option<String>,
}

impl ListMeta {
    fn token(self) -> Option<String> {
        self.r#continue.filter(|token| !token.is_empty())
    }
}

impl<T: Resource> List<T> {
    /// Parses one page. Fails only if it is not a list.
    pub fn from_json(json: &str) -> serde_json::Result<Self> {
        if let Ok(list) = serde_json::from_str::<WireList<T>>(json) {
            return Ok(Self::new(list.metadata, list.items, Vec::new()));
        }
        // Some item is invalid: items are parsed one by one, so that only that one is lost.
        let list: WireList<&RawValue> = serde_json::from_str(json)?;
        let (mut items, mut unreadable) = (Vec::new(), Vec::new());
        for (index, raw) in list.items.into_iter().enumerate() {
            match serde_json::from_str(raw.get()) {
                Ok(item) => items.push(item),
                Err(source) => {
                    let object: Value = serde_json::from_str(raw.get()).unwrap_or_default();
                    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
                    unreadable.push(UnreadableItem {
                        kind: T::KIND,
                        name: name_of(raw, index),
                        uid: uid.unwrap_or_default().to_owned(),
                        object,
                        source,
                    });
                }
            }
        }
        Ok(Self::new(list.metadata, items, unreadable))
    }

    fn new(metadata: ListMeta, items: Vec<T>, unreadable: Vec<UnreadableItem>) -> Self {
        Self {
            resource_version: metadata.resource_version.clone(),
            continue_token: metadata.token(),
            items,
            unreadable,
        }
    }
}

/// Metadata of a page without its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMetadata {
    /// See [`List::resource_version`].
    pub resource_version: String,
    /// See [`List::continue_token`].
    pub continue_token: Option<String>,
}

/// Metadata of a page without parsing its items; `None` if it is not a list.
///
/// Lists of built-in kinds have the metadata before the items.
pub fn page_metadata(page: &str) -> Option<PageMetadata> {
    struct Seek<'a>(&'a mut Option<ListMeta>);
    impl<'de> Visitor<'de> for Seek<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                if key == "metadata" {
                    *self.0 = Some(map.next_value()?);
                    break;
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let mut metadata = None;
    // Input after the metadata is not read, which is an error to the deserializer and expected here.
    let _ = serde_json::Deserializer::from_str(page).deserialize_map(Seek(&mut metadata));
    let metadata = metadata?;
    Some(PageMetadata {
        resource_version: metadata.resource_version.clone(),
        continue_token: metadata.token(),
    })
}

fn name_of(raw: &RawValue, index: usize) -> String {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        namespace: Option<String>,
    }
    match serde_json::from_str(raw.get()) {
        Ok(Named {
            metadata:
                Metadata {
                    name,
                    namespace: Some(namespace),
                },
        }) => format!("{namespace}/{name}"),
        Ok(Named {
            metadata:
                Metadata {
                    name,
                    namespace: None,
                },
        }) => name,
        Err(_) => format!("item {index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::Pod;

    #[test]
    fn continue_token_is_read_before_the_items() {
        for (page, next) in [
            (
                r#"{"kind":"PodList","metadata":{"continue":"abc"},"items":[{"#,
                Some("abc"),
            ),
            (
                r#"{"items":[{"metadata":{"continue":"no"}}],"metadata":{"continue":"abc"}}"#,
                Some("abc"),
            ),
            (
                r#"{"metadata":{"resourceVersion":"7","continue":""},"items":[]}"#,
                None,
            ),
            (r#"{"items":[{"#, None),
            ("[]", None),
        ] {
            let metadata = page_metadata(page);
            let token = metadata.and_then(|metadata| metadata.continue_token);
            assert_eq!(token.as_deref(), next, "{page}");
        }
    }

    #[test]
    fn resource_version_is_read_before_the_items() {
        let page = r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"#;
        let metadata = page_metadata(page);
        assert_eq!(metadata.unwrap().resource_version, "7");
        assert_eq!(page_metadata("[]"), None);
    }

    #[test]
    fn page_has_the_continue_token_of_the_next() {
        let list: List<Pod> =
            List::from_json(r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"abc"},"items":null}"#)
                .unwrap();
        assert_eq!(
            (
                list.resource_version.as_str(),
                list.continue_token.as_deref()
            ),
            ("7", Some("abc"))
        );
        assert!(list.items.is_empty());

        let last: List<Pod> =
            List::from_json(r#"{"kind":"PodList","metadata":{"continue":""},"items":[]}"#).unwrap();
        assert_eq!(last.continue_token, None);
    }

    #[test]
    fn unreadable_item_does_not_affect_others() {
        let list: List<Pod> = List::from_json(
            r#"{"kind":"PodList","metadata":{},"items":[
                {"metadata":{"name":"good","namespace":"a"},"spec":{"containers":[]}},
                {"metadata":{"name":"bad","namespace":"a"},"spec":{"containers":[],"priority":"high"}},
                7]}"#,
        )
        .unwrap();
        assert_eq!(list.items.len(), 1);
        let names: Vec<_> = list.unreadable.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["cannot read Pod \"a/bad\"", "cannot read Pod \"item 2\""]
        );
        assert!(
            list.unreadable
                .iter()
                .all(|item| std::error::Error::source(item).is_some())
        );
    }

    #[test]
    fn non_list_is_an_error() {
        assert!(List::<Pod>::from_json(r#"{"kind":"Status","code":500}"#).is_err());
    }

    #[test]
    fn empty_and_null_metadata_are_equal() {
        let meta: ObjectMeta = serde_json::from_str(
            r#"{"name":"x","labels":null,"annotations":null,"creationTimestamp":null,"finalizers":null}"#,
        )
        .unwrap();
        assert_eq!(
            meta,
            ObjectMeta {
                name: "x".into(),
                ..ObjectMeta::default()
            }
        );
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"x"}"#);
    }
}
