//! Validation rules of built-in kinds, as far as users and controllers meet them.

use ports::limits::kubernetes::CONFIG_MAP_BYTES;
use serde_json::{Value, json};

use super::metadata::{is_label_value, is_qualified_name};
use crate::{error::FieldError, json, kinds::ResourceType, selectors::LabelSelector};

pub(super) fn check(kind: &ResourceType, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => {
            pod_spec(value, &["spec"], &mut errors);
            if let Some(old) = old {
                unchanged_pod(old, value, &mut errors);
            }
        }
        ("apps", "deployments" | "replicasets" | "daemonsets" | "statefulsets") => {
            workload(value, old, &mut errors);
        }
        ("batch", "jobs") => pod_spec(value, &["spec", "template", "spec"], &mut errors),
        ("", "nodes") => taints(value, &mut errors),
        ("", "configmaps") => config_map(value, &mut errors),
        ("policy", "poddisruptionbudgets") => {
            let has = |field: &str| !json::at(value, &["spec", field]).is_null();
            if has("minAvailable") && has("maxUnavailable") {
                errors.push(FieldError::rule(
                    "spec",
                    json::at(value, &["spec"]),
                    "minAvailable and maxUnavailable cannot be both set",
                ));
            }
        }
        _ => {}
    }
    errors
}

/// Checks the size of a ConfigMap: keys do not count, values do.
fn config_map(value: &Value, errors: &mut Vec<FieldError>) {
    let texts = json::strings(value, &["data"]).map(|(_, text)| text.len());
    // Four characters of base64 are three bytes.
    let binaries = json::strings(value, &["binaryData"]).map(|(_, text)| text.len() / 4 * 3);
    if texts.chain(binaries).sum::<usize>() > CONFIG_MAP_BYTES {
        let most = format!("may not be more than {CONFIG_MAP_BYTES} bytes");
        errors.push(FieldError::too_long("", &most));
    }
}

fn workload(value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let selector = json::at(value, &["spec", "selector"]);
    let labels = json::strings(value, &["spec", "template", "metadata", "labels"])
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if !LabelSelector::of_object(selector).matches(&labels) {
        errors.push(FieldError::rule(
            "spec.template.metadata.labels",
            json::at(value, &["spec", "template", "metadata", "labels"]),
            "`selector` does not match template `labels`",
        ));
    }
    if json::integer(value, &["spec", "replicas"]).is_some_and(|replicas| replicas < 0) {
        errors.push(FieldError::invalid(
            "spec.replicas",
            json::at(value, &["spec", "replicas"]),
            "must be greater than or equal to 0",
        ));
    }
    if old.is_some_and(|old| json::at(old, &["spec", "selector"]) != selector) {
        errors.push(FieldError::rule(
            "spec.selector",
            selector,
            "field is immutable",
        ));
    }
    pod_spec(value, &["spec", "template", "spec"], errors);
}

fn pod_spec(value: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{}.{field}", path.join("."));
    let spec = json::at(value, path);
    if json::items(spec, &["containers"]).is_empty() {
        errors.push(FieldError::required(at("containers"), ""));
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in json::items(spec, &[list]).iter().enumerate() {
            let at = at(&format!("{list}[{index}]"));
            for field in ["name", "image"] {
                if json::text(container, &[field]).is_empty() {
                    errors.push(FieldError::required(format!("{at}.{field}"), ""));
                }
            }
            resources(container, &at, errors);
        }
    }
}

fn resources(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let amounts = |kind: &str| json::at(container, &["resources", kind]).as_object();
    for kind in ["requests", "limits"] {
        for (name, amount) in amounts(kind).into_iter().flatten() {
            let parsed = amount
                .as_str()
                .and_then(|text| text.parse::<model::quantity::Quantity>().ok());
            let at = format!("{path}.resources.{kind}[{name}]");
            match parsed {
                None => errors.push(FieldError::invalid(
                    at,
                    amount,
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                )),
                Some(quantity) if quantity.milli() < 0 => {
                    errors.push(FieldError::invalid(at, amount, "must be greater than or equal to 0"));
                }
                Some(quantity) => {
                    let limit = amounts("limits")
                        .and_then(|limits| limits.get(name)?.as_str()?.parse().ok());
                    if kind == "requests" && limit.is_some_and(|limit| quantity > limit) {
                        errors.push(FieldError::invalid(
                            format!("{path}.resources.requests"),
                            amount,
                            &format!("must be less than or equal to {name} limit"),
                        ));
                    }
                }
            }
        }
    }
}

/// Fields of a pod's specification that an update may change.
const MUTABLE: &[&str] = &[
    "activeDeadlineSeconds",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "nodeName",
    "nodeSelector",
    "affinity",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
];

fn unchanged_pod(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let fixed = |pod: &Value| {
        let mut spec = json::at(pod, &["spec"]).clone();
        for field in MUTABLE {
            json::remove(&mut spec, &[field]);
        }
        spec
    };
    let resources = |pod: &Value| -> Vec<Value> {
        json::items(pod, &["spec", "containers"])
            .iter()
            .map(|container| json::at(container, &["resources"]).clone())
            .collect()
    };
    if fixed(old) != fixed(new) || resources(old) != resources(new) {
        errors.push(FieldError::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
}

fn taints(node: &Value, errors: &mut Vec<FieldError>) {
    for (index, taint) in json::items(node, &["spec", "taints"]).iter().enumerate() {
        let key = json::text(taint, &["key"]);
        if !is_qualified_name(key) {
            let at = format!("metadata.taints[{index}].key");
            errors.push(FieldError::invalid(
                at,
                &json!(key),
                "name part must be non-empty",
            ));
        }
        let value = json::text(taint, &["value"]);
        if !is_label_value(value) {
            let at = format!("metadata.taints[{index}].value");
            errors.push(FieldError::invalid(at, &json!(value), "is no label value"));
        }
        let effect = json::at(taint, &["effect"]);
        let allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map(Value::from);
        if !allowed.contains(effect) {
            let at = format!("metadata.taints[{index}].effect");
            errors.push(FieldError::unsupported(at, effect, &allowed));
        }
    }
}
