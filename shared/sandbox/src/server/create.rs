use jiff::Timestamp;
use serde_json::Value;

use super::{ApiServer, Outcome, WriteOptions, WriteResult, defaults, metadata, validation};
use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::{Form, ResourceType},
    patch::ownership,
    store::{ObjectKey, TableId},
};

const NAMESPACES: TableId = TableId::named("namespaces");

impl ApiServer {
    /// Creates an object from a request's body.
    pub fn create(
        &mut self,
        kind: &ResourceType,
        namespace: &str,
        body: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        let (value, warnings) = self.read(kind, body, options.unknown_fields)?;
        let written = self.create_read(kind, namespace, value, options, now)?;
        Ok(WriteResult {
            warnings,
            ..written
        })
    }

    /// Creates an object that has been decoded as its kind.
    pub(crate) fn create_read(
        &mut self,
        kind: &ResourceType,
        namespace: &str,
        mut value: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        if let Some(counted) = self.count_posted_event(kind, namespace, &mut value, options, now)? {
            return Ok(counted);
        }
        let key = self.identify(kind, namespace, &mut value, now)?;
        if kind.has_status && kind.is_custom() {
            json::remove(&mut value, &["status"]);
        }
        defaults::on_create(self, kind, &mut value)?;
        self.admit(kind, &key)?;
        self.check(kind, &key, &value, None)?;
        if self.store.get(&kind.table, &key).is_some() {
            return Err(kind.subject(&key.name).already_exists());
        }
        if kind.is_crd() {
            self.establish(&mut value, now)?;
        }
        if let Some(manager) = &options.manager {
            ownership::of_update(kind, None, &Value::Null, &mut value, manager, now);
        }
        let object = if options.dry_run {
            std::sync::Arc::new(crate::store::Object::unsaved(value))
        } else {
            self.store.put(&kind.table, value)
        };
        Ok(WriteResult {
            object,
            warnings: Vec::new(),
            change: Outcome::Created,
        })
    }

    /// Checks that the namespace exists and is not being deleted.
    fn admit(&self, kind: &ResourceType, key: &ObjectKey) -> ApiResult<()> {
        if !kind.namespaced {
            return Ok(());
        }
        let namespace = self
            .store
            .get(&NAMESPACES, &ObjectKey::new("", key.namespace.as_str()));
        match namespace {
            None => Err(ApiError::new(
                404,
                "NotFound",
                format!("namespaces \"{}\" not found", key.namespace),
            )),
            Some(namespace) if namespace.is_terminating() => {
                Err(kind.subject(&key.name).forbidden(&format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    key.namespace
                )))
            }
            Some(_) => Ok(()),
        }
    }

    /// Rejects an object that is invalid for its kind.
    pub(super) fn check(
        &self,
        kind: &ResourceType,
        key: &ObjectKey,
        value: &Value,
        old: Option<&Value>,
    ) -> ApiResult<()> {
        let mut errors = metadata::check(kind, value);
        match &kind.form {
            Form::Custom(form) => errors.extend(form.schema.validate(value, old)),
            Form::BuiltIn(_) | Form::Events(_) => {
                errors.extend(validation::check(kind, value, old));
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(kind.subject(&key.name).invalid(&errors))
        }
    }
}
