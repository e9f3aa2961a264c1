//! Validation of converted objects against the CRDs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    edit::{Edit, escaped},
    names,
};
use crate::crds;

/// Refuses a document that an API server would refuse. In a document that is refused already, only errors about other fields are added.
pub(crate) fn check(edit: &mut Edit) {
    let (version, kind) = edit.type_of();
    let is_refused = !edit.refusals.is_empty();
    let newest = names::versions_of(&kind).first();
    let is_of_v1 = version.ends_with("/v1") && newest == Some(&version.as_str());
    if !version.starts_with("karpenter.") || is_refused && !is_of_v1 {
        return;
    }
    if !is_refused {
        refuse_double_taints(edit);
        refuse_restricted_labels(edit);
    }
    match crds::errors(&kind, &edit.object) {
        Ok(errors) => {
            let errors = errors.iter().filter(|error| !may_follow(error, edit));
            let remedies: Vec<String> = errors
                .map(|error| format!("v1 does not allow it: {error}"))
                .collect();
            for remedy in remedies {
                edit.refuse("", "", remedy);
            }
        }
        Err(error) => edit.refuse("", "", format!("it could not be checked: {error}")),
    }
}

/// Whether an error may be a consequence of a refusal: it is about the same field, a parent of it, or a field made from it.
fn may_follow(error: &str, edit: &Edit) -> bool {
    let (field, message) = error.split_once(": ").unwrap_or((error, ""));
    edit.refusals.iter().any(|refusal| {
        let is_known = refusal.remedy.ends_with(error);
        let is_related = field.starts_with(&refusal.field) || refusal.field.starts_with(field);
        is_known || is_related || !message.starts_with("Invalid value")
    })
}

/// Refuses labels that v1 keeps for itself, by name: the API server names only their domain.
fn refuse_restricted_labels(edit: &mut Edit) {
    use api::names::label;
    const LABELS: &str = "/spec/template/metadata/labels";
    let labels = edit.get(LABELS).and_then(Value::as_object).cloned();
    for (key, value) in labels.into_iter().flatten() {
        if label::is_restricted(&key) || key == label::NODE_POOL || key == label::HOSTNAME {
            let value = value.as_str().unwrap_or_default();
            edit.refuse(
                &format!("{LABELS}/{}", escaped(&key)),
                value,
                "v1 keeps this label for itself: take it out, and use a label of your own domain where something selects it",
            );
        }
    }
}

/// Refuses a second taint of the same key and effect. One with another value would replace the first one, or keep the node from registering.
fn refuse_double_taints(edit: &mut Edit) {
    for list in ["taints", "startupTaints"] {
        let field = format!("/spec/template/spec/{list}");
        let taints = edit.get(&field).and_then(Value::as_array).cloned();
        let mut seen = BTreeMap::new();
        for (number, taint) in taints.into_iter().flatten().enumerate() {
            let part = |name: &str| {
                let part = taint.get(name).and_then(Value::as_str);
                part.unwrap_or_default().to_owned()
            };
            let (id, value) = ((part("key"), part("effect")), part("value"));
            if let Some(other) = seen.insert(id.clone(), value.clone()) {
                let (key, effect) = id;
                let values = format!("{key}={value}:{effect}");
                let remedy = match other == value {
                    true => "it is listed twice: remove one".to_owned(),
                    false => format!(
                        "{key}={other}:{effect} is there, too, and a node has one of them: remove one"
                    ),
                };
                edit.refuse(&format!("{field}/{number}"), &values, remedy);
            }
        }
    }
}
