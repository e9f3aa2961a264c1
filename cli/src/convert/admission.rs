//! Whether the CRDs admit what came out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::edit::Edit;
use crate::crds;

/// Refuses what an API server would refuse.
pub(crate) fn check(edit: &mut Edit) {
    let (version, kind) = edit.type_of();
    if !edit.refusals.is_empty() || !version.starts_with("karpenter.") {
        return;
    }
    refuse_double_taints(edit);
    match crds::errors(&kind, &edit.object) {
        Ok(errors) => {
            for error in errors {
                edit.refuse("", "", format!("v1 does not allow it: {error}"));
            }
        }
        Err(error) => edit.refuse("", "", format!("it could not be checked: {error}")),
    }
}

/// A node has one taint of each key and effect: a second one of another value would take its place, or keep the node from
/// registering.
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
                    true => "it stands there twice: remove one".to_owned(),
                    false => format!(
                        "{key}={other}:{effect} is there, too, and a node has one of them: remove one"
                    ),
                };
                edit.refuse(&format!("{field}/{number}"), &values, remedy);
            }
        }
    }
}
