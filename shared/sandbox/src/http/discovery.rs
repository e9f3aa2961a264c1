use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::path::Discovery;
use crate::{
    error::{ApiError, ApiResult},
    kinds::{Kinds, ResourceType},
};

/// First minor version that serves aggregated discovery in this format. Older servers serve a format that no client
/// requests alone any more.
pub(super) const AGGREGATED_SINCE: u32 = 30;

/// Media type of aggregated discovery.
pub(super) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

type ByVersion<'a> = BTreeMap<&'a str, Vec<&'a Arc<ResourceType>>>;

pub(super) fn version(minor: u32) -> Value {
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "gitVersion": format!("v1.{minor}.0+whittle"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// Unaggregated discovery, for older clients: one document per group and version.
pub(super) fn plain(kinds: &Kinds, requested: &Discovery) -> ApiResult<Value> {
    match requested {
        Discovery::CoreVersions => Ok(json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        })),
        Discovery::Groups => {
            let groups: Vec<Value> = groups(kinds)
                .iter()
                .filter(|(group, _)| !group.is_empty())
                .map(|(group, versions)| group_of(group, versions))
                .collect();
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Discovery::Group(group) => {
            let groups = groups(kinds);
            let versions = groups.get(group.as_str()).filter(|_| !group.is_empty());
            let versions = versions.ok_or_else(ApiError::unknown_path)?;
            let mut answer = group_of(group, versions);
            crate::json::set(&mut answer, &["kind"], "APIGroup");
            crate::json::set(&mut answer, &["apiVersion"], "v1");
            Ok(answer)
        }
        Discovery::Resources { group, version } => {
            let groups = groups(kinds);
            let kinds = groups
                .get(group.as_str())
                .and_then(|versions| versions.get(version.as_str()))
                .ok_or_else(ApiError::unknown_path)?;
            let resources: Vec<Value> = kinds.iter().flat_map(|kind| resources_of(kind)).collect();
            let group_version = match group.as_str() {
                "" => version.clone(),
                group => format!("{group}/{version}"),
            };
            Ok(json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": group_version, "resources": resources,
            }))
        }
    }
}

/// Aggregated discovery of the core group, or of all other groups.
pub(super) fn aggregated(kinds: &Kinds, core: bool) -> Value {
    let items: Vec<Value> = groups(kinds)
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .rev()
                .map(|(version, kinds)| {
                    let resources: Vec<Value> =
                        kinds.iter().map(|kind| aggregated_resource(kind)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if core {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

pub(super) fn groups(kinds: &Kinds) -> BTreeMap<&str, ByVersion<'_>> {
    let mut groups: BTreeMap<&str, ByVersion<'_>> = BTreeMap::new();
    for kind in kinds.all() {
        groups
            .entry(&kind.group)
            .or_default()
            .entry(&kind.version)
            .or_default()
            .push(kind);
    }
    groups
}

fn group_of(group: &str, versions: &ByVersion<'_>) -> Value {
    let versions: Vec<Value> = versions
        .keys()
        .rev()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn resources_of(kind: &ResourceType) -> Vec<Value> {
    let mut resources = vec![json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": VERBS,
        "shortNames": kind.short_names, "categories": kind.categories,
    })];
    for subresource in kind.subresources() {
        let (group, version, answer, verbs) = subresource_kind(kind, subresource);
        let mut resource = json!({
            "name": format!("{}/{subresource}", kind.plural), "singularName": "",
            "namespaced": kind.namespaced, "kind": answer, "verbs": verbs,
        });
        if group != kind.group || version != kind.version {
            crate::json::set(&mut resource, &["group"], group);
            crate::json::set(&mut resource, &["version"], version);
        }
        resources.push(resource);
    }
    resources
}

fn aggregated_resource(kind: &ResourceType) -> Value {
    let subresources: Vec<Value> = kind
        .subresources()
        .into_iter()
        .map(|subresource| {
            let (group, version, answer, verbs) = subresource_kind(kind, subresource);
            json!({
                "subresource": subresource, "verbs": verbs,
                "responseKind": {"group": group, "version": version, "kind": answer},
            })
        })
        .collect();
    json!({
        "resource": kind.plural, "singularResource": kind.singular, "verbs": VERBS,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "shortNames": kind.short_names, "categories": kind.categories,
        "subresources": subresources,
    })
}

/// Group, version and kind of a subresource's body, and its verbs.
fn subresource_kind<'a>(
    kind: &'a ResourceType,
    subresource: &str,
) -> (&'a str, &'a str, &'a str, &'static [&'static str]) {
    match subresource {
        "scale" => ("autoscaling", "v1", "Scale", &["get", "patch", "update"]),
        "eviction" => ("policy", "v1", "Eviction", &["create"]),
        "binding" => ("", "v1", "Binding", &["create"]),
        "finalize" => (&kind.group, &kind.version, &kind.kind, &["update"]),
        "log" => (&kind.group, &kind.version, &kind.kind, &["get"]),
        "attach" => ("", "v1", "PodAttachOptions", &["create", "get"]),
        "exec" => ("", "v1", "PodExecOptions", &["create", "get"]),
        "portforward" => ("", "v1", "PodPortForwardOptions", &["create", "get"]),
        _ => (
            &kind.group,
            &kind.version,
            &kind.kind,
            &["get", "patch", "update"],
        ),
    }
}
