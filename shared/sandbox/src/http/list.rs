use std::sync::Arc;

use axum::response::Response;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ResourceRequest,
    accept::{self, Representation},
    query::ListQuery,
    respond::ApiResponse,
    stream, table,
};
use crate::{
    error::{ApiError, ApiResult},
    sandbox::Shared,
    store::{Listing, Object, ObjectKey, Start, Store},
};

/// Number of objects from which a list is streamed instead of built in memory.
const STREAMED_FROM: usize = 1_000;
/// Closes a list.
const TAIL: &str = "]}";

/// Continue token: the key after which the next page begins, and the revision at which the whole list is read.
#[derive(Deserialize, Serialize)]
struct Continue {
    #[serde(rename = "rv")]
    revision: u64,
    namespace: String,
    name: String,
}

pub(super) fn answer(shared: &Shared, request: &ResourceRequest) -> ApiResult<Response> {
    let query = request.query.list(&request.kind)?;
    let shape = accept::shape(&request.headers, &request.query)?;
    let (listing, stored_as) = shared.read(|world| {
        let listing = read(&world.server.store, request, &query)?;
        Ok::<_, ApiError>((listing, world.server.is_stored_as(&request.kind)))
    })?;
    let page = page(listing, &query);
    let body = match shape {
        Representation::Object if stored_as => {
            let head = format!(
                r#"{{"kind":"{}List","apiVersion":"{}","metadata":{},"items":["#,
                request.kind.kind,
                request.kind.api_version(),
                page.metadata
            );
            if page.objects.len() > STREAMED_FROM {
                return Ok(stream::list(head, page.objects, TAIL, &request.headers));
            }
            join(head, &page.objects)
        }
        Representation::Object => shared.read(|world| {
            let objects = page.objects.iter();
            let items: Vec<Value> = objects
                .map(|object| world.server.present(&request.kind, object.value()))
                .collect();
            json!({
                "kind": format!("{}List", request.kind.kind),
                "apiVersion": request.kind.api_version(),
                "metadata": page.metadata, "items": items,
            })
            .to_string()
        }),
        Representation::Metadata => {
            let objects = page.objects.iter();
            let items: Vec<Value> = objects
                .map(|object| table::partial(object.value()))
                .collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata, "items": items,
            })
            .to_string()
        }
        Representation::Table(carried) => {
            let objects = page.objects.iter().map(|object| object.value());
            table::of_objects(
                &request.kind,
                &page.metadata,
                objects,
                carried,
                shared.now(),
            )
            .to_string()
        }
    };
    Ok(ApiResponse::text(body).into_response(&request.headers))
}

struct Page {
    metadata: Value,
    objects: Vec<Arc<Object>>,
}

/// Reads the objects in a request's namespace at the requested revision.
fn read(store: &Store, request: &ResourceRequest, query: &ListQuery) -> ApiResult<Listing> {
    let table = &request.kind.table;
    let namespace = request.path.namespace.as_deref();
    if let Some(token) = &query.continue_token {
        let next = decode_token(token)?;
        let start = Start::After(ObjectKey::new(next.namespace, next.name));
        return store
            .list_at(table, next.revision, namespace, &start)
            .ok_or_else(|| {
                ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
                )
            });
    }
    let requested = query.revision.unwrap_or(0);
    if requested > store.revision() {
        return Err(too_large(requested, store.revision()));
    }
    if query.revision_match.as_deref() == Some("Exact") {
        return store
            .list_at(table, requested, namespace, &Start::Beginning)
            .ok_or_else(|| {
                ApiError::expired(format!(
                    "The resourceVersion for the provided list is too old: {requested}"
                ))
            });
    }
    Ok(store.list(table, namespace, &Start::Beginning))
}

/// 504 for a resource version of the future: the client has seen another server's state.
pub(super) fn too_large(requested: u64, current: u64) -> ApiError {
    ApiError {
        retry_after_seconds: Some(1),
        ..ApiError::new(
            504,
            "Timeout",
            format!("Too large resource version: {requested}, current: {current}"),
        )
    }
    .with_details(json!({"causes": [{
        "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
    }]}))
}

/// Filters by the selectors, up to the limit.
fn page(listing: Listing, query: &ListQuery) -> Page {
    let is_selective = !query.labels.is_empty() || !query.fields.is_empty();
    let mut objects = listing.objects;
    if is_selective {
        objects.retain(|object| matches(object, query));
    }
    let mut metadata = json!({"resourceVersion": listing.revision.to_string()});
    if let Some(limit) = query.limit
        && objects.len() > limit
    {
        let remaining = objects.len() - limit;
        objects.truncate(limit);
        if let Some(last) = objects.last() {
            let token = encode_token(&Continue {
                revision: listing.revision,
                namespace: last.namespace().to_owned(),
                name: last.name().to_owned(),
            });
            crate::json::set(&mut metadata, &["continue"], token);
            if !is_selective {
                crate::json::set(&mut metadata, &["remainingItemCount"], remaining);
            }
        }
    }
    Page { metadata, objects }
}

pub(super) fn matches(object: &Object, query: &ListQuery) -> bool {
    (query.labels.is_empty() || query.labels.matches(object.labels()))
        && query.fields.matches(object)
}

/// Joins the encoded objects; none is encoded twice.
fn join(head: String, objects: &[Arc<Object>]) -> String {
    let size: usize = objects
        .iter()
        .map(|object| object.encoded().len() + 1)
        .sum();
    let mut body = head;
    body.reserve(size + TAIL.len());
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(object.encoded());
    }
    body.push_str(TAIL);
    body
}

fn encode_token(next: &Continue) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(next).unwrap_or_default())
}

fn decode_token(token: &str) -> ApiResult<Continue> {
    URL_SAFE_NO_PAD
        .decode(token)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| {
            ApiError::bad_request("continue key is not valid: it is none of this server's")
        })
}
