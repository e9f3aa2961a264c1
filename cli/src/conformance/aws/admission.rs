//! Admission of an object by the CRDs: pruning, defaulting and validation, as the API server performs them.

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::crds;

#[derive(Deserialize)]
pub(super) struct Case {
    kind: String,
    object: Value,
    old: Option<Value>,
}

pub(super) fn decide(case: Case) -> Result<Value> {
    let schema = crds::schema(&case.kind)?;
    let pruned = |mut object: Value| {
        schema.prune(&mut object);
        object
    };
    let with_defaults = |mut object: Value| {
        schema.apply_defaults(&mut object);
        object
    };
    let given = pruned(case.object);
    let object = with_defaults(given.clone());
    let old = case.old.map(pruned).map(with_defaults);
    let errors = schema.validate(&object, old.as_ref());
    if !errors.is_empty() {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        return Ok(json!({"valid": false, "errors": errors}));
    }
    // Reported for new objects that defaulting changed.
    let spec = object
        .get("spec")
        .filter(|_| old.is_none() && object != given);
    Ok(json!({"valid": true, "specAfterDefaults": spec}))
}
