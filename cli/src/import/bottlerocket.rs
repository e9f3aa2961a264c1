//! Bottlerocket's settings in user data: settings that the generated ones lack are moved into fields.

use serde_json::json;
use toml::{Table, Value};

use super::{
    group::Group,
    kubelet::{self, USER_DATA},
    tags::{self, Origin},
};

/// Settings that are generated anyway.
const CLUSTER: &[&str] = &["api-server", "cluster-certificate", "cluster-name"];

/// Settings, and the fields of `spec.kubelet` with the same content and format.
const MAPS: &[(&str, &str)] = &[
    ("eviction-hard", "evictionHard"),
    ("eviction-soft", "evictionSoft"),
    ("eviction-soft-grace-period", "evictionSoftGracePeriod"),
    ("kube-reserved", "kubeReserved"),
    ("system-reserved", "systemReserved"),
];
const NUMBERS: &[(&str, &str)] = &[
    ("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod"),
    (
        "image-gc-high-threshold-percent",
        "imageGCHighThresholdPercent",
    ),
    (
        "image-gc-low-threshold-percent",
        "imageGCLowThresholdPercent",
    ),
    ("max-pods", "maxPods"),
];

/// User data without the settings that were moved into fields; empty if no setting is left.
pub(super) fn without_settings(group: &mut Group, text: &str) -> String {
    let mut document: Table = match text.parse() {
        Ok(document) => document,
        Err(error) => {
            let error: toml::de::Error = error;
            let remedy = format!(
                "the settings of Bottlerocket are no TOML: {}",
                error.message()
            );
            group.refuse(USER_DATA, "", remedy);
            return String::new();
        }
    };
    let before = document.clone();
    let kubernetes = document
        .get_mut("settings")
        .and_then(|settings: &mut Value| settings.get_mut("kubernetes"))
        .and_then(Value::as_table_mut);
    if let Some(kubernetes) = kubernetes {
        take(group, kubernetes);
    }
    if document == before {
        return text.to_owned();
    }
    prune(&mut document);
    match toml::to_string(&document) {
        Ok(rest) => rest,
        Err(error) => {
            group.refuse(USER_DATA, "", format!("the rest is not TOML: {error}"));
            String::new()
        }
    }
}

fn take(group: &mut Group, kubernetes: &mut Table) {
    kubernetes.retain(|key, _| !CLUSTER.contains(&key));
    if let Some(Value::Table(labels)) = kubernetes.remove("node-labels") {
        for (key, value) in labels {
            tags::label(group, &key, &text(&value), Origin::UserData);
        }
    }
    if let Some(Value::Table(taints)) = kubernetes.remove("node-taints") {
        for (key, value) in taints {
            // Older settings have a single text instead of a list.
            let single = std::slice::from_ref(&value);
            let entries = value.as_array().map_or(single, Vec::as_slice);
            for entry in entries.iter().filter_map(Value::as_str) {
                let (value, effect) = entry.rsplit_once(':').unwrap_or(("", entry));
                tags::add_taint(group, &key, value, effect, Origin::UserData);
            }
        }
    }
    for (key, field) in MAPS {
        if let Some(Value::Table(entries)) = kubernetes.remove(*key) {
            let texts = entries.into_iter().map(|(key, value)| (key, text(&value)));
            let texts: serde_json::Map<_, _> =
                texts.map(|(key, value)| (key, value.into())).collect();
            kubelet::set(group, field, texts.into());
        }
    }
    for (key, field) in NUMBERS {
        if let Some(value) = kubernetes.remove(*key) {
            kubelet::number(group, field, key, &text(&value));
        }
    }
    if let Some(on) = kubernetes
        .remove("cpu-cfs-quota-enforced")
        .and_then(|value| value.as_bool())
    {
        kubelet::set(group, "cpuCFSQuota", on.into());
    }
    match kubernetes.remove("cluster-dns-ip") {
        Some(Value::Array(addresses)) => {
            let addresses: Vec<String> = addresses.iter().map(text).collect();
            kubelet::set(group, "clusterDNS", json!(addresses));
        }
        Some(address) => kubelet::set(group, "clusterDNS", json!([text(&address)])),
        None => {}
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Removes empty tables.
fn prune(table: &mut Table) {
    table.retain(|_, value| match value {
        Value::Table(inner) => {
            prune(inner);
            !inner.is_empty()
        }
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_) => true,
    });
}
