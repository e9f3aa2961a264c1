use std::collections::BTreeMap;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{Additional, Bound, Kind, Limits, ListKind, Schema, cel};

/// Reason why a schema cannot be served.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path}: {problem}")]
pub struct SchemaError {
    /// Path within the schema, such as `spec.template.items`.
    pub path: String,
    pub problem: String,
}

/// Upper bound on nesting; deeper schemas are rejected rather than cut.
const MAX_DEPTH: usize = 64;

/// Fields of `JSONSchemaProps` that do not affect validity.
const DESCRIPTIVE: &[&str] = &[
    "description",
    "title",
    "example",
    "externalDocs",
    "$schema",
    "id",
];

impl Schema {
    /// Compiles an `openAPIV3Schema` with all its rules.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        Compiler {
            path: Vec::new(),
            functions: cel::FunctionCache::default(),
        }
        .schema(schema)
    }
}

struct Compiler {
    path: Vec<String>,
    functions: cel::FunctionCache,
}

impl Compiler {
    fn error(&self, problem: impl Into<String>) -> SchemaError {
        let path = if self.path.is_empty() {
            "openAPIV3Schema".to_owned()
        } else {
            self.path.join(".")
        };
        SchemaError {
            path,
            problem: problem.into(),
        }
    }

    fn within<T>(
        &mut self,
        step: &str,
        compile: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        if self.path.len() >= MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.path.push(step.to_owned());
        let compiled = compile(self);
        self.path.pop();
        compiled
    }

    fn schema(&mut self, source: &Value) -> Result<Schema, SchemaError> {
        let fields = source
            .as_object()
            .ok_or_else(|| self.error("expected a schema object"))?;
        let mut schema = Schema::default();
        for (field, value) in fields {
            self.field(&mut schema, field, value)?;
        }
        schema.limits.minimum = self.bound(fields, "minimum", "exclusiveMinimum")?;
        schema.limits.maximum = self.bound(fields, "maximum", "exclusiveMaximum")?;
        schema.list = self.list_kind(fields)?;
        Ok(schema)
    }

    fn field(
        &mut self,
        schema: &mut Schema,
        field: &str,
        value: &Value,
    ) -> Result<(), SchemaError> {
        let limits: &mut Limits = &mut schema.limits;
        match field {
            "type" => schema.kind = Some(self.kind(value)?),
            "nullable" => schema.nullable = self.boolean(field, value)?,
            "x-kubernetes-int-or-string" => schema.int_or_string = self.boolean(field, value)?,
            "x-kubernetes-preserve-unknown-fields" => {
                schema.preserve_unknown_fields = self.boolean(field, value)?;
            }
            "x-kubernetes-embedded-resource" => {
                schema.embedded_resource = self.boolean(field, value)?;
            }
            "x-kubernetes-map-type" => schema.atomic_map = value == "atomic",
            "default" => schema.default = Some(value.clone()),
            "properties" => schema.properties = self.properties(value)?,
            "additionalProperties" => schema.additional = self.additional(value)?,
            "items" => {
                schema.items = Some(Box::new(self.within("items", |c| c.schema(value))?));
            }
            "allOf" => schema.all_of = self.branches(field, value)?,
            "anyOf" => schema.any_of = self.branches(field, value)?,
            "oneOf" => schema.one_of = self.branches(field, value)?,
            "not" => schema.not = Some(Box::new(self.within("not", |c| c.schema(value))?)),
            "required" => limits.required = self.texts(field, value)?,
            "enum" => {
                limits.choices = value
                    .as_array()
                    .ok_or_else(|| self.error("enum: expected an array"))?
                    .clone();
            }
            "pattern" => {
                let pattern = self.text(field, value)?;
                let regex = regex::Regex::new(pattern)
                    .map_err(|error| self.error(format!("pattern \"{pattern}\": {error}")))?;
                limits.pattern = Some(regex);
            }
            "format" => limits.format = Some(self.text(field, value)?.to_owned()),
            "multipleOf" => limits.multiple_of = value.as_f64(),
            "minLength" => limits.min_length = self.count(field, value)?,
            "maxLength" => limits.max_length = self.count(field, value)?,
            "minItems" => limits.min_items = self.count(field, value)?,
            "maxItems" => limits.max_items = self.count(field, value)?,
            "uniqueItems" => limits.unique_items = self.boolean(field, value)?,
            "minProperties" => limits.min_properties = self.count(field, value)?,
            "maxProperties" => limits.max_properties = self.count(field, value)?,
            "x-kubernetes-validations" => schema.rules = self.rules(value)?,
            // `schema` reads these fields together with the ones that they depend on.
            "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "x-kubernetes-list-type"
            | "x-kubernetes-list-map-keys" => {}
            _ if DESCRIPTIVE.contains(&field) => {}
            _ => return Err(self.error(format!("{field}: this schema field is not supported"))),
        }
        Ok(())
    }

    fn kind(&self, value: &Value) -> Result<Kind, SchemaError> {
        Ok(match self.text("type", value)? {
            "object" => Kind::Object,
            "array" => Kind::Array,
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            "boolean" => Kind::Boolean,
            other => return Err(self.error(format!("type: \"{other}\" is not a type"))),
        })
    }

    fn properties(&mut self, value: &Value) -> Result<BTreeMap<String, Schema>, SchemaError> {
        let Some(properties) = value.as_object() else {
            return Err(self.error("properties: expected an object"));
        };
        properties
            .iter()
            .map(|(name, schema)| Ok((name.clone(), self.within(name, |c| c.schema(schema))?)))
            .collect()
    }

    fn additional(&mut self, value: &Value) -> Result<Additional, SchemaError> {
        Ok(match value {
            Value::Bool(true) => Additional::Any,
            Value::Bool(false) => Additional::None,
            Value::Object(_)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Additional::Each(Box::new(
                self.within("additionalProperties", |c| c.schema(value))?,
            )),
        })
    }

    fn branches(&mut self, field: &str, value: &Value) -> Result<Vec<Schema>, SchemaError> {
        let Some(branches) = value.as_array() else {
            return Err(self.error(format!("{field}: expected an array")));
        };
        branches
            .iter()
            .map(|branch| self.within(field, |c| c.schema(branch)))
            .collect()
    }

    fn rules(&mut self, value: &Value) -> Result<Vec<cel::Rule>, SchemaError> {
        let Some(rules) = value.as_array() else {
            return Err(self.error("x-kubernetes-validations: expected an array"));
        };
        rules
            .iter()
            .map(|rule| {
                cel::Rule::compile(rule, &mut self.functions)
                    .map_err(|problem| self.error(format!("x-kubernetes-validations: {problem}")))
            })
            .collect()
    }

    fn bound(
        &self,
        fields: &Map<String, Value>,
        bound: &str,
        exclusive: &str,
    ) -> Result<Option<Bound>, SchemaError> {
        let Some(value) = fields.get(bound) else {
            return Ok(None);
        };
        let Value::Number(value) = value else {
            return Err(self.error(format!("{bound}: expected a number")));
        };
        let exclusive = fields.get(exclusive).and_then(Value::as_bool);
        Ok(Some(Bound {
            value: value.clone(),
            exclusive: exclusive.unwrap_or(false),
        }))
    }

    fn list_kind(&self, fields: &Map<String, Value>) -> Result<ListKind, SchemaError> {
        let Some(kind) = fields.get("x-kubernetes-list-type") else {
            return Ok(ListKind::Atomic);
        };
        Ok(match self.text("x-kubernetes-list-type", kind)? {
            "atomic" => ListKind::Atomic,
            "set" => ListKind::Set,
            "map" => {
                let keys = fields.get("x-kubernetes-list-map-keys");
                let keys = keys.unwrap_or(&Value::Null);
                ListKind::Map(self.texts("x-kubernetes-list-map-keys", keys)?)
            }
            other => {
                return Err(self.error(format!(
                    "x-kubernetes-list-type: \"{other}\" is not atomic, set or map"
                )));
            }
        })
    }

    fn text<'a>(&self, field: &str, value: &'a Value) -> Result<&'a str, SchemaError> {
        value
            .as_str()
            .ok_or_else(|| self.error(format!("{field}: expected a string")))
    }

    fn texts(&self, field: &str, value: &Value) -> Result<Vec<String>, SchemaError> {
        let Some(texts) = value.as_array() else {
            return Err(self.error(format!("{field}: expected an array of strings")));
        };
        texts
            .iter()
            .map(|text| Ok(self.text(field, text)?.to_owned()))
            .collect()
    }

    fn boolean(&self, field: &str, value: &Value) -> Result<bool, SchemaError> {
        value
            .as_bool()
            .ok_or_else(|| self.error(format!("{field}: expected true or false")))
    }

    fn count(&self, field: &str, value: &Value) -> Result<Option<u64>, SchemaError> {
        value
            .as_u64()
            .map(Some)
            .ok_or_else(|| self.error(format!("{field}: expected a count")))
    }
}
