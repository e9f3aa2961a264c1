//! Schemas of the chart's CRDs, by which an API server prunes, defaults and refuses objects.

use std::{collections::BTreeMap, sync::LazyLock};

use anyhow::{Context, Result};
use sandbox::schema::{Schema, SchemaError};
use serde_json::Value;

type Schemas = Result<BTreeMap<String, Schema>, SchemaError>;

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

pub(crate) fn schema(kind: &str) -> Result<&'static Schema> {
    let schemas = SCHEMAS.as_ref()?;
    schemas
        .get(kind)
        .with_context(|| format!("{kind} is not one of our kinds"))
}

/// Reasons to refuse a new object.
pub(crate) fn errors(kind: &str, object: &Value) -> Result<Vec<String>> {
    let schema = schema(kind)?;
    let mut object = object.clone();
    schema.prune(&mut object);
    schema.apply_defaults(&mut object);
    let errors = schema.validate(&object, None);
    Ok(errors.iter().map(ToString::to_string).collect())
}
