//! Whether the CRDs admit an object: pruned, defaulted and validated as the API server does it.

use std::{collections::BTreeMap, sync::LazyLock};

use anyhow::{Context, Result};
use sandbox::schema::{Schema, SchemaError};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(super) struct Case {
    kind: String,
    object: Value,
    old: Option<Value>,
}

type Schemas = Result<BTreeMap<String, Schema>, SchemaError>;

/// The schemas that the chart ships, by kind.
static SCHEMAS: LazyLock<Schemas> = LazyLock::new(|| {
    let crds = api::schema::crds();
    crds.iter()
        .map(|crd| {
            let source = crd
                .manifest
                .pointer("/spec/versions/0/schema/openAPIV3Schema");
            let kind = crd
                .manifest
                .pointer("/spec/names/kind")
                .and_then(Value::as_str);
            let schema = Schema::compile(source.unwrap_or(&Value::Null))?;
            Ok((kind.unwrap_or_default().to_owned(), schema))
        })
        .collect()
});

pub(super) fn decide(case: Case) -> Result<Value> {
    let schemas = SCHEMAS.as_ref()?;
    let schema = schemas
        .get(&case.kind)
        .with_context(|| format!("{} is not one of our kinds", case.kind))?;
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
    // Told of new objects, where defaulting changed something.
    let spec = object
        .get("spec")
        .filter(|_| old.is_none() && object != given);
    Ok(json!({"valid": true, "specAfterDefaults": spec}))
}
