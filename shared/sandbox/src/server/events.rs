use serde_json::Value;

use crate::json;

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
