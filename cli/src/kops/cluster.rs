//! Settings of a kOps Cluster for its groups, and settings that rule out Karpenter.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields;
use crate::convert::edit::{Edit, escaped};

pub(super) struct Cluster {
    pub(super) name: String,
    /// Subnets and their types.
    pub(super) subnets: BTreeMap<String, String>,
    pub(super) kubelet_labels: Map<String, Value>,
    pub(super) cloud_labels: Map<String, Value>,
    /// Kubelet settings that planning needs.
    pub(super) kubelet: Map<String, Value>,
    /// `None` is the default, in which static capacity is on.
    pub(super) feature_gates: Option<String>,
}

impl Cluster {
    pub(super) fn read(edit: &mut Edit) -> Self {
        refuse(edit);
        let kubelet_labels = texts_by_name(edit, "/spec/kubelet/nodeLabels");
        let cloud_labels = texts_by_name(edit, "/spec/cloudLabels");
        let subnets = ["/spec/networking/subnets", "/spec/subnets"];
        let subnets = subnets
            .into_iter()
            .find_map(|field| edit.get(field)?.as_array());
        let subnet = |subnet: &Value| {
            let part = |name: &str| Some(subnet.get(name)?.as_str()?.to_owned());
            Some((part("name")?, part("type").unwrap_or_default()))
        };
        let kubelet = edit.get("/spec/kubelet").and_then(Value::as_object);
        let kubelet = kubelet
            .into_iter()
            .flatten()
            .filter(|(field, value)| fields::KUBELET.contains(&field.as_str()) && !value.is_null());
        Self {
            kubelet: kubelet
                .map(|(field, value)| (field.clone(), value.clone()))
                .collect(),
            name: edit
                .text_at("/metadata/name")
                .unwrap_or_default()
                .to_owned(),
            subnets: subnets.into_iter().flatten().filter_map(subnet).collect(),
            kubelet_labels,
            cloud_labels,
            feature_gates: edit
                .text_at("/spec/karpenter/featureGates")
                .map(str::to_owned),
        }
    }

    /// Whether static capacity is on, by kOps' rules for gates: the last entry wins, and a text that is set but names nothing turns the
    /// default off.
    pub(super) fn has_static_capacity(&self) -> bool {
        let Some(gates) = self
            .feature_gates
            .as_deref()
            .filter(|gates| !gates.is_empty())
        else {
            return true;
        };
        let entries = gates.split(',').filter_map(|entry| entry.split_once('='));
        let mut values = entries.filter(|(name, _)| name.trim() == "StaticCapacity");
        values
            .next_back()
            .is_some_and(|(_, value)| value.trim().eq_ignore_ascii_case("true"))
    }
}

fn refuse(edit: &mut Edit) {
    let is = |edit: &Edit, field: &str| edit.get(field) == Some(&Value::Bool(true));
    let aws = edit.text_at("/spec/cloudProvider") == Some("aws")
        || edit.get("/spec/cloudProvider/aws").is_some();
    if !aws {
        let value = edit
            .get("/spec/cloudProvider")
            .map(ToString::to_string)
            .unwrap_or_default();
        edit.refuse(
            "/spec/cloudProvider",
            &value,
            "expected aws: there is no Karpenter for kOps elsewhere",
        );
    }
    if !is(edit, "/spec/karpenter/enabled") {
        let remedy = "expected true: no group of this cluster is Karpenter's without it";
        edit.refuse("/spec/karpenter/enabled", "", remedy);
    }
    if !is(edit, "/spec/iam/useServiceAccountExternalPermissions") {
        let remedy =
            "expected true: kOps allows Karpenter only with IAM roles for service accounts";
        edit.refuse("/spec/iam/useServiceAccountExternalPermissions", "", remedy);
    }
    // Names in the two versions of kOps' API.
    for handler in [
        "/spec/nodeTerminationHandler/enabled",
        "/spec/cloudProvider/aws/nodeTerminationHandler/enabled",
    ] {
        if is(edit, handler) {
            let remedy = "it and Karpenter would both drain: set it to false, interruptions are handled without it";
            edit.refuse(handler, "true", remedy);
        }
    }
}

/// Labels or tags of a field. Values other than text are refused, as in kOps.
pub(super) fn texts_by_name(edit: &mut Edit, field: &str) -> Map<String, Value> {
    let map = edit.get(field).and_then(Value::as_object).cloned();
    let map = map.unwrap_or_default();
    for (key, value) in map.iter().filter(|(_, value)| !value.is_string()) {
        let field = format!("{field}/{}", escaped(key));
        edit.refuse(
            &field,
            &value.to_string(),
            "expected text: put it in quotes",
        );
    }
    map
}
