use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, Outcome, UnknownFields, WriteOptions, WriteResult, defaults, metadata};
use crate::{
    error::{ApiError, ApiResult, FieldError},
    json,
    kinds::{Form, ResourceType},
    patch::{apply::apply, ownership},
    store::{Object, ObjectKey},
};

/// Part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, if the status is a subresource.
    Main,
    Status,
}

impl Part {
    pub fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Main => None,
            Self::Status => Some("status"),
        }
    }
}

impl ApiServer {
    /// Replaces an object with a request's body.
    pub fn update(
        &mut self,
        kind: &ResourceType,
        key: &ObjectKey,
        part: Part,
        body: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        let old = self.get(kind, key)?;
        let (mut value, warnings) = self.read(kind, body, options.unknown_fields)?;
        if json::text(&value, &["metadata", "name"]) != key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                json::text(&value, &["metadata", "name"]),
                key.name
            )));
        }
        check_preconditions(kind, &old, &value)?;
        self.merge_part(kind, &old, &mut value, part)?;
        if let Some(manager) = &options.manager {
            ownership::of_update(
                kind,
                part.subresource(),
                old.value(),
                &mut value,
                manager,
                now,
            );
        }
        let written = self.replace(kind, &old, value, options, now)?;
        Ok(WriteResult {
            warnings,
            ..written
        })
    }

    /// Replaces an object with the result of a patch.
    pub fn patched(
        &mut self,
        kind: &ResourceType,
        old: &Arc<Object>,
        part: Part,
        body: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        let key = old.key();
        let given = (
            json::text(&body, &["metadata", "name"]),
            json::text(&body, &["metadata", "namespace"]),
        );
        if given.0 != key.name || kind.namespaced && given.1 != key.namespace {
            return Err(ApiError::bad_request(
                "a patch may not change an object's name or namespace",
            ));
        }
        self.update(kind, &key, part, body, options, now)
    }

    /// Server-side apply: creates the object or merges into it.
    pub fn apply(
        &mut self,
        kind: &ResourceType,
        key: &ObjectKey,
        part: Part,
        config: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        let manager = options.manager.as_deref().unwrap_or_default();
        if manager.is_empty() {
            return Err(ApiError::bad_request(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        let live = self.store.get(&kind.table, key).cloned();
        let (mut config, warnings) = self.read_partial(kind, config, options.unknown_fields)?;
        if !json::at(&config, &["metadata", "managedFields"]).is_null() {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        json::set(&mut config, &["metadata", "name"], key.name.as_str());
        if kind.namespaced {
            json::set(
                &mut config,
                &["metadata", "namespace"],
                key.namespace.as_str(),
            );
        }
        match part {
            Part::Main if kind.has_status => {
                json::remove(&mut config, &["status"]);
            }
            Part::Main => {}
            Part::Status => {
                let status = json::at(&config, &["status"]).clone();
                let metadata = json::at(&config, &["metadata"]).clone();
                config = json!({"metadata": metadata, "status": status});
            }
        }
        let (subresource, conflicts) = (part.subresource(), options.conflicts);
        let untracked = WriteOptions {
            manager: None,
            ..options.clone()
        };
        let Some(live) = live else {
            if part == Part::Status {
                return Err(kind.subject(&key.name).not_found());
            }
            json::remove(&mut config, &["metadata", "resourceVersion"]);
            let uid = json::remove(&mut config, &["metadata", "uid"]);
            if uid.is_some() {
                return Err(kind
                    .subject(&key.name)
                    .conflict("uid mismatch: the object does not exist"));
            }
            let created = apply(kind, None, &config, subresource, manager, conflicts, now)?;
            let (created, _) = self.read(kind, created, UnknownFields::Ignore)?;
            let written = self.create_read(kind, &key.namespace, created, &untracked, now)?;
            return Ok(WriteResult {
                warnings,
                ..written
            });
        };
        let revision = json::text(&config, &["metadata", "resourceVersion"]);
        if !revision.is_empty() && revision != live.revision().to_string() {
            return Err(kind.subject(&key.name).modified());
        }
        let merged = apply(
            kind,
            Some(&live),
            &config,
            subresource,
            manager,
            conflicts,
            now,
        )?;
        let (mut merged, _) = self.read(kind, merged, UnknownFields::Ignore)?;
        self.merge_part(kind, &live, &mut merged, part)?;
        let written = self.replace(kind, &live, merged, &untracked, now)?;
        Ok(WriteResult {
            warnings,
            ..written
        })
    }

    /// Changes an object on behalf of a simulated controller: without a version check, field validation or manager.
    pub(crate) fn modify(
        &mut self,
        kind: &ResourceType,
        key: &ObjectKey,
        part: Part,
        now: Timestamp,
        change: impl FnOnce(&mut Value),
    ) -> ApiResult<WriteResult> {
        let old = self.get(kind, key)?;
        let mut value = old.value().clone();
        change(&mut value);
        self.merge_part(kind, &old, &mut value, part)?;
        self.replace(kind, &old, value, &WriteOptions::default(), now)
    }

    /// Restores the parts that this write may not change, and sets defaults.
    pub(super) fn merge_part(
        &self,
        kind: &ResourceType,
        old: &Object,
        value: &mut Value,
        part: Part,
    ) -> ApiResult<()> {
        match part {
            Part::Main if kind.has_status => json::copy(old.value(), value, &["status"]),
            Part::Main => {}
            Part::Status => {
                // Status writes of built-in kinds may change labels and annotations; those of custom kinds may not.
                let mut base = old.value().clone();
                if kind.is_custom() {
                    json::copy(value, &mut base, &["metadata", "managedFields"]);
                } else {
                    json::copy(value, &mut base, &["metadata"]);
                }
                json::copy(value, &mut base, &["status"]);
                *value = base;
            }
        }
        metadata::keep_server_owned(old.value(), value);
        json::remove(value, &["metadata", "resourceVersion"]);
        defaults::on_update(kind, old.value(), value);
        metadata::count_generation(kind, old.value(), value);
        self.refuse_new_finalizers(kind, old, value)
    }

    fn refuse_new_finalizers(
        &self,
        kind: &ResourceType,
        old: &Object,
        value: &Value,
    ) -> ApiResult<()> {
        let before = json::items(old.value(), &["metadata", "finalizers"]);
        let added = json::items(value, &["metadata", "finalizers"])
            .iter()
            .any(|finalizer| !before.contains(finalizer));
        if old.is_terminating() && added {
            return Err(kind.subject(old.name()).invalid(&[FieldError::forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted",
            )]));
        }
        Ok(())
    }

    /// Stores an object in place of its older version; removes it if its deletion waited only for this write.
    pub(super) fn replace(
        &mut self,
        kind: &ResourceType,
        old: &Arc<Object>,
        mut value: Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<WriteResult> {
        let key = old.key();
        if same(old.value(), &value) {
            return Ok(WriteResult {
                object: old.clone(),
                warnings: Vec::new(),
                change: Outcome::Unchanged,
            });
        }
        self.check(kind, &key, &value, Some(old.value()))?;
        if kind.is_crd() {
            self.establish(&mut value, now)?;
        }
        let object = if options.dry_run {
            Arc::new(Object::unsaved(value))
        } else {
            let object = self.store.put(&kind.table, value);
            if super::delete::is_finished(&object) {
                return Ok(WriteResult {
                    object: self.finish(kind, &key).unwrap_or(object),
                    warnings: Vec::new(),
                    change: Outcome::Unchanged,
                });
            }
            object
        };
        Ok(WriteResult {
            object,
            warnings: Vec::new(),
            change: Outcome::Changed,
        })
    }
}

/// Checks the resource version of an update; for custom resources it is required.
fn check_preconditions(kind: &ResourceType, old: &Object, value: &Value) -> ApiResult<()> {
    let subject = kind.subject(old.name());
    let uid = json::text(value, &["metadata", "uid"]);
    if !uid.is_empty() && uid != old.uid() {
        return Err(subject.conflict(&format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid()
        )));
    }
    let revision = json::text(value, &["metadata", "resourceVersion"]);
    if revision.is_empty() {
        if matches!(kind.form, Form::Custom(_)) {
            return Err(subject.invalid(&[FieldError::invalid(
                "metadata.resourceVersion",
                &Value::from(0),
                "must be specified for an update",
            )]));
        }
    } else if revision != old.revision().to_string() {
        return Err(subject.modified());
    }
    Ok(())
}

/// Returns whether two versions are equal, apart from resource versions and the times of managed fields.
fn same(old: &Value, new: &Value) -> bool {
    let essence = |value: &Value| {
        let mut value = value.clone();
        json::remove(&mut value, &["metadata", "resourceVersion"]);
        for entry in json::items_mut(&mut value, &["metadata", "managedFields"]) {
            json::remove(entry, &["time"]);
        }
        value
    };
    essence(old) == essence(new)
}
