//! The four patch types: JSON patch, merge patch, strategic merge patch and server-side apply.

pub mod apply;
mod field_set;
mod lists;
pub mod ownership;
mod strategic;

use serde_json::Value;

pub use strategic::merge as strategic_merge;

use crate::error::{ApiError, ApiResult};

/// Upper bound on the operations of one JSON patch, as in the API server.
const JSON_PATCH_OPERATIONS: usize = 10_000;

/// RFC 6902.
pub fn json_patch(value: &mut Value, patch: Value) -> ApiResult<()> {
    let patch: json_patch::Patch = serde_json::from_value(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if patch.len() > JSON_PATCH_OPERATIONS {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("The allowed maximum operations in a JSON patch is {JSON_PATCH_OPERATIONS}"),
        ));
    }
    json_patch::patch(value, &patch).map_err(|error| {
        ApiError::new(
            422,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {error}"),
        )
    })
}

/// RFC 7386.
pub fn merge_patch(value: &mut Value, patch: &Value) {
    json_patch::merge(value, patch);
}
