//! Merge rules of lists: from the schema of a custom kind, or from Kubernetes' own types.

use crate::{
    kinds::{Form, ResourceType},
    schema::{ListKind, Schema},
};

/// Server-side apply's merge strategy of one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListRule {
    Atomic,
    Set,
    /// Merge by these fields of each element; a missing one has the default given here.
    Map(Vec<(String, Option<&'static str>)>),
}

/// Merge rule of the list at a path of field names.
pub(super) fn rule(kind: &ResourceType, path: &[&str]) -> ListRule {
    if path.first() != Some(&"metadata")
        && let Form::Custom(form) = &kind.form
    {
        return match schema_at(&form.schema, path).map(|schema| &schema.list) {
            Some(ListKind::Map(keys)) => {
                ListRule::Map(keys.iter().map(|key| (key.clone(), None)).collect())
            }
            Some(ListKind::Set) => ListRule::Set,
            Some(ListKind::Atomic) | None => ListRule::Atomic,
        };
    }
    let keys = |keys: &[&str]| {
        ListRule::Map(
            keys.iter()
                .map(|key| ((*key).to_owned(), (*key == "protocol").then_some("TCP")))
                .collect(),
        )
    };
    match path.last().copied().unwrap_or_default() {
        "finalizers" | "podCIDRs" | "nonResourceURLs" => ListRule::Set,
        "ports" if path.contains(&"containers") || path.contains(&"initContainers") => {
            keys(&["containerPort", "protocol"])
        }
        "ports" if path.first() == Some(&"spec") => keys(&["port", "protocol"]),
        "topologySpreadConstraints" => keys(&["topologyKey", "whenUnsatisfiable"]),
        field => match merge_key(path, field) {
            Some(key) => keys(&[key]),
            None => ListRule::Atomic,
        },
    }
}

/// Returns whether the object at a path has a single owner as a whole.
pub(super) fn is_atomic_object(kind: &ResourceType, path: &[&str]) -> bool {
    if path.first() != Some(&"metadata")
        && let Form::Custom(form) = &kind.form
    {
        return schema_at(&form.schema, path).is_some_and(|schema| schema.atomic_map);
    }
    matches!(
        path.last(),
        Some(
            &"nodeSelector"
                | &"selector"
                | &"labelSelector"
                | &"namespaceSelector"
                | &"fieldRef"
                | &"secretKeyRef"
                | &"configMapKeyRef"
                | &"claimRef"
                | &"nodeSelectorTerms"
        )
    ) && path.first() != Some(&"metadata")
}

/// Field by which a strategic merge patch identifies elements; `None` replaces the whole list.
pub(super) fn strategic_key(path: &[&str]) -> Option<&'static str> {
    match path.last().copied()? {
        "ports" if path.contains(&"containers") || path.contains(&"initContainers") => {
            Some("containerPort")
        }
        "ports" if path.len() == 2 && path.first() == Some(&"spec") => Some("port"),
        "topologySpreadConstraints" => Some("topologyKey"),
        field => merge_key(path, field),
    }
}

/// Returns whether a strategic merge patch adds to the list of scalars at a path.
pub(super) fn is_merged_set(path: &[&str]) -> bool {
    matches!(path.last(), Some(&"finalizers" | &"podCIDRs"))
}

fn merge_key(path: &[&str], field: &str) -> Option<&'static str> {
    Some(match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "webhooks"
        | "drivers" => "name",
        "secrets" if path.len() == 1 => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        _ => return None,
    })
}

fn schema_at<'a>(schema: &'a Schema, path: &[&str]) -> Option<&'a Schema> {
    path.iter()
        .try_fold(schema, |schema, field| schema.field(field))
}
