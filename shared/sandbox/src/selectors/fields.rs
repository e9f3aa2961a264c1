use serde_json::Value;

use crate::{error::ApiError, json, kinds::ResourceType, store::Object};

/// Conditions on fields, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    path: Vec<String>,
    value: String,
    negated: bool,
}

/// Fields by which objects of every kind can be selected.
const COMMON: &[&str] = &["metadata.name", "metadata.namespace"];

/// Further fields by which objects of a built-in kind can be selected.
fn of_kind(plural: &str) -> &'static [&'static str] {
    match plural {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "replicasets" | "replicationcontrollers" => &["status.replicas"],
        "jobs" => &["status.successful"],
        _ => &[],
    }
}

impl FieldSelector {
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Parses a query such as `spec.nodeName=ip-10-0-0-1,status.phase!=Failed`.
    pub fn parse(text: &str, kind: &ResourceType) -> Result<Self, ApiError> {
        let mut conditions = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (field, value, negated) = if let Some((field, value)) = part.split_once("!=") {
                (field, value, true)
            } else if let Some((field, value)) =
                part.split_once("==").or_else(|| part.split_once('='))
            {
                (field, value, false)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let field = field.trim();
            if !COMMON.contains(&field) && !of_kind(&kind.plural).contains(&field) {
                return Err(ApiError::bad_request(format!(
                    "field label not supported: {field}"
                )));
            }
            conditions.push(Condition {
                path: stored_path(field),
                value: value.to_owned(),
                negated,
            });
        }
        Ok(Self { conditions })
    }

    /// Returns whether a stored object matches; an absent field is an empty string, or false.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.conditions.iter().all(|condition| {
            let path: Vec<&str> = condition.path.iter().map(String::as_str).collect();
            let shown = match path[..] {
                ["spec", "nodeName"] => Some(object.node_name().to_owned()),
                _ => object.peek(|value| shown(json::at(value, &path))),
            };
            let holds = match shown {
                Some(shown) => shown == condition.value,
                None => condition.value.is_empty() || condition.value == "false",
            };
            holds != condition.negated
        })
    }
}

/// Value of a field in a query's notation; `None` if the field is absent.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

/// Path of a field in the stored object: events are stored with core field names.
fn stored_path(field: &str) -> Vec<String> {
    let field = match field.split_once('.') {
        Some(("regarding", rest)) => format!("involvedObject.{rest}"),
        None if field == "source" => "source.component".to_owned(),
        Some(_) | None => field.to_owned(),
    };
    field.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;
    use serde_json::json;

    #[test]
    fn pods_are_selected_by_node_and_phase() {
        let kinds = Kinds::built_in();
        let pods = kinds.find("", "v1", "pods").unwrap();
        let pod = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
        let pod = Object::unsaved(pod);
        let selects = |text: &str| FieldSelector::parse(text, pods).unwrap().matches(&pod);
        assert!(selects("spec.nodeName=a,status.phase!=Failed"));
        assert!(!selects("spec.nodeName="));
        assert!(selects("metadata.namespace="));
        let error = FieldSelector::parse("spec.replicas=1", pods).unwrap_err();
        assert_eq!(error.message, "field label not supported: spec.replicas");
    }
}
