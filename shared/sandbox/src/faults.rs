//! Fault injection: failures that real API servers show occasionally, on request of a test.

use std::time::Duration;

use crate::error::ApiError;

/// Fault: which requests it hits, its effect, and how often.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Verb: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`; `None` matches any.
    pub verb: Option<String>,
    /// Plural resource name, with the subresource if there is one: `pods`, `pods/eviction`; `None` matches any.
    pub resource: Option<String>,
    pub name: Option<String>,
    pub effect: Effect,
    /// Number of matching requests that are hit before the fault ends.
    pub times: u32,
}

#[derive(Clone, Debug)]
pub enum Effect {
    /// The request is not executed, and this error is returned.
    Refuse(ApiError),
    /// The request is executed, and the client gets a 500.
    LoseAnswer,
    /// The request is executed after this delay.
    Delay(Duration),
    /// A watch ends as soon as it has begun, as servers end the watches of slow clients.
    EndAtOnce,
    /// The response is sent byte by byte, with this pause between bytes.
    Drip(Duration),
    /// The response is an endless text without a second line.
    Endless,
    /// The response is a small compressed body that unpacks to this many MiB.
    Unpacks(usize),
    /// The response is this text, with a success code.
    Answer(String),
}

impl Fault {
    /// Fault that hits the next `times` requests.
    pub fn new(effect: Effect, times: u32) -> Self {
        Self {
            verb: None,
            resource: None,
            name: None,
            effect,
            times,
        }
    }

    #[must_use]
    pub fn on_verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    #[must_use]
    pub fn on_resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    #[must_use]
    pub fn on_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(crate) fn hits(&self, verb: &str, resource: &str, name: Option<&str>) -> bool {
        self.times > 0
            && self.verb.as_deref().is_none_or(|wanted| wanted == verb)
            && self
                .resource
                .as_deref()
                .is_none_or(|wanted| wanted == resource)
            && self
                .name
                .as_deref()
                .is_none_or(|wanted| Some(wanted) == name)
    }
}

impl Effect {
    /// 429, as from API priority and fairness.
    pub fn throttle(retry_after_seconds: u32) -> Self {
        Self::Refuse(ApiError::too_many_requests(
            "too many requests, please try again later",
            Some(retry_after_seconds),
        ))
    }

    /// 500, an internal error of the server.
    pub fn internal_error() -> Self {
        Self::Refuse(ApiError::internal(
            "Internal error occurred: etcdserver: request timed out",
        ))
    }

    /// 409, as if another writer had been faster.
    pub fn conflict() -> Self {
        Self::Refuse(ApiError::new(
            409,
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
        ))
    }

    /// 410, as if the history had been compacted.
    pub fn expired() -> Self {
        Self::Refuse(ApiError::expired(
            "The resourceVersion for the provided list is too old.",
        ))
    }

    /// 503, as from a load balancer without healthy targets.
    pub fn unavailable() -> Self {
        Self::Refuse(ApiError::new(
            503,
            "ServiceUnavailable",
            "apiserver not ready",
        ))
    }
}

pub(crate) fn lost_response() -> ApiError {
    ApiError::internal("Internal error occurred: unexpected error when reading response body")
}
