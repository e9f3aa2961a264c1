//! The ConfigMap karpenter-global-settings of releases up to 0.31: its settings for every Provisioner, and the new places of the rest
//! (docs/spec/migrate.md#global-settings).

use std::collections::BTreeMap;

use serde_json::Value;

use super::edit::{Edit, escaped};

const NAME: &str = "karpenter-global-settings";

/// Settings that are fields of manifests in v1.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) instance_profile: Option<String>,
    pub(super) tags: BTreeMap<String, String>,
    /// Whether the number of pods per node is not limited by the addresses of network interfaces.
    pub(super) is_density_unlimited: bool,
}

/// Keys that are settings of a registered cluster, and their names there.
const OF_CLUSTER: &[(&str, &str)] = &[
    ("aws.reservedENIs", "reservedENIs"),
    ("aws.vmMemoryOverheadPercent", "vmMemoryOverheadPercent"),
];
/// Keys that are values of the relay's chart.
const OF_CHART: &[(&str, &str)] = &[
    ("batchIdleDuration", "settings.batchIdleDuration"),
    ("batchMaxDuration", "settings.batchMaxDuration"),
];
/// Keys that registration determines by itself or does not need.
const NOT_NEEDED: &[&str] = &[
    "aws.clusterCABundle",
    "aws.clusterEndpoint",
    "aws.clusterName",
    "aws.interruptionQueueName",
    "aws.isolatedVPC",
    "aws.nodeNameConvention",
    "ttlAfterNotRegistered",
];
/// Prefix of keys that are one tag each, as up to 0.22.
const TAG: &str = "aws.tags.";

const TAGS: &str = "among the tags of the EC2NodeClasses that are converted together with it";

pub(super) fn is_settings(edit: &Edit) -> bool {
    edit.type_of() == ("v1".to_owned(), "ConfigMap".to_owned())
        && edit.text_at("/metadata/name") == Some(NAME)
}

impl Settings {
    /// The settings of the ConfigMap among the documents, if there is one.
    pub(super) fn of(edits: &[Edit]) -> Self {
        let Some(edit) = edits.iter().find(|edit| is_settings(edit)) else {
            return Self::default();
        };
        let text = |key: &str| edit.text_at(&place(key)).filter(|text| !text.is_empty());
        let tags = text("aws.tags").and_then(|tags| serde_json::from_str(tags).ok());
        let mut tags: BTreeMap<String, String> = tags.unwrap_or_default();
        let data = edit.get("/data").and_then(Value::as_object);
        for (key, value) in data.into_iter().flatten() {
            if let (Some(tag), Some(value)) = (key.strip_prefix(TAG), value.as_str()) {
                tags.insert(tag.to_owned(), value.to_owned());
            }
        }
        Self {
            instance_profile: text("aws.defaultInstanceProfile").map(str::to_owned),
            tags,
            is_density_unlimited: text("aws.enableENILimitedPodDensity") == Some("false"),
        }
    }
}

/// Adds a comment with the new place of each setting. The ConfigMap itself is no longer read.
pub(super) fn convert(edit: &mut Edit) {
    let data: Vec<(String, String)> = edit
        .get("/data")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    for (key, value) in data {
        if let Some((_, name)) = OF_CLUSTER.iter().find(|(old, _)| *old == key) {
            edit.warn(format!(
                "{key}: {value} is the setting {name} of the registered cluster"
            ));
        } else if let Some((_, name)) = OF_CHART.iter().find(|(old, _)| *old == key) {
            edit.warn(format!(
                "{key}: {value} is the value {name} of the relay's chart"
            ));
        } else if NOT_NEEDED.contains(&key.as_str()) {
            edit.warn(format!("{key} is not needed any more"));
        } else {
            special(edit, &key, &value);
        }
    }
    edit.warn("it is left out: delete it when no old Karpenter reads it");
    edit.is_left_out = true;
}

fn special(edit: &mut Edit, key: &str, value: &str) {
    match (key, value) {
        ("aws.defaultInstanceProfile", _) => edit.warn(format!(
            "{key}: {value} is the instanceProfile of the EC2NodeClasses that are converted together with it, unless they have one \
             of their own"
        )),
        ("aws.enableENILimitedPodDensity", "false") => edit.warn(format!(
            "{key}: {value} is maxPods of the NodePools' kubelets that are converted together with it"
        )),
        ("aws.enableENILimitedPodDensity", _) => {
            edit.warn(format!("{key}: {value} is not needed any more: it is the default"));
        }
        ("featureGates.driftEnabled", "true") => {
            edit.warn(format!("{key} is not needed any more: drift is always on"));
        }
        (tag, _) if tag.strip_prefix(TAG).is_some_and(|tag| !tag.is_empty()) => {
            edit.warn(format!("{key}: {value} is {TAGS}"));
        }
        ("aws.tags", _) => match serde_json::from_str::<BTreeMap<String, String>>(value) {
            Ok(_) => edit.warn(format!(
                "{key}: {value} is {TAGS}"
            )),
            Err(_) => edit.refuse(&place(key), value, "expected a JSON object of texts"),
        },
        ("aws.enablePodENI", _) => edit.warn(format!("{key} is not needed any more: pods request it")),
        ("featureGates.driftEnabled", _) => edit.refuse(
            &place(key),
            value,
            "drift is always on now: pin images by an alias with a version, or give every NodePool a budget of nodes \"0\" \
             for the reason Drifted, and remove this",
        ),
        ("aws.assumeRoleARN" | "aws.assumeRoleDuration", _) => edit.refuse(
            &place(key),
            value,
            "no role of another account is assumed any more: install the stack in the account of the nodes, and remove this",
        ),
        _ => edit.refuse(&place(key), value, "no version has this setting: correct or remove it"),
    }
}

fn place(key: &str) -> String {
    format!("/data/{}", escaped(key))
}
