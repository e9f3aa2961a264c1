use std::io::Read;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use serde_json::Value;

use crate::error::ApiError;

/// Size from which bodies are compressed, as in API servers.
const COMPRESS_FROM_BYTES: usize = 128 * 1024;

/// Response before encoding.
#[derive(Debug)]
pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    pub(super) body: String,
    pub(super) content_type: &'static str,
    pub(super) warnings: Vec<String>,
}

pub(super) const JSON: &str = "application/json";

impl ApiResponse {
    pub(super) fn ok(body: &Value) -> Self {
        Self::text(body.to_string())
    }

    /// Response whose body is encoded JSON.
    pub(super) fn text(body: String) -> Self {
        Self {
            status: StatusCode::OK,
            body,
            content_type: JSON,
            warnings: Vec::new(),
        }
    }

    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    pub(super) fn into_response(self, request: &HeaderMap) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(self.content_type),
        );
        for warning in &self.warnings {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                headers.append(header::WARNING, value);
            }
        }
        let body = if takes_gzip(request) && self.body.len() >= COMPRESS_FROM_BYTES {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            Body::from(compress(&self.body))
        } else {
            Body::from(self.body)
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }
}

impl From<ApiError> for ApiResponse {
    fn from(error: ApiError) -> Self {
        let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::ok(&error.to_status()).with_status(status)
    }
}

/// Sets the `Retry-After` header of an error, which clients respect on 429.
pub(super) fn retry_after(error: &ApiError, response: &mut Response) {
    if let Some(seconds) = error.retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Returns whether the client accepts gzip.
pub(super) fn takes_gzip(request: &HeaderMap) -> bool {
    request
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|encodings| encodings.contains("gzip"))
}

pub(super) fn compress(body: &str) -> Vec<u8> {
    let mut compressed = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(body.as_bytes(), flate2::Compression::fast());
    // In-memory compression cannot fail; if it did, the client would receive an incomplete body.
    if encoder.read_to_end(&mut compressed).is_err() {
        compressed.clear();
    }
    compressed
}
