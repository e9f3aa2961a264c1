//! Faults on demand: what real API servers do now and then, when a test asks for it.

use std::time::Duration;

use crate::error::ApiError;

/// Which requests fail, how, and how often.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`; `None` is any.
    pub verb: Option<String>,
    /// Plural name, with the subresource if it is one: `pods`, `pods/eviction`; `None` is any.
    pub resource: Option<String>,
    pub name: Option<String>,
    pub effect: Effect,
    /// Matching requests that are hit; after that the fault is over.
    pub times: u32,
}

#[derive(Clone, Debug)]
pub enum Effect {
    /// Nothing is done, and the error is the answer.
    Refuse(ApiError),
    /// The request is done, and the client never learns: it gets a 500.
    LoseAnswer,
    /// The request is done after this time.
    Delay(Duration),
    /// A watch ends as soon as it has begun, as servers end those of clients that they take for slow.
    EndAtOnce,
    /// The answer comes byte by byte, so long apart.
    Drip(Duration),
    /// The answer is text that never ends, and has no second line.
    Endless,
    /// The answer is a small file that unpacks to so many MiB.
    Unpacks(usize),
    /// The answer is this text, with the code of success.
    Answer(String),
}

impl Fault {
    /// A fault that hits every request this often.
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
    /// 429, as priority and fairness answers.
    pub fn throttle(retry_after_seconds: u32) -> Self {
        Self::Refuse(ApiError::too_many_requests(
            "too many requests, please try again later",
            Some(retry_after_seconds),
        ))
    }

    /// 500, as a server in trouble answers.
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

    /// 503, as a load balancer without a server answers.
    pub fn unavailable() -> Self {
        Self::Refuse(ApiError::new(
            503,
            "ServiceUnavailable",
            "apiserver not ready",
        ))
    }
}

pub(crate) fn lost_answer() -> ApiError {
    ApiError::internal("Internal error occurred: unexpected error when reading response body")
}
