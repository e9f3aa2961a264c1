//! The rules of the API server over the store: what a write may change, what it fills in, and what it refuses.
//!
//! Pure: requests come in as values, time as an argument. `http` puts it on the wire; controllers call it directly.

mod bind;
mod bootstrap;
mod crd;
mod create;
mod defaults;
mod delete;
mod events;
mod evict;
mod metadata;
mod scale;
#[cfg(test)]
mod tests;
mod time;
mod update;
mod validation;

use std::sync::Arc;

pub(crate) use bind::set_condition;
pub(crate) use crd::CLEANUP_FINALIZER;
pub use delete::{DeleteOptions, Deleted, Preconditions, Propagation};
pub(crate) use delete::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
pub use evict::is_ready;
pub(crate) use evict::selects;
use jiff::Timestamp;
use serde_json::Value;
pub use time::{micro_time, parse_time, rfc3339};
pub use update::Part;

use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::{Form, Kinds, ResourceType},
    patch::apply::Conflicts,
    store::{Object, ObjectKey, Store, TableId},
};

#[derive(Debug)]
pub struct ApiServer {
    pub store: Store,
    pub kinds: Kinds,
    /// Cluster IPs given out so far.
    service_addresses: u16,
}

/// Who writes, and how strictly the body is read.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Recorded in `managedFields`; the controllers inside write without a record.
    pub manager: Option<String>,
    pub dry_run: bool,
    pub unknown_fields: UnknownFields,
    /// What server-side apply does about fields that others own.
    pub conflicts: Conflicts,
}

/// The `fieldValidation` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    Ignore,
    #[default]
    Warn,
    Refuse,
}

/// The outcome of a write.
#[derive(Clone, Debug)]
pub struct Written {
    pub object: Arc<Object>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    pub change: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Changed,
    /// The write changed nothing, or removed the last finalizer of a deleted object.
    Unchanged,
}

impl ApiServer {
    /// An empty cluster: the system namespaces and what every cluster has.
    pub fn new(seed: u64, history_limit: usize, now: Timestamp) -> Self {
        let mut server = Self {
            store: Store::new(seed, history_limit),
            kinds: Kinds::built_in(),
            service_addresses: 0,
        };
        server.bootstrap(now);
        server
    }

    pub fn get(&self, kind: &ResourceType, key: &ObjectKey) -> ApiResult<Arc<Object>> {
        self.store
            .get(&kind.table, key)
            .cloned()
            .ok_or_else(|| kind.subject(&key.name).not_found())
    }

    /// The stored object in the words of the version asked for.
    pub fn present(&self, kind: &ResourceType, value: &Value) -> Value {
        let mut value = value.clone();
        if let Form::Events(_) = kind.form {
            return events::from_core(value);
        }
        json::set(&mut value, &["apiVersion"], kind.api_version());
        value
    }

    /// Whether stored objects can be written to the wire as they are.
    pub fn is_stored_as(&self, kind: &ResourceType) -> bool {
        match &kind.form {
            Form::BuiltIn(_) => true,
            Form::Events(_) => false,
            Form::Custom(form) => form.storage_version == kind.version,
        }
    }

    /// The kind that a table keeps; every table that holds objects has one.
    pub fn kind_of(&self, table: &TableId) -> ApiResult<Arc<ResourceType>> {
        self.kinds
            .of_table(table)
            .cloned()
            .ok_or_else(|| ApiError::internal(format!("no kind is kept in {}", table.as_str())))
    }

    /// Reads a body as the kind of the request's path, in the form that is stored.
    fn read(
        &self,
        kind: &ResourceType,
        mut value: Value,
        unknown_fields: UnknownFields,
    ) -> ApiResult<(Value, Vec<String>)> {
        check_kind(kind, &mut value)?;
        let (value, unknown) = kind.decode(value)?;
        let warnings = unknown_fields.judge(kind, &unknown)?;
        let value = match &kind.form {
            Form::BuiltIn(_) => value,
            Form::Events(_) => events::to_core(value),
            Form::Custom(form) => {
                let mut value = value;
                let api_version = format!("{}/{}", kind.group, form.storage_version);
                json::set(&mut value, &["apiVersion"], api_version);
                form.schema.apply_defaults(&mut value);
                value
            }
        };
        Ok((value, warnings))
    }

    /// Reads an apply configuration: only what it states.
    fn read_partial(
        &self,
        kind: &ResourceType,
        mut value: Value,
        unknown_fields: UnknownFields,
    ) -> ApiResult<(Value, Vec<String>)> {
        check_kind(kind, &mut value)?;
        let (value, unknown) = kind.decode_partial(value)?;
        let warnings = unknown_fields.judge(kind, &unknown)?;
        Ok((value, warnings))
    }
}

/// The body must be of the kind that the path names, or not say.
fn check_kind(kind: &ResourceType, value: &mut Value) -> ApiResult<()> {
    if !value.is_object() {
        return Err(ApiError::bad_request("the body is not a JSON object"));
    }
    for (field, expected) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.clone()),
    ] {
        let given = json::text(value, &[field]).to_owned();
        if given.is_empty() {
            json::set(value, &[field], expected);
        } else if given != expected {
            return Err(ApiError::bad_request(format!(
                "the {field} in the data ({given}) does not match the expected {field} ({expected})"
            )));
        }
    }
    Ok(())
}

impl UnknownFields {
    /// Warnings for unknown fields, or a refusal.
    fn judge(self, kind: &ResourceType, unknown: &[String]) -> ApiResult<Vec<String>> {
        let named: Vec<String> = unknown
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect();
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Warn => Ok(named),
            Self::Refuse if named.is_empty() => Ok(named),
            Self::Refuse => Err(ApiError::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                kind.version,
                kind.kind,
                named.join(", ")
            ))),
        }
    }
}
