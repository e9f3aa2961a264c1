use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{COMPONENT, KubeletOptions, node::after};
use crate::{
    controllers::{
        Client, NODES, PODS,
        client::Severity,
        owned::{node_name, phase},
    },
    digest::digest,
    error::ApiResult,
    json,
    server::{Part, is_ready, parse_time, rfc3339, set_condition},
    store::{Object, ObjectKey},
};

/// Annotations that override the kubelet's durations for one pod, in seconds.
const START_SECONDS: &str = "whittle.sh/sandbox-start-seconds";
const STOP_SECONDS: &str = "whittle.sh/sandbox-stop-seconds";
const RUN_SECONDS: &str = "whittle.sh/sandbox-run-seconds";

/// Advances a bound pod; returns the time of its next step.
pub(super) fn advance_pod(
    client: &mut Client<'_>,
    options: &KubeletOptions,
    pod: &Object,
) -> ApiResult<Option<Timestamp>> {
    if pod.is_terminating() {
        return stop(client, options, pod);
    }
    match phase(pod) {
        "Pending" => start(client, options, pod),
        "Running" => complete(client, options, pod),
        _ => Ok(None),
    }
}

fn wait(pod: &Object, annotation: &str, default: SignedDuration) -> SignedDuration {
    let seconds = json::text(pod.value(), &["metadata", "annotations", annotation]);
    seconds.parse().map_or(default, SignedDuration::from_secs)
}

fn stop(
    client: &mut Client<'_>,
    options: &KubeletOptions,
    pod: &Object,
) -> ApiResult<Option<Timestamp>> {
    let grace = json::integer(pod.value(), &["metadata", "deletionGracePeriodSeconds"]);
    let grace = SignedDuration::from_secs(grace.unwrap_or(0));
    let deadline = parse_time(json::text(pod.value(), &["metadata", "deletionTimestamp"]));
    let deleted_at = deadline
        .and_then(|deadline| deadline.checked_sub(grace).ok())
        .unwrap_or(client.now);
    let end = after(
        deleted_at,
        wait(pod, STOP_SECONDS, options.pod_stop).min(grace),
    );
    if client.now < end {
        return Ok(Some(end));
    }
    client.delete_now(&PODS, &pod.key())?;
    Ok(None)
}

/// Time at which a pod can start: `pod_start` after it was bound and its node became ready.
fn start(
    client: &mut Client<'_>,
    options: &KubeletOptions,
    pod: &Object,
) -> ApiResult<Option<Timestamp>> {
    let Some(node) = client.get(&NODES, &ObjectKey::new("", node_name(pod))) else {
        return Ok(None);
    };
    let has_kubelet = client.machines.get(node.name()).is_some();
    if has_kubelet && !is_ready(node.value()) {
        return Ok(None);
    }
    let since = |object: &Object, kind: &str| {
        json::items(object.value(), &["status", "conditions"])
            .iter()
            .find(|condition| json::text(condition, &["type"]) == kind)
            .and_then(|condition| parse_time(json::text(condition, &["lastTransitionTime"])))
    };
    let bound = since(pod, "PodScheduled");
    let created = parse_time(json::text(pod.value(), &["metadata", "creationTimestamp"]));
    let ready = since(&node, "Ready").filter(|_| has_kubelet);
    let base = bound.or(created).max(ready).unwrap_or(client.now);
    let begin = after(base, wait(pod, START_SECONDS, options.pod_start));
    if client.now < begin {
        return Ok(Some(begin));
    }
    let now = client.now;
    let address = address(pod);
    client.change(&PODS, &pod.key(), Part::Status, |pod| {
        run(pod, &address, now)
    })?;
    for container in json::items(pod.value(), &["spec", "containers"]) {
        let message = format!("Started container {}", json::text(container, &["name"]));
        client.record(pod, COMPONENT, Severity::Normal, "Started", &message)?;
    }
    Ok(Some(now))
}

/// IP address of a pod, derived from its UID.
fn address(pod: &Object) -> String {
    let [.., high, low] = digest(&[pod.uid()]).to_be_bytes();
    format!("10.0.{high}.{low}")
}

fn run(pod: &mut Value, address: &str, now: Timestamp) {
    let statuses: Vec<Value> = json::items(pod, &["spec", "containers"])
        .iter()
        .map(|container| {
            json!({
                "name": json::at(container, &["name"]),
                "image": json::at(container, &["image"]),
                "imageID": "", "containerID": "",
                "ready": true, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": rfc3339(now)}},
            })
        })
        .collect();
    json::set(pod, &["status", "phase"], "Running");
    json::set(pod, &["status", "podIP"], address);
    json::set(pod, &["status", "podIPs"], json!([{"ip": address}]));
    json::set(pod, &["status", "startTime"], rfc3339(now));
    json::set(pod, &["status", "containerStatuses"], statuses);
    for kind in ["Initialized", "ContainersReady", "Ready"] {
        set_condition(pod, json!({"type": kind, "status": "True"}), now);
    }
}

/// Completes pods whose restart policy is not `Always`.
fn complete(
    client: &mut Client<'_>,
    options: &KubeletOptions,
    pod: &Object,
) -> ApiResult<Option<Timestamp>> {
    if json::text(pod.value(), &["spec", "restartPolicy"]) == "Always" {
        return Ok(None);
    }
    let started = parse_time(json::text(pod.value(), &["status", "startTime"]));
    let end = after(
        started.unwrap_or(client.now),
        wait(pod, RUN_SECONDS, options.pod_run),
    );
    if client.now < end {
        return Ok(Some(end));
    }
    let now = client.now;
    client.change(&PODS, &pod.key(), Part::Status, |pod| {
        json::set(pod, &["status", "phase"], "Succeeded");
        for kind in ["ContainersReady", "Ready"] {
            let condition = json!({"type": kind, "status": "False", "reason": "PodCompleted"});
            set_condition(pod, condition, now);
        }
        let finished = json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": rfc3339(now)}});
        for status in json::items_mut(pod, &["status", "containerStatuses"]) {
            json::set(status, &["ready"], false);
            json::set(status, &["state"], finished.clone());
        }
    })?;
    Ok(None)
}
