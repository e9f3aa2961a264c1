use jiff::Timestamp;
use serde_json::Value;

use super::age;
use crate::{json, selectors::LabelSelector};

pub(super) fn created(object: &Value, now: Timestamp) -> Value {
    age::age(json::at(object, &["metadata", "creationTimestamp"]), now)
}

pub(super) fn or_none(object: &Value, path: &[&str]) -> Value {
    or(object, path, "<none>")
}

pub(super) fn or_na(object: &Value, path: &[&str]) -> Value {
    or(object, path, "N/A")
}

pub(super) fn or_empty(object: &Value, path: &[&str]) -> Value {
    or(object, path, "")
}

fn or(object: &Value, path: &[&str], otherwise: &str) -> Value {
    match json::at(object, path) {
        Value::Null => Value::from(otherwise),
        Value::String(text) if text.is_empty() => Value::from(otherwise),
        value @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => value.clone(),
    }
}

pub(super) fn count(object: &Value, path: &[&str]) -> Value {
    Value::from(json::integer(object, path).unwrap_or(0))
}

pub(super) fn size(object: &Value, path: &[&str]) -> Value {
    Value::from(
        json::at(object, path)
            .as_object()
            .map_or(0, |map| map.len()),
    )
}

pub(super) fn pod_ready(pod: &Value, _: Timestamp) -> Value {
    let ready = json::items(pod, &["status", "containerStatuses"])
        .iter()
        .filter(|status| json::flag(status, &["ready"]))
        .count();
    let all = json::items(pod, &["spec", "containers"]).len();
    Value::from(format!("{ready}/{all}"))
}

pub(super) fn pod_status(pod: &Value, _: Timestamp) -> Value {
    if !json::at(pod, &["metadata", "deletionTimestamp"]).is_null() {
        return Value::from("Terminating");
    }
    let waiting = json::items(pod, &["status", "containerStatuses"])
        .iter()
        .map(|status| json::text(status, &["state", "waiting", "reason"]))
        .find(|reason| !reason.is_empty());
    let reason = json::text(pod, &["status", "reason"]);
    let phase = json::text(pod, &["status", "phase"]);
    Value::from(match (waiting, reason) {
        (Some(waiting), _) => waiting,
        (None, "") if phase == "Succeeded" => "Completed",
        (None, "") => phase,
        (None, reason) => reason,
    })
}

pub(super) fn node_status(node: &Value, _: Timestamp) -> Value {
    let ready = if crate::server::is_ready(node) {
        "Ready"
    } else {
        "NotReady"
    };
    let cordoned = if json::flag(node, &["spec", "unschedulable"]) {
        ",SchedulingDisabled"
    } else {
        ""
    };
    Value::from(format!("{ready}{cordoned}"))
}

pub(super) fn node_roles(node: &Value, _: Timestamp) -> Value {
    let roles: Vec<&str> = json::strings(node, &["metadata", "labels"])
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    Value::from(if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    })
}

pub(super) fn node_address(node: &Value, _: Timestamp) -> Value {
    json::items(node, &["status", "addresses"])
        .iter()
        .find(|address| json::text(address, &["type"]) == "InternalIP")
        .map_or(Value::from("<none>"), |address| {
            json::at(address, &["address"]).clone()
        })
}

pub(super) fn deployment_ready(workload: &Value, _: Timestamp) -> Value {
    let number = |path: &[&str]| json::integer(workload, path).unwrap_or(0);
    let ready = number(&["status", "readyReplicas"]);
    Value::from(format!("{ready}/{}", number(&["spec", "replicas"])))
}

fn of_containers(workload: &Value, field: &str) -> Value {
    let texts: Vec<&str> = json::items(workload, &["spec", "template", "spec", "containers"])
        .iter()
        .map(|container| json::text(container, &[field]))
        .collect();
    Value::from(texts.join(","))
}

pub(super) fn template_containers(workload: &Value, _: Timestamp) -> Value {
    of_containers(workload, "name")
}

pub(super) fn template_images(workload: &Value, _: Timestamp) -> Value {
    of_containers(workload, "image")
}

pub(super) fn selector(object: &Value, _: Timestamp) -> Value {
    let selector = LabelSelector::of_object(json::at(object, &["spec", "selector"])).to_string();
    Value::from(if selector.is_empty() {
        "<none>".to_owned()
    } else {
        selector
    })
}

pub(super) fn node_selector(daemon_set: &Value, _: Timestamp) -> Value {
    let pairs: Vec<String> =
        json::strings(daemon_set, &["spec", "template", "spec", "nodeSelector"])
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
    Value::from(if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    })
}

pub(super) fn job_status(job: &Value, _: Timestamp) -> Value {
    let condition = json::items(job, &["status", "conditions"])
        .iter()
        .find(|condition| json::text(condition, &["status"]) == "True")
        .map(|condition| json::text(condition, &["type"]));
    Value::from(condition.unwrap_or("Running"))
}

pub(super) fn job_completions(job: &Value, _: Timestamp) -> Value {
    let number = |path: &[&str]| json::integer(job, path).unwrap_or(0);
    let done = number(&["status", "succeeded"]);
    Value::from(format!("{done}/{}", number(&["spec", "completions"])))
}

pub(super) fn event_last_seen(event: &Value, now: Timestamp) -> Value {
    let seen = [
        &["series", "lastObservedTime"][..],
        &["lastTimestamp"],
        &["eventTime"],
        &["metadata", "creationTimestamp"],
    ]
    .into_iter()
    .map(|path| json::at(event, path))
    .find(|time| !time.is_null());
    seen.map_or(Value::from("<unknown>"), |time| age::age(time, now))
}

pub(super) fn event_object(event: &Value, _: Timestamp) -> Value {
    let object = json::at(event, &["involvedObject"]);
    let kind = json::text(object, &["kind"]).to_lowercase();
    Value::from(format!("{kind}/{}", json::text(object, &["name"])))
}

pub(super) fn service_ports(service: &Value, _: Timestamp) -> Value {
    let ports: Vec<String> = json::items(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            format!(
                "{}/{}",
                json::integer(port, &["port"]).unwrap_or(0),
                json::text(port, &["protocol"])
            )
        })
        .collect();
    Value::from(if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    })
}
