//! Errors of the API server: each is a `Status` object with an HTTP code and Kubernetes' wording.

use serde_json::{Value, json};
use thiserror::Error;

#[derive(Clone, Debug, Error, PartialEq)]
#[error("{message}")]
pub struct ApiError {
    pub code: u16,
    /// Machine-readable reason of `metav1.Status`, such as `NotFound`.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
    pub retry_after_seconds: Option<u32>,
}

pub type ApiResult<T> = Result<T, ApiError>;

/// Cause in the details of a 422 response.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldError {
    /// Machine-readable reason: `FieldValueRequired`, `FieldValueInvalid`, …
    pub reason: &'static str,
    /// Human-readable message; starts with the type of the error, as in Kubernetes.
    pub message: String,
    pub field: String,
}

impl FieldError {
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(
            "FieldValueRequired",
            field,
            suffixed("Required value", detail),
        )
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let shown = format!("Invalid value: {}", shown(value));
        Self::new("FieldValueInvalid", field, suffixed(&shown, detail))
    }

    /// Failed validation rule; the message shows the value if it is a scalar.
    pub fn rule(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        if value.is_object() || value.is_array() {
            Self::new(
                "FieldValueInvalid",
                field,
                suffixed("Invalid value", detail),
            )
        } else {
            Self::invalid(field, value, detail)
        }
    }

    /// Value of the wrong JSON type.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let shown = format!("Invalid value: {}", shown(value));
        Self::new("FieldValueTypeInvalid", field, suffixed(&shown, detail))
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {}", shown(value));
        Self::new("FieldValueDuplicate", field, message)
    }

    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(shown).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            allowed.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, suffixed("Forbidden", detail))
    }

    pub fn too_long(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueTooLong", field, suffixed("Too long", detail))
    }

    pub fn too_many(field: impl Into<String>, actual: usize, most: u64) -> Self {
        let message = format!("Too many: {actual}: must have at most {most} items");
        Self::new("FieldValueTooMany", field, message)
    }

    fn new(reason: &'static str, field: impl Into<String>, message: String) -> Self {
        Self {
            reason,
            message,
            field: field.into(),
        }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn suffixed(fault: &str, detail: &str) -> String {
    if detail.is_empty() {
        fault.to_owned()
    } else {
        format!("{fault}: {detail}")
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value.to_string(),
        Value::Array(_) => "\"array\"".to_owned(),
        Value::Object(_) => "\"object\"".to_owned(),
    }
}

/// Object that an error is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
}

impl Subject<'_> {
    /// Resource with its group: `pods` or `deployments.apps`.
    fn qualified_resource(&self) -> String {
        qualified(self.resource, self.group)
    }

    fn details(&self) -> Value {
        let mut details = json!({"name": self.name, "kind": self.resource});
        if !self.group.is_empty() {
            crate::json::set(&mut details, &["group"], self.group);
        }
        details
    }

    pub fn not_found(&self) -> ApiError {
        let message = format!("{} \"{}\" not found", self.qualified_resource(), self.name);
        ApiError::new(404, "NotFound", message).with_details(self.details())
    }

    pub fn already_exists(&self) -> ApiError {
        let message = format!(
            "{} \"{}\" already exists",
            self.qualified_resource(),
            self.name
        );
        ApiError::new(409, "AlreadyExists", message).with_details(self.details())
    }

    pub fn conflict(&self, why: &str) -> ApiError {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": {why}",
            self.qualified_resource(),
            self.name
        );
        ApiError::new(409, "Conflict", message).with_details(self.details())
    }

    pub fn modified(&self) -> ApiError {
        self.conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(&self, why: &str) -> ApiError {
        let resource = self.qualified_resource();
        let message = match self.name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} \"{name}\" is forbidden: {why}"),
        };
        ApiError::new(403, "Forbidden", message).with_details(self.details())
    }

    pub fn invalid(&self, errors: &[FieldError]) -> ApiError {
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = match shown.as_slice() {
            [single] => single.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!(
            "{} \"{}\" is invalid: {list}",
            qualified(self.kind, self.group),
            self.name
        );
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({"reason": error.reason, "message": error.message, "field": error.field})
            })
            .collect();
        let mut details = self.details();
        crate::json::set(&mut details, &["kind"], self.kind);
        crate::json::set(&mut details, &["causes"], causes);
        ApiError::new(422, "Invalid", message).with_details(details)
    }
}

fn qualified(word: &str, group: &str) -> String {
    if group.is_empty() {
        word.to_owned()
    } else {
        format!("{word}.{group}")
    }
}

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after_seconds: None,
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unknown_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 410: the requested resource version is no longer available, and the client must list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn unsupported_media_type(given: &str, allowed: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {} (got \"{given}\")",
            allowed.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: Option<u32>) -> Self {
        Self {
            retry_after_seconds,
            ..Self::new(429, "TooManyRequests", message)
        }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// `metav1.Status` object as sent to the client.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        let mut details = self.details.clone().unwrap_or(Value::Null);
        if let Some(seconds) = self.retry_after_seconds {
            crate::json::set(&mut details, &["retryAfterSeconds"], seconds);
        }
        if !details.is_null() {
            crate::json::set(&mut status, &["details"], details);
        }
        status
    }
}
