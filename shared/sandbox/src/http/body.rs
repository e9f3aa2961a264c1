use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use serde_json::Value;

use super::protobuf;
use crate::error::{ApiError, ApiResult};

/// Upper bound on request bodies, as in API servers; larger ones are rejected.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

pub(super) async fn read(body: Body) -> ApiResult<Vec<u8>> {
    match axum::body::to_bytes(body, BODY_BYTES_MAX).await {
        Ok(bytes) => Ok(bytes.to_vec()),
        Err(error) => Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_BYTES_MAX} bytes ({error})"),
        )),
    }
}

/// Media type of the body, without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let given = super::text(headers, header::CONTENT_TYPE);
    given.split(';').next().unwrap_or_default().trim()
}

/// Decodes a body in JSON, YAML or protobuf.
pub(super) fn decode(headers: &HeaderMap, body: &[u8]) -> ApiResult<Value> {
    let media_type = media_type(headers);
    match media_type {
        "" | "application/json" => parse_json(body),
        "application/yaml" => parse_yaml(body),
        protobuf::MEDIA_TYPE => protobuf::decode(body),
        other => Err(ApiError::unsupported_media_type(
            other,
            &["application/json", "application/yaml", protobuf::MEDIA_TYPE],
        )),
    }
}

pub(super) fn parse_json(body: &[u8]) -> ApiResult<Value> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("the object provided is unrecognized: {error}"))
    })
}

/// Parses YAML, of which JSON is a subset.
pub(super) fn parse_yaml(body: &[u8]) -> ApiResult<Value> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| ApiError::bad_request(format!("the body is not UTF-8: {error}")))?;
    serde_saphyr::from_str(text)
        .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))
}
