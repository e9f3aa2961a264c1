use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ApiServer, Part, WriteOptions, WriteResult, parse_time};
use crate::{
    digest::digest,
    error::ApiResult,
    json,
    kinds::ResourceType,
    store::{ObjectKey, TableId},
};

pub(crate) const EVENTS: TableId = TableId::named("events");
/// Interval within which equal events about an object are counted instead of repeated.
const SERIES: SignedDuration = SignedDuration::from_mins(10);

impl ApiServer {
    /// Counts a posted event that equals an earlier one, as event recorders of clients do. Events that already have a name are left to
    /// their authors.
    pub(super) fn count_posted_event(
        &mut self,
        kind: &ResourceType,
        namespace: &str,
        event: &mut Value,
        options: &WriteOptions,
        now: Timestamp,
    ) -> ApiResult<Option<WriteResult>> {
        let is_named = !json::text(event, &["metadata", "name"]).is_empty()
            || json::text(event, &["metadata", "generateName"]).is_empty();
        if kind.table != EVENTS || is_named || options.dry_run {
            return Ok(None);
        }
        let message = json::text(event, &["message"]).to_owned();
        self.count_event(kind, namespace, event, &message, now)
    }

    /// Counts an event if an earlier one about the same object has its type, reason, component and `series`, and replaces the message.
    /// Otherwise gives the event the name by which later ones find it.
    pub(crate) fn count_event(
        &mut self,
        kind: &ResourceType,
        namespace: &str,
        event: &mut Value,
        series: &str,
        now: Timestamp,
    ) -> ApiResult<Option<WriteResult>> {
        let prefix = json::text(event, &["metadata", "generateName"]);
        let identity = digest(&[
            json::text(event, &["involvedObject", "uid"]),
            json::text(event, &["type"]),
            json::text(event, &["reason"]),
            json::text(event, &["reportingComponent"]),
            series,
        ]);
        let name = format!("{prefix}{identity:016x}");
        let key = ObjectKey::new(namespace, name.as_str());
        if self.store.get(&EVENTS, &key).is_none() {
            json::set(event, &["metadata", "name"], name);
            return Ok(None);
        }
        let counted = self.modify(kind, &key, Part::Main, now, |earlier| {
            let last = parse_time(json::text(earlier, &["lastTimestamp"]));
            let is_recent = last.is_some_and(|last| now.duration_since(last) < SERIES);
            let count = json::integer(earlier, &["count"]).unwrap_or(1);
            json::set(earlier, &["count"], if is_recent { count + 1 } else { 1 });
            json::copy(event, earlier, &["message"]);
            json::copy(event, earlier, &["lastTimestamp"]);
            if !is_recent {
                json::copy(event, earlier, &["firstTimestamp"]);
            }
        })?;
        Ok(Some(counted))
    }
}

/// Field names of `events.k8s.io/v1`, and those of the core kind in which events are stored.
const NAMES: &[(&str, &[&str])] = &[
    ("note", &["message"]),
    ("regarding", &["involvedObject"]),
    ("reportingController", &["reportingComponent"]),
    ("deprecatedSource", &["source"]),
    ("deprecatedFirstTimestamp", &["firstTimestamp"]),
    ("deprecatedLastTimestamp", &["lastTimestamp"]),
    ("deprecatedCount", &["count"]),
];

/// Converts an `events.k8s.io` event to the stored core event.
pub(super) fn to_core(mut event: Value) -> Value {
    for (new, core) in NAMES {
        if let Some(value) = json::remove(&mut event, &[new]) {
            json::set(&mut event, core, value);
        }
    }
    json::set(&mut event, &["apiVersion"], "v1");
    event
}

/// Converts a stored core event to `events.k8s.io`.
pub(super) fn from_core(mut event: Value) -> Value {
    for (new, core) in NAMES {
        if let Some(value) = json::remove(&mut event, core) {
            json::set(&mut event, &[new], value);
        }
    }
    json::set(&mut event, &["apiVersion"], "events.k8s.io/v1");
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn core_and_events_k8s_io_events_share_objects() {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "no room",
            "regarding": {"kind": "Pod", "name": "web-0"}, "reason": "FailedScheduling",
        });
        let core = to_core(event.clone());
        assert_eq!(core["message"], "no room");
        assert_eq!(core["involvedObject"]["name"], "web-0");
        assert_eq!(from_core(core), event);
    }
}
