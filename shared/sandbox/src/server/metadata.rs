use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, rfc3339};
use crate::{
    error::{ApiError, ApiResult, FieldError},
    json,
    kinds::ResourceType,
    store::{ObjectKey, is_name},
};

/// Metadata fields that only the server sets; an update leaves them unchanged.
const SERVER_OWNED: &[&str] = &[
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "namespace",
    "name",
];

/// Longest `generateName` that leaves room for the generated suffix.
const GENERATED_PREFIX_LENGTH: usize = 248;

impl ApiServer {
    /// Sets the metadata of a new object: name, UID, creation time.
    pub(super) fn identify(
        &mut self,
        kind: &ResourceType,
        namespace: &str,
        value: &mut Value,
        now: Timestamp,
    ) -> ApiResult<ObjectKey> {
        let given = json::text(value, &["metadata", "namespace"]);
        if kind.namespaced && !given.is_empty() && given != namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if json::text(value, &["metadata", "name"]).is_empty() {
            let prefix = json::text(value, &["metadata", "generateName"]);
            if prefix.is_empty() {
                return Err(kind.subject("").invalid(&[FieldError::required(
                    "metadata.name",
                    "name or generateName is required",
                )]));
            }
            let prefix: String = prefix.chars().take(GENERATED_PREFIX_LENGTH).collect();
            let name = format!("{prefix}{}", self.store.next_suffix());
            json::set(value, &["metadata", "name"], name);
        }
        if !json::text(value, &["metadata", "resourceVersion"]).is_empty() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = json::object_mut(value, &["metadata"]);
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata.remove(field);
        }
        if kind.namespaced {
            metadata.insert("namespace".to_owned(), json!(namespace));
        } else {
            metadata.remove("namespace");
        }
        metadata.insert("uid".to_owned(), json!(self.store.next_uid()));
        metadata.insert("creationTimestamp".to_owned(), json!(rfc3339(now)));
        if has_generation(kind, value) {
            json::set(value, &["metadata", "generation"], 1);
        }
        Ok(ObjectKey::new(
            if kind.namespaced { namespace } else { "" },
            json::text(value, &["metadata", "name"]),
        ))
    }
}

/// Restores the metadata that only the server may change.
pub(super) fn keep_server_owned(old: &Value, new: &mut Value) {
    for field in SERVER_OWNED {
        json::copy(old, new, &["metadata", field]);
    }
}

/// Returns whether `metadata.generation` of the kind counts changes of the specification.
fn has_generation(kind: &ResourceType, value: &Value) -> bool {
    kind.is_custom() || (!value["spec"].is_null() && kind.has_status)
}

/// Increases the generation on a change to anything but metadata and status.
pub(super) fn count_generation(kind: &ResourceType, old: &Value, new: &mut Value) {
    if !has_generation(kind, new) {
        return;
    }
    let desired = |value: &Value| -> Vec<(String, Value)> {
        value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(field, _)| *field != "metadata" && !(kind.has_status && *field == "status"))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    if desired(old) != desired(new) {
        let generation = json::integer(old, &["metadata", "generation"]).unwrap_or(0) + 1;
        json::set(new, &["metadata", "generation"], generation);
    }
}

/// Validates an object's metadata.
pub(super) fn check(kind: &ResourceType, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = json::text(value, &["metadata", "name"]);
    let is_valid = if kind.group == "rbac.authorization.k8s.io" {
        !name.contains('/') && !name.contains('%') && name != "." && name != ".."
    } else {
        is_name(name)
    };
    if !is_valid {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ));
    }
    for (key, label) in json::strings(value, &["metadata", "labels"]) {
        if !is_qualified_name(key) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &json!(key),
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            ));
        }
        if !is_label_value(label) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                &json!(label),
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            ));
        }
    }
    for (index, finalizer) in json::items(value, &["metadata", "finalizers"])
        .iter()
        .enumerate()
    {
        if !finalizer.as_str().is_some_and(is_qualified_name) {
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{index}]"),
                finalizer,
                "name part must be non-empty",
            ));
        }
    }
    for (index, owner) in json::items(value, &["metadata", "ownerReferences"])
        .iter()
        .enumerate()
    {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if json::text(owner, &[field]).is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::invalid(path, &json!(""), "must not be empty"));
            }
        }
    }
    errors
}

const LABEL_LENGTH: usize = 63;

/// Returns whether a text is `name` or `prefix/name`, as label keys are.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_name) && !name.is_empty() && is_label_value(name)
}

pub(super) fn is_label_value(text: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= LABEL_LENGTH
        && is_edge(text.chars().next())
        && is_edge(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
