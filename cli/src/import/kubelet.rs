//! Kubelet settings that instances set at boot, as fields of the EC2NodeClass and the NodePool.

use serde_json::{Map, Value, json};

use super::{
    group::Group,
    tags::{self, Origin},
};

/// Path of user data in a launch template, for messages.
pub(super) const USER_DATA: &str = "LaunchTemplateData.UserData";

/// Moves an argument of the kubelet into a field. Returns whether there is one.
pub(super) fn argument(group: &mut Group, name: &str, value: &str) -> bool {
    match name {
        "--max-pods" => number(group, "maxPods", name, value),
        "--pods-per-core" => number(group, "podsPerCore", name, value),
        "--eviction-max-pod-grace-period" => {
            number(group, "evictionMaxPodGracePeriod", name, value);
        }
        "--image-gc-high-threshold" => number(group, "imageGCHighThresholdPercent", name, value),
        "--image-gc-low-threshold" => number(group, "imageGCLowThresholdPercent", name, value),
        "--kube-reserved" => pairs(group, "kubeReserved", '=', value),
        "--system-reserved" => pairs(group, "systemReserved", '=', value),
        "--eviction-hard" => pairs(group, "evictionHard", '<', value),
        "--eviction-soft" => pairs(group, "evictionSoft", '<', value),
        "--eviction-soft-grace-period" => pairs(group, "evictionSoftGracePeriod", '=', value),
        "--cluster-dns" => set(
            group,
            "clusterDNS",
            value.split(',').collect::<Vec<_>>().into(),
        ),
        "--cpu-cfs-quota" => match value.parse::<bool>() {
            Ok(on) => set(group, "cpuCFSQuota", on.into()),
            Err(_) => group.refuse(
                USER_DATA,
                &format!("{name}={value}"),
                "expected true or false",
            ),
        },
        "--node-labels" => {
            for label in value.split(',').filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once('=').unwrap_or((label, ""));
                tags::label(group, key, value, Origin::UserData);
            }
        }
        "--register-with-taints" => {
            for taint in value.split(',').filter(|taint| !taint.is_empty()) {
                let (key, effect) = taint.split_once(':').unwrap_or((taint, "NoSchedule"));
                let (key, value) = key.split_once('=').unwrap_or((key, ""));
                tags::add_taint(group, key, value, effect, Origin::UserData);
            }
        }
        _ => return false,
    }
    true
}

/// Moves fields of a `KubeletConfiguration` into fields; its taints go to the NodePool.
pub(super) fn configuration(group: &mut Group, config: Map<String, Value>) {
    for (field, value) in config {
        match (field.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("registerWithTaints", Value::Array(taints)) => {
                for taint in taints {
                    let part =
                        |field: &str| taint.get(field).and_then(Value::as_str).unwrap_or_default();
                    let (key, value, effect) = (part("key"), part("value"), part("effect"));
                    tags::add_taint(group, key, value, effect, Origin::UserData);
                }
            }
            (_, value) => set(group, &field, value),
        }
    }
}

pub(super) fn number(group: &mut Group, field: &str, name: &str, value: &str) {
    match value.parse::<i64>() {
        Ok(number) => set(group, field, number.into()),
        Err(_) => group.refuse(USER_DATA, &format!("{name} {value}"), "expected a number"),
    }
}

/// Parses `cpu=100m,memory=1Gi`, or thresholds with `<`.
fn pairs(group: &mut Group, field: &str, between: char, value: &str) {
    let pairs = value.split(',').filter_map(|pair| pair.split_once(between));
    let pairs: Map<String, Value> = pairs
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    set(group, field, Value::Object(pairs));
}

/// Sets a field of `spec.kubelet`; entries of maps are merged into existing ones.
pub(super) fn set(group: &mut Group, field: &str, value: Value) {
    let kubelet = group.class.entry("kubelet").or_insert_with(|| json!({}));
    let Value::Object(kubelet) = kubelet else {
        return;
    };
    match (kubelet.get_mut(field), value) {
        (Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
        (_, value) => drop(kubelet.insert(field.to_owned(), value)),
    }
}
