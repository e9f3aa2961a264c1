//! HTTP front end: maps Kubernetes' requests to calls of [`crate::server`], and writes objects, lists and watches as
//! responses.

mod accept;
mod authorize;
mod body;
pub(crate) mod certificate;
mod discovery;
mod list;
pub(crate) mod listener;
mod objects;
mod openapi;
mod path;
mod protobuf;
mod query;
mod respond;
mod stream;
mod subresources;
mod table;
mod watch;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use serde_json::json;

use self::{
    path::{Discovery, ResourcePath, Route},
    query::Query,
    respond::ApiResponse,
};
use crate::{
    error::{ApiError, ApiResult},
    faults::{self, Effect},
    kinds::ResourceType,
    sandbox::Shared,
};

/// Router with a single fallback route: the valid paths depend on the registered kinds.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(handle).with_state(shared)
}

/// Parsed and authorized request for a resource.
struct ResourceRequest {
    kind: Arc<ResourceType>,
    path: ResourcePath,
    query: Query,
    headers: HeaderMap,
    verb: &'static str,
}

impl ResourceRequest {
    /// Namespace of the path; empty for cluster-scoped kinds.
    fn namespace(&self) -> &str {
        self.path.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }

    fn key(&self) -> crate::store::ObjectKey {
        crate::store::ObjectKey::new(self.namespace(), self.name())
    }

    fn user_agent(&self) -> &str {
        text(&self.headers, header::USER_AGENT)
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let headers = request.headers().clone();
    match respond(&shared, request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = ApiResponse::from(error.clone()).into_response(&headers);
            respond::retry_after(&error, &mut response);
            response
        }
    }
}

async fn respond(shared: &Arc<Shared>, request: Request) -> ApiResult<Response> {
    let headers = request.headers().clone();
    let route = path::parse(request.uri().path());
    let answer = match route {
        Route::Other(segments) => {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            other(shared, &headers, &segments)?
        }
        Route::Discovery(requested) => {
            authorize::user(shared, &headers)?;
            if *request.method() != Method::GET {
                return Err(ApiError::method_not_allowed());
            }
            return discover(shared, &headers, &requested);
        }
        Route::Resource(path) => return resource(shared, path, request).await,
    };
    Ok(answer.into_response(&headers))
}

fn discover(shared: &Shared, headers: &HeaderMap, requested: &Discovery) -> ApiResult<Response> {
    let core = *requested == Discovery::CoreVersions;
    let is_aggregated = shared.kubernetes_minor() >= discovery::AGGREGATED_SINCE;
    if is_aggregated
        && (core || *requested == Discovery::Groups)
        && accept::wants_aggregated(headers)
    {
        let list = shared.read(|world| discovery::aggregated(&world.server.kinds, core));
        let mut response = ApiResponse::ok(&list).into_response(headers);
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(discovery::AGGREGATED),
        );
        return Ok(response);
    }
    let answer = shared.read(|world| discovery::plain(&world.server.kinds, requested))?;
    Ok(ApiResponse::ok(&answer).into_response(headers))
}

fn other(shared: &Shared, headers: &HeaderMap, segments: &[&str]) -> ApiResult<ApiResponse> {
    let plain = |text: &str| ApiResponse {
        content_type: "text/plain; charset=utf-8",
        ..ApiResponse::text(text.to_owned())
    };
    match segments {
        ["healthz" | "livez" | "readyz", ..] => Ok(plain("ok")),
        ["version"] => Ok(ApiResponse::ok(&discovery::version(
            shared.kubernetes_minor(),
        ))),
        [] => {
            authorize::user(shared, headers)?;
            Ok(ApiResponse::ok(
                &json!({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}),
            ))
        }
        ["openapi", "v2"] => {
            authorize::user(shared, headers)?;
            if accept::entries(headers).any(|entry| entry.contains("proto-openapi")) {
                // An empty protobuf body is a document without definitions.
                Ok(ApiResponse {
                    content_type: openapi::SWAGGER_PROTOBUF,
                    ..ApiResponse::text(String::new())
                })
            } else {
                Ok(ApiResponse::ok(&openapi::swagger()))
            }
        }
        ["openapi", "v3"] => {
            authorize::user(shared, headers)?;
            Ok(ApiResponse::ok(
                &shared.read(|world| openapi::index(&world.server.kinds)),
            ))
        }
        ["openapi", "v3", path @ ..] => {
            authorize::user(shared, headers)?;
            let document = shared.read(|world| openapi::document(&world.server.kinds, path))?;
            Ok(ApiResponse::ok(&document))
        }
        _ => Err(ApiError::unknown_path()),
    }
}

/// Verb of a request, as named by discovery and RBAC.
fn verb(method: &Method, path: &ResourcePath, query: &Query) -> ApiResult<&'static str> {
    let named = path.name.is_some();
    Ok(match method.as_str() {
        "GET" if query.flag("watch") => "watch",
        "GET" if named => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" if named => "update",
        "PATCH" if named => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => return Err(ApiError::method_not_allowed()),
    })
}

async fn resource(
    shared: &Arc<Shared>,
    path: ResourcePath,
    request: Request,
) -> ApiResult<Response> {
    let (parts, body) = request.into_parts();
    let user = authorize::user(shared, &parts.headers)?;
    let query = Query::of(&parts.uri)?;
    let verb = verb(&parts.method, &path, &query)?;
    if path.group == "authorization.k8s.io" || path.group == "authentication.k8s.io" {
        let body = body::read(body).await?;
        let review = body::decode(&parts.headers, &body)?;
        let review = authorize::review(shared, &user, &path, review)?;
        let answer = ApiResponse::ok(&review).with_status(StatusCode::CREATED);
        return Ok(answer.into_response(&parts.headers));
    }
    authorize::check(shared, &user, verb, &path, query.name(verb))?;
    let kind = shared.read(|world| {
        let kinds = &world.server.kinds;
        kinds
            .find(&path.group, &path.version, &path.resource)
            .cloned()
    });
    let kind = kind.ok_or_else(ApiError::unknown_path)?;
    if kind.namespaced && path.namespace.is_none() && path.name.is_some()
        || !kind.namespaced && path.namespace.is_some()
    {
        return Err(ApiError::unknown_path());
    }
    let fault = shared.next_fault(
        verb,
        &path.resource,
        path.subresource.as_deref(),
        path.name.as_deref(),
    );
    let mut lose_answer = false;
    let mut drip = None;
    match fault {
        None => {}
        Some(Effect::Refuse(error)) => return Err(error),
        Some(Effect::Delay(time)) => tokio::time::sleep(time).await,
        Some(Effect::LoseAnswer) => lose_answer = true,
        Some(Effect::EndAtOnce) => {
            return Ok(ApiResponse::text(String::new()).into_response(&parts.headers));
        }
        Some(Effect::Drip(pause)) => drip = Some(pause),
        Some(Effect::Endless) => return Ok(stream::endless()),
        Some(Effect::Unpacks(mebibytes)) => return Ok(stream::unpacking(mebibytes)),
        Some(Effect::Answer(text)) => {
            return Ok(ApiResponse::text(text).into_response(&parts.headers));
        }
    }
    let request = ResourceRequest {
        kind,
        path,
        query,
        headers: parts.headers,
        verb,
    };
    let body = body::read(body).await?;
    let response = dispatch(shared, &request, &body)?;
    if lose_answer {
        return Err(faults::lost_response());
    }
    Ok(match drip {
        Some(pause) => stream::dripping(response, pause),
        None => response,
    })
}

fn dispatch(shared: &Arc<Shared>, request: &ResourceRequest, body: &[u8]) -> ApiResult<Response> {
    if request.path.subresource.is_some() {
        return subresources::answer(shared, request, body);
    }
    match request.verb {
        "watch" => watch::answer(shared, request),
        "list" => list::answer(shared, request),
        "deletecollection" => objects::delete_all(shared, request, body),
        _ => objects::answer(shared, request, body),
    }
}

/// Response with one object, in the representation that the client accepts.
fn object_answer(
    shared: &Shared,
    request: &ResourceRequest,
    object: &crate::store::Object,
) -> ApiResult<ApiResponse> {
    let shape = accept::shape(&request.headers, &request.query)?;
    let kind = &request.kind;
    let now = shared.now();
    shared.read(|world| {
        Ok(match shape {
            accept::Representation::Object if world.server.is_stored_as(kind) => {
                ApiResponse::text(object.encoded().to_owned())
            }
            accept::Representation::Object => {
                ApiResponse::ok(&world.server.present(kind, object.value()))
            }
            accept::Representation::Metadata => ApiResponse::ok(&table::partial(object.value())),
            accept::Representation::Table(carried) => {
                let metadata = json!({"resourceVersion": object.revision().to_string()});
                let objects = std::iter::once(object.value());
                ApiResponse::ok(&table::of_objects(kind, &metadata, objects, carried, now))
            }
        })
    })
}
