use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{EVENTS, Machines};
use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::ResourceType,
    server::{ApiServer, DeleteOptions, Part, WriteOptions, rfc3339},
    store::{Object, ObjectKey, TableId},
};

/// The world as one controller's turn sees it.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    pub(crate) server: &'a mut ApiServer,
    pub(crate) machines: &'a mut Machines,
    pub(crate) now: Timestamp,
}

/// Events of one kind about one object within this time are counted, not repeated.
const EVENT_SERIES: SignedDuration = SignedDuration::from_mins(10);

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

    /// Objects of a table that name this one as an owner.
    pub(crate) fn dependents(&self, table: &TableId, owner: &Object) -> Vec<Arc<Object>> {
        let places = self.server.store.dependents(owner.uid());
        places
            .iter()
            .filter(|(place, _)| place == table)
            .filter_map(|(place, key)| self.get(place, key))
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

    /// Changes an object; one that is gone by now is left in peace.
    pub(crate) fn change(
        &mut self,
        table: &TableId,
        key: &ObjectKey,
        part: Part,
        change: impl FnOnce(&mut Value),
    ) -> ApiResult<()> {
        let kind = self.kind(table)?;
        let changed = self.server.modify(&kind, key, part, self.now, change);
        forgive_absence(changed.map(drop))
    }

    /// Deletes an object, with the grace that it has itself.
    pub(crate) fn delete(&mut self, table: &TableId, key: &ObjectKey) -> ApiResult<()> {
        self.delete_with(table, key, &DeleteOptions::default())
    }

    /// Deletes an object at once.
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
        forgive_absence(deleted.map(drop))
    }

    /// Tells users what happened to an object; repetitions are counted.
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
        let name = format!("{}.{}", about.name(), series(about, reason, message));
        let key = ObjectKey::new(namespace, name);
        let now = rfc3339(self.now);
        if let Some(earlier) = self.get(&EVENTS, &key) {
            let last = json::text(earlier.value(), &["lastTimestamp"]);
            let is_recent = crate::server::parse_time(last)
                .is_some_and(|last| self.now.duration_since(last) < EVENT_SERIES);
            let count = json::integer(earlier.value(), &["count"]).unwrap_or(1);
            let count = if is_recent { count + 1 } else { 1 };
            return self.change(&EVENTS, &key, Part::Main, |event| {
                json::set(event, &["count"], count);
                json::set(event, &["lastTimestamp"], now);
            });
        }
        let event = json!({
            "metadata": {"name": key.name},
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
        self.create(&EVENTS, namespace, event).map(drop)
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

fn forgive_absence(result: ApiResult<()>) -> ApiResult<()> {
    match result {
        Err(ApiError { code: 404, .. }) => Ok(()),
        other => other,
    }
}

/// Sixteen hex digits that are the same for the same words about the same object.
fn series(about: &Object, reason: &str, message: &str) -> String {
    let digest = super::owned::fnv(&[about.uid(), reason, message]);
    format!("{digest:016x}")
}
