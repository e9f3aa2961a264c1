//! Minimal OpenAPI documents: the kinds that exist, the note that the server validates fields itself, and the schemas
//! of custom kinds for `kubectl explain`.

use serde_json::{Map, Value, json};

use super::discovery;
use crate::{
    error::{ApiError, ApiResult},
    kinds::{Form, Kinds, ResourceType},
};

/// `/openapi/v3`: paths of the documents of each group.
pub(super) fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for (group, versions) in discovery::groups(kinds) {
        for version in versions.keys() {
            let path = document_path(group, version);
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/<group>/<version>`.
pub(super) fn document(kinds: &Kinds, segments: &[&str]) -> ApiResult<Value> {
    let (group, version) = match segments {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::unknown_path()),
    };
    let groups = discovery::groups(kinds);
    let kinds = groups
        .get(group)
        .and_then(|versions| versions.get(version))
        .ok_or_else(ApiError::unknown_path)?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds {
        let namespace = if kind.namespaced {
            "namespaces/{namespace}/"
        } else {
            ""
        };
        let path = format!(
            "/{}/{namespace}{}/{{name}}",
            document_path(group, version),
            kind.plural
        );
        paths.insert(path, path_item(kind));
        schemas.insert(schema_name(kind), schema(kind));
    }
    Ok(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// Media type in which older clients request the document.
pub(super) const SWAGGER_PROTOBUF: &str =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v2`, which clients request only without v3.
pub(super) fn swagger() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": {},
        "definitions": {},
    })
}

fn document_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

fn schema_name(kind: &ResourceType) -> String {
    let group: Vec<&str> = kind.group.split('.').rev().collect();
    let group = match kind.group.as_str() {
        "" => "io.k8s.api.core".to_owned(),
        _ => group.join("."),
    };
    format!("{group}.{}.{}", kind.version, kind.kind)
}

fn group_version_kind(kind: &ResourceType) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn path_item(kind: &ResourceType) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let reference = json!({"$ref": format!("#/components/schemas/{}", schema_name(kind))});
    let answer = json!({"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}});
    json!({
        "get": {
            "responses": answer,
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": group_version_kind(kind),
        },
        "patch": {
            "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
            "responses": answer,
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": group_version_kind(kind),
        },
    })
}

fn schema(kind: &ResourceType) -> Value {
    let mut schema = match &kind.form {
        Form::Custom(form) => form.source.clone(),
        Form::BuiltIn(_) | Form::Events(_) => json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }),
    };
    crate::json::set(
        &mut schema,
        &["x-kubernetes-group-version-kind"],
        json!([group_version_kind(kind)]),
    );
    schema
}
