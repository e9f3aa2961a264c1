//! Structural schemas of CustomResourceDefinitions: compiling, pruning, defaulting and validating as the API server
//! does.
//!
//! A schema with a feature that this crate cannot check is rejected when it is compiled, never accepted silently.

mod cel;
mod compile;
mod defaulting;
mod formats;
mod pruning;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;

use serde_json::Value;

pub use cel::Rule;
pub use compile::SchemaError;

/// Node of an `openAPIV3Schema`.
#[derive(Debug, Default)]
pub struct Schema {
    pub(crate) kind: Option<Kind>,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown_fields: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) default: Option<Value>,
    pub(crate) list: ListKind,
    pub(crate) atomic_map: bool,
    limits: Limits,
    rules: Vec<Rule>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// Schema of the fields that a schema does not name.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    #[default]
    None,
    Any,
    Each(Box<Schema>),
}

/// `x-kubernetes-list-type`, with the keys of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Value validations of one node.
#[derive(Debug, Default)]
struct Limits {
    required: Vec<String>,
    choices: Vec<Value>,
    pattern: Option<regex::Regex>,
    format: Option<String>,
    minimum: Option<Bound>,
    maximum: Option<Bound>,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
}

#[derive(Clone, Debug)]
struct Bound {
    value: serde_json::Number,
    exclusive: bool,
}

impl Schema {
    /// Schema of a field or element along a path of field names; lists are stepped into.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        let here = self.items.as_deref().unwrap_or(self);
        here.properties.get(name).or(match &here.additional {
            Additional::Each(schema) => Some(schema),
            Additional::None | Additional::Any => None,
        })
    }

    fn is_map(&self) -> bool {
        !matches!(self.additional, Additional::None)
    }
}
