use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use serde_json::{Value, json};

use super::{ResourceRequest, body, list::matches, object_answer, respond::ApiResponse};
use crate::{
    error::{ApiError, ApiResult},
    json,
    patch::{self, apply::Conflicts},
    sandbox::Shared,
    server::{
        ApiServer, DeleteOptions, Deleted, Outcome, Part, Preconditions, Propagation, WriteOptions,
        WriteResult,
    },
    store::{Object, Start},
};

/// Handles requests for a single object.
pub(super) fn answer(
    shared: &Arc<Shared>,
    request: &ResourceRequest,
    body: &[u8],
) -> ApiResult<Response> {
    let answer = match request.verb {
        "get" => {
            let object = shared.read(|world| world.server.get(&request.kind, &request.key()))?;
            object_answer(shared, request, &object)?
        }
        "create" => create(shared, request, body)?,
        "update" => update(shared, request, Part::Main, body)?,
        "patch" => patch_object(shared, request, Part::Main, body)?,
        "delete" => delete(shared, request, body)?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(answer.into_response(&request.headers))
}

pub(super) fn options(request: &ResourceRequest) -> WriteOptions {
    request.query.write_options(request.user_agent())
}

pub(super) fn written(
    shared: &Shared,
    request: &ResourceRequest,
    written: WriteResult,
) -> ApiResult<ApiResponse> {
    let status = match written.change {
        Outcome::Created => StatusCode::CREATED,
        Outcome::Changed | Outcome::Unchanged => StatusCode::OK,
    };
    let answer = object_answer(shared, request, &written.object)?;
    Ok(answer.with_status(status).with_warnings(written.warnings))
}

fn create(shared: &Shared, request: &ResourceRequest, body: &[u8]) -> ApiResult<ApiResponse> {
    if request.kind.namespaced && request.path.namespace.is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let value = body::decode(&request.headers, body)?;
    let result = shared.write(|world, now| {
        let options = options(request);
        world
            .server
            .create(&request.kind, request.namespace(), value, &options, now)
    })?;
    written(shared, request, result)
}

pub(super) fn update(
    shared: &Shared,
    request: &ResourceRequest,
    part: Part,
    body: &[u8],
) -> ApiResult<ApiResponse> {
    let value = body::decode(&request.headers, body)?;
    let result = shared.write(|world, now| {
        let options = options(request);
        world
            .server
            .update(&request.kind, &request.key(), part, value, &options, now)
    })?;
    written(shared, request, result)
}

const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

pub(super) fn patch_object(
    shared: &Shared,
    request: &ResourceRequest,
    part: Part,
    body: &[u8],
) -> ApiResult<ApiResponse> {
    let media_type = body::media_type(&request.headers);
    if media_type == "application/apply-patch+yaml" {
        return apply(shared, request, part, body);
    }
    let result = shared.write(|world, now| {
        let server = &mut world.server;
        let old = server.get(&request.kind, &request.key())?;
        let patched = patched(server, request, &old, body)?;
        let options = options(request);
        server.patched(&request.kind, &old, part, patched, &options, now)
    })?;
    written(shared, request, result)
}

/// Applies a patch of any type but server-side apply to the stored object and returns the new value.
pub(super) fn patched(
    server: &ApiServer,
    request: &ResourceRequest,
    old: &Object,
    body: &[u8],
) -> ApiResult<Value> {
    let mut value = server.present(&request.kind, old.value());
    apply_patch(request, &mut value, body)?;
    Ok(value)
}

/// Applies a patch of any type but server-side apply.
pub(super) fn apply_patch(
    request: &ResourceRequest,
    value: &mut Value,
    body: &[u8],
) -> ApiResult<()> {
    let change = body::parse_json(body)?;
    match body::media_type(&request.headers) {
        "application/json-patch+json" => patch::json_patch(value, change),
        "application/merge-patch+json" => {
            patch::merge_patch(value, &change);
            Ok(())
        }
        "application/strategic-merge-patch+json" if !request.kind.is_custom() => {
            patch::strategic_merge(value, &change)
        }
        other => {
            let allowed: Vec<&str> = PATCHES
                .iter()
                .copied()
                .filter(|patch| !request.kind.is_custom() || !patch.contains("strategic"))
                .collect();
            Err(ApiError::unsupported_media_type(other, &allowed))
        }
    }
}

fn apply(
    shared: &Shared,
    request: &ResourceRequest,
    part: Part,
    body: &[u8],
) -> ApiResult<ApiResponse> {
    let config = body::parse_yaml(body)?;
    let named = request.query.text("fieldManager").to_owned();
    let options = WriteOptions {
        manager: Some(named),
        conflicts: if request.query.flag("force") {
            Conflicts::Force
        } else {
            Conflicts::Refuse
        },
        ..options(request)
    };
    let result = shared.write(|world, now| {
        let key = request.key();
        world
            .server
            .apply(&request.kind, &key, part, config, &options, now)
    })?;
    written(shared, request, result)
}

fn delete(shared: &Shared, request: &ResourceRequest, body: &[u8]) -> ApiResult<ApiResponse> {
    let options = delete_options(request, body)?;
    let deleted = shared.write(|world, now| {
        world
            .server
            .delete(&request.kind, &request.key(), &options, now)
    })?;
    match deleted {
        Deleted::Later(object) => object_answer(shared, request, &object),
        Deleted::Now(object) => Ok(ApiResponse::ok(&json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": object.name(), "group": request.kind.group,
                "kind": request.kind.plural, "uid": object.uid(),
            },
        }))),
    }
}

pub(super) fn delete_all(
    shared: &Shared,
    request: &ResourceRequest,
    body: &[u8],
) -> ApiResult<Response> {
    let options = delete_options(request, body)?;
    let query = request.query.list(&request.kind)?;
    let kind = &request.kind;
    let answer = shared.write(|world, now| {
        let namespace = request.path.namespace.as_deref();
        let listing = world
            .server
            .store
            .list(&kind.table, namespace, &Start::Beginning);
        let mut items = Vec::new();
        for object in listing
            .objects
            .iter()
            .filter(|object| matches(object, &query))
        {
            let key = crate::store::ObjectKey::new(object.namespace(), object.name());
            world.server.delete(kind, &key, &options, now)?;
            items.push(world.server.present(kind, object.value()));
        }
        Ok::<_, ApiError>(json!({
            "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
            "metadata": {"resourceVersion": listing.revision.to_string()}, "items": items,
        }))
    })?;
    Ok(ApiResponse::ok(&answer).into_response(&request.headers))
}

/// Delete options of the body and the query.
pub(super) fn delete_options(request: &ResourceRequest, body: &[u8]) -> ApiResult<DeleteOptions> {
    let body = if body.is_empty() {
        Value::Null
    } else {
        body::decode(&request.headers, body)?
    };
    read_delete_options(&body, request)
}

pub(super) fn read_delete_options(
    body: &Value,
    request: &ResourceRequest,
) -> ApiResult<DeleteOptions> {
    let in_query = request.query.number("gracePeriodSeconds")?;
    let in_query = in_query.and_then(|seconds| i64::try_from(seconds).ok());
    let policy = match json::text(body, &["propagationPolicy"]) {
        "" => request.query.text("propagationPolicy"),
        policy => policy,
    };
    let text = |path: &[&str]| json::at(body, path).as_str().map(str::to_owned);
    let dry_run = json::items(body, &["dryRun"])
        .iter()
        .any(|word| word == "All");
    Ok(DeleteOptions {
        grace_period_seconds: json::integer(body, &["gracePeriodSeconds"]).or(in_query),
        preconditions: Preconditions {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
        },
        propagation: match policy {
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            "" | "Background" => Propagation::Background,
            other => {
                return Err(ApiError::bad_request(format!(
                    "propagationPolicy: Unsupported value: \"{other}\": supported values: \"Background\", \"Foreground\", \"Orphan\""
                )));
            }
        },
        dry_run: dry_run || request.query.text("dryRun") == "All",
    })
}
