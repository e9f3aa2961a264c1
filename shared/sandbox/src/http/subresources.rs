use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use serde_json::{Value, json};

use super::{ResourceRequest, body, object_answer, objects, respond::ApiResponse};
use crate::{
    error::{ApiError, ApiResult},
    json,
    sandbox::Shared,
    server::Part,
};

pub(super) fn answer(
    shared: &Arc<Shared>,
    request: &ResourceRequest,
    body: &[u8],
) -> ApiResult<Response> {
    let subresource = request.path.subresource.as_deref().unwrap_or_default();
    if !request.kind.subresources().contains(&subresource) {
        return Err(ApiError::unknown_path());
    }
    let answer = match (subresource, request.verb) {
        ("status", "get") => {
            let object = shared.read(|world| world.server.get(&request.kind, &request.key()))?;
            object_answer(shared, request, &object)?
        }
        ("status", "update") => objects::update(shared, request, Part::Status, body)?,
        ("status", "patch") => objects::patch_object(shared, request, Part::Status, body)?,
        ("scale", "get") => scale(shared, request)?,
        ("scale", "update") => {
            let wanted = body::decode(&request.headers, body)?;
            set_scale(shared, request, &wanted)?
        }
        ("scale", "patch") => {
            let mut wanted = shared.read(|world| {
                let object = world.server.get(&request.kind, &request.key())?;
                world.server.scale_of(&request.kind, &object)
            })?;
            objects::apply_patch(request, &mut wanted, body)?;
            set_scale(shared, request, &wanted)?
        }
        ("eviction", "create") => evict(shared, request, body)?,
        ("binding", "create") => {
            let binding = body::decode(&request.headers, body)?;
            shared.write(|world, now| {
                world
                    .server
                    .bind(&request.kind, &request.key(), &binding, now)
            })?;
            success(StatusCode::CREATED)
        }
        ("finalize", "update") => {
            let value = body::decode(&request.headers, body)?;
            let result = shared.write(|world, now| {
                let options = objects::options(request);
                let key = request.key();
                world
                    .server
                    .update(&request.kind, &key, Part::Main, value, &options, now)
            })?;
            objects::written(shared, request, result)?
        }
        ("log", "get") => {
            shared.read(|world| world.server.get(&request.kind, &request.key()))?;
            ApiResponse {
                content_type: "text/plain; charset=utf-8",
                ..ApiResponse::text("simulated containers write no logs\n".to_owned())
            }
        }
        ("attach" | "exec" | "portforward", "get" | "create") => {
            shared.read(|world| world.server.get(&request.kind, &request.key()))?;
            return Err(ApiError::bad_request(
                "simulated containers run nothing that could be reached",
            ));
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(answer.into_response(&request.headers))
}

fn scale(shared: &Shared, request: &ResourceRequest) -> ApiResult<ApiResponse> {
    let scale = shared.read(|world| {
        let object = world.server.get(&request.kind, &request.key())?;
        world.server.scale_of(&request.kind, &object)
    })?;
    Ok(ApiResponse::ok(&scale))
}

fn set_scale(shared: &Shared, request: &ResourceRequest, wanted: &Value) -> ApiResult<ApiResponse> {
    let scale = shared.write(|world, now| {
        let options = objects::options(request);
        let key = request.key();
        let written = world
            .server
            .set_scale(&request.kind, &key, wanted, &options, now)?;
        world.server.scale_of(&request.kind, &written.object)
    })?;
    Ok(ApiResponse::ok(&scale))
}

fn evict(shared: &Shared, request: &ResourceRequest, body: &[u8]) -> ApiResult<ApiResponse> {
    let eviction = body::decode(&request.headers, body)?;
    let named = json::text(&eviction, &["metadata", "name"]);
    if !named.is_empty() && named != request.name() {
        return Err(ApiError::bad_request(format!(
            "name in URL does not match name in Eviction object: {named}"
        )));
    }
    let options = objects::read_delete_options(json::at(&eviction, &["deleteOptions"]), request)?;
    shared.write(|world, now| {
        world
            .server
            .evict(&request.kind, &request.key(), &options, now)
    })?;
    Ok(success(StatusCode::CREATED))
}

fn success(status: StatusCode) -> ApiResponse {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "code": status.as_u16(),
    });
    ApiResponse::ok(&body).with_status(status)
}
