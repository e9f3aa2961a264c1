use serde_json::{Value, json};

use super::pod;
use crate::json;

/// Number of old revisions that controllers keep.
const REVISION_HISTORY: i64 = 10;

fn template(value: &mut Value) {
    pod::fill(value, &["spec", "template", "spec"]);
}

pub(super) fn deployment(value: &mut Value) {
    template(value);
    json::set_default(value, &["spec", "replicas"], 1);
    json::set_default(value, &["spec", "revisionHistoryLimit"], REVISION_HISTORY);
    json::set_default(value, &["spec", "progressDeadlineSeconds"], 600);
    json::set_default(value, &["spec", "strategy", "type"], "RollingUpdate");
    if json::text(value, &["spec", "strategy", "type"]) == "RollingUpdate" {
        for field in ["maxSurge", "maxUnavailable"] {
            json::set_default(value, &["spec", "strategy", "rollingUpdate", field], "25%");
        }
    }
}

pub(super) fn replica_set(value: &mut Value) {
    template(value);
    json::set_default(value, &["spec", "replicas"], 1);
}

pub(super) fn stateful_set(value: &mut Value) {
    template(value);
    json::set_default(value, &["spec", "replicas"], 1);
    json::set_default(value, &["spec", "revisionHistoryLimit"], REVISION_HISTORY);
    json::set_default(value, &["spec", "podManagementPolicy"], "OrderedReady");
    json::set_default(value, &["spec", "updateStrategy", "type"], "RollingUpdate");
}

pub(super) fn daemon_set(value: &mut Value) {
    template(value);
    json::set_default(value, &["spec", "revisionHistoryLimit"], REVISION_HISTORY);
    json::set_default(value, &["spec", "updateStrategy", "type"], "RollingUpdate");
    if json::text(value, &["spec", "updateStrategy", "type"]) == "RollingUpdate" {
        let rolling = ["spec", "updateStrategy", "rollingUpdate"];
        json::set_default(value, &[&rolling[..], &["maxUnavailable"]].concat(), 1);
        json::set_default(value, &[&rolling[..], &["maxSurge"]].concat(), 0);
    }
}

/// Sets the selector of a Job, which selects pods by the Job's UID.
pub(super) fn job(value: &mut Value) {
    template(value);
    json::set_default(value, &["spec", "parallelism"], 1);
    json::set_default(value, &["spec", "completions"], 1);
    json::set_default(value, &["spec", "backoffLimit"], 6);
    json::set_default(value, &["spec", "completionMode"], "NonIndexed");
    json::set_default(value, &["spec", "suspend"], false);
    let uid = json::text(value, &["metadata", "uid"]).to_owned();
    let name = json::text(value, &["metadata", "name"]).to_owned();
    if uid.is_empty() || !json::at(value, &["spec", "selector"]).is_null() {
        return;
    }
    json::set(
        value,
        &["spec", "selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
    for (label, text) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        json::set(
            value,
            &["spec", "template", "metadata", "labels", label],
            text.as_str(),
        );
    }
}

pub(super) fn cron_job(value: &mut Value) {
    pod::fill(value, &["spec", "jobTemplate", "spec", "template", "spec"]);
    json::set_default(value, &["spec", "concurrencyPolicy"], "Allow");
    json::set_default(value, &["spec", "suspend"], false);
}
