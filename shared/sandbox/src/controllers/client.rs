use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Machines;
use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::ResourceType,
    server::{ApiServer, DeleteOptions, EVENTS, Part, WriteOptions, rfc3339},
    store::{Object, ObjectKey, TableId},
};

/// Access of one controller run to the simulated cluster.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    pub(crate) server: &'a mut ApiServer,
    pub(crate) machines: &'a mut Machines,
    pub(crate) now: Timestamp,
}

impl<'a> Client<'a> {
    pub(crate) fn new(
        server: &'a mut ApiServer,
        machines: &'a mut Machines,
        now: Timestamp,
    ) -> Self {
        Self {
            server,
            machines,
            now,
        }
    }

    pub(crate) fn get(&self, table: &TableId, key: &ObjectKey) -> Option<Arc<Object>> {
        self.server.store.get(table, key).cloned()
    }

    pub(crate) fn all(&self, table: &TableId) -> Vec<Arc<Object>> {
        self.server.store.all(table).cloned().collect()
    }

    /// Objects of a table that list `owner` in their owner references.
    pub(crate) fn dependents(&self, table: &TableId, owner: &Object) -> Vec<Arc<Object>> {
        let object_refs = self.server.store.dependents(owner.uid());
        object_refs
            .iter()
            .filter(|(object_ref, _)| object_ref == table)
            .filter_map(|(object_ref, key)| self.get(object_ref, key))
            .collect()
    }

    fn kind(&self, table: &TableId) -> ApiResult<Arc<ResourceType>> {
        self.server.kind_of(table)
    }

    pub(crate) fn create(
        &mut self,
        table: &TableId,
        namespace: &str,
        mut object: Value,
    ) -> ApiResult<Arc<Object>> {
        let kind = self.kind(table)?;
        json::set(&mut object, &["apiVersion"], kind.api_version());
        json::set(&mut object, &["kind"], kind.kind.as_str());
        let options = WriteOptions::default();
        let written = self
            .server
            .create_read(&kind, namespace, object, &options, self.now)?;
        Ok(written.object)
    }

    /// Changes an object; succeeds without effect if the object no longer exists.
    pub(crate) fn change(
        &mut self,
        table: &TableId,
        key: &ObjectKey,
        part: Part,
        change: impl FnOnce(&mut Value),
    ) -> ApiResult<()> {
        let kind = self.kind(table)?;
        let changed = self.server.modify(&kind, key, part, self.now, change);
        ignore_not_found(changed.map(drop))
    }

    /// Deletes an object with its own grace period.
    pub(crate) fn delete(&mut self, table: &TableId, key: &ObjectKey) -> ApiResult<()> {
        self.delete_with(table, key, &DeleteOptions::default())
    }

    /// Deletes an object without a grace period.
    pub(crate) fn delete_now(&mut self, table: &TableId, key: &ObjectKey) -> ApiResult<()> {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        self.delete_with(table, key, &options)
    }

    fn delete_with(
        &mut self,
        table: &TableId,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> ApiResult<()> {
        let kind = self.kind(table)?;
        let deleted = self.server.delete(&kind, key, options, self.now);
        ignore_not_found(deleted.map(drop))
    }

    /// Emits an event about an object. Events that differ in the message alone are counted as one, as components do that post to
    /// `events.k8s.io`.
    pub(crate) fn record(
        &mut self,
        about: &Object,
        component: &str,
        severity: Severity,
        reason: &str,
        message: &str,
    ) -> ApiResult<()> {
        let namespace = match about.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let now = rfc3339(self.now);
        let mut event = json!({
            "metadata": {"generateName": format!("{}.", about.name())},
            "involvedObject": {
                "kind": about.kind(),
                "apiVersion": json::at(about.value(), &["apiVersion"]),
                "namespace": about.namespace(),
                "name": about.name(),
                "uid": about.uid(),
                "resourceVersion": about.revision().to_string(),
            },
            "type": severity.word(),
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        let kind = self.kind(&EVENTS)?;
        let counted = self
            .server
            .count_event(&kind, namespace, &mut event, "", self.now)?;
        match counted {
            Some(_) => Ok(()),
            None => self.create(&EVENTS, namespace, event).map(drop),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

fn ignore_not_found(result: ApiResult<()>) -> ApiResult<()> {
    match result {
        Err(ApiError { code: 404, .. }) => Ok(()),
        other => other,
    }
}
