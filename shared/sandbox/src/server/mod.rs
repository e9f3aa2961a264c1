//! Rules of the API server over the store: what a write may change, which defaults it sets, and why it is rejected.
//!
//! Pure: requests are values, and time is an argument. `http` exposes it over the network; controllers call it
//! directly.

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
pub(crate) use events::EVENTS;
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
    /// Number of cluster IPs assigned so far.
    service_addresses: u16,
}

/// Author of a write, and options of validation.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Manager recorded in `managedFields`; writes of the simulated controllers record none.
    pub manager: Option<String>,
    pub dry_run: bool,
    pub unknown_fields: UnknownFields,
    /// Conflict resolution of server-side apply.
    pub conflicts: Conflicts,
}

/// `fieldValidation` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    Ignore,
    #[default]
    Warn,
    Refuse,
}

/// Object after a write, with warnings and whether the write changed it.
#[derive(Clone, Debug)]
pub struct WriteResult {
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
    /// New cluster: the system namespaces and the objects that every cluster has.
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

    /// Stored object in the version of `kind`.
    pub fn present(&self, kind: &ResourceType, value: &Value) -> Value {
        let mut value = value.clone();
        if let Form::Events(_) = kind.form {
            return events::from_core(value);
        }
        json::set(&mut value, &["apiVersion"], kind.api_version());
        value
    }

    /// Returns whether stored objects can be sent unchanged as this kind.
    pub fn is_stored_as(&self, kind: &ResourceType) -> bool {
        match &kind.form {
            Form::BuiltIn(_) => true,
            Form::Events(_) => false,
            Form::Custom(form) => form.storage_version == kind.version,
        }
    }

    /// Kind whose objects a table stores; every table with objects has one.
    pub fn kind_of(&self, table: &TableId) -> ApiResult<Arc<ResourceType>> {
        self.kinds
            .of_table(table)
            .cloned()
            .ok_or_else(|| ApiError::internal(format!("no kind is kept in {}", table.as_str())))
    }

    /// Decodes a body as the kind of the request's path, in the stored form.
    fn read(
        &self,
        kind: &ResourceType,
        mut value: Value,
        unknown_fields: UnknownFields,
    ) -> ApiResult<(Value, Vec<String>)> {
        check_kind(kind, &mut value)?;
        let (value, unknown) = kind.decode(value)?;
        let warnings = unknown_fields.check(kind, &unknown)?;
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

    /// Decodes an apply configuration without adding defaults.
    fn read_partial(
        &self,
        kind: &ResourceType,
        mut value: Value,
        unknown_fields: UnknownFields,
    ) -> ApiResult<(Value, Vec<String>)> {
        check_kind(kind, &mut value)?;
        let (value, unknown) = kind.decode_partial(value)?;
        let warnings = unknown_fields.check(kind, &unknown)?;
        Ok((value, warnings))
    }
}

/// Checks that the body is of the kind of the path; sets the kind if the body has none.
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
    /// Returns warnings for unknown fields, or an error, as the mode demands.
    fn check(self, kind: &ResourceType, unknown: &[String]) -> ApiResult<Vec<String>> {
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
