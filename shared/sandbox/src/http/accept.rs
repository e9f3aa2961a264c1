use axum::http::{HeaderMap, header};

use super::query::Query;
use crate::error::{ApiError, ApiResult};

/// Representation in which objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Object,
    /// `PartialObjectMetadata`, for clients that need metadata only.
    Metadata,
    /// Rows for `kubectl get`.
    Table(RowObject),
}

/// Part of the object that each row of a table includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowObject {
    None,
    Metadata,
    Whole,
}

/// Media type parameter of one entry of an Accept header.
fn parameter<'a>(entry: &'a str, name: &str) -> &'a str {
    entry
        .split(';')
        .filter_map(|part| part.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map_or("", |(_, value)| value)
}

pub(super) fn entries(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// First representation of the Accept header that the server supports.
pub(super) fn shape(headers: &HeaderMap, query: &Query) -> ApiResult<Representation> {
    let mut any = false;
    for entry in entries(headers) {
        any = true;
        let media_type = entry.split(';').next().unwrap_or_default();
        if !matches!(media_type, "application/json" | "application/*" | "*/*") {
            continue;
        }
        return Ok(match parameter(entry, "as") {
            "" => Representation::Object,
            _ if parameter(entry, "v") != "v1" => continue,
            "Table" => Representation::Table(match query.text("includeObject") {
                "None" => RowObject::None,
                "Object" => RowObject::Whole,
                _ => RowObject::Metadata,
            }),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Representation::Metadata,
            _ => continue,
        });
    }
    if any {
        return Err(ApiError::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/json;as=Table;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ));
    }
    Ok(Representation::Object)
}

/// Returns whether the client asks for aggregated discovery.
pub(super) fn wants_aggregated(headers: &HeaderMap) -> bool {
    entries(headers).any(|entry| {
        parameter(entry, "as") == "APIGroupDiscoveryList" && parameter(entry, "v") == "v2"
    })
}
