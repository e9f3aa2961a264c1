//! Conversion of attributes from and to the SDK's types.

use std::sync::Arc;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use ledger::table::{Item, Key, Value};

#[expect(clippy::disallowed_types, reason = "the SDK's own type for a row")]
pub(crate) type Attributes = std::collections::HashMap<String, AttributeValue>;

pub(crate) fn attributes<'v>(
    values: impl IntoIterator<Item = (impl Into<String>, &'v Value)>,
) -> Attributes {
    let values = values.into_iter();
    values
        .map(|(name, value)| (name.into(), attribute(value)))
        .collect()
}

fn attribute(value: &Value) -> AttributeValue {
    match value {
        Value::S(text) => AttributeValue::S(text.clone()),
        Value::N(digits) => AttributeValue::N(digits.clone()),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes.clone())),
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::M(map) => AttributeValue::M(attributes(map)),
    }
}

pub(crate) fn row(attributes: Attributes) -> Arc<Item> {
    Arc::new(item(attributes))
}

/// Converts attributes from the SDK's types. Attributes of other types are left out: no version writes any.
fn item(attributes: Attributes) -> Item {
    let attributes = attributes.into_iter();
    attributes
        .filter_map(|(name, attribute)| Some((name, value(attribute)?)))
        .collect()
}

fn value(attribute: AttributeValue) -> Option<Value> {
    Some(match attribute {
        AttributeValue::S(text) => Value::S(text),
        AttributeValue::N(digits) => Value::N(digits),
        AttributeValue::B(bytes) => Value::B(bytes.into_inner()),
        AttributeValue::Bool(flag) => Value::Bool(flag),
        AttributeValue::M(map) => Value::M(item(map)),
        _ => return None,
    })
}

pub(crate) fn key_attributes(key: &Key) -> Attributes {
    attributes(&key.attributes())
}

/// The key in the attributes of a row or of a request.
pub(crate) fn key_of(attributes: &Attributes) -> Option<Key> {
    let text = |name: &str| attributes.get(name)?.as_s().ok().cloned();
    Some(Key {
        pk: text("pk")?,
        sk: text("sk")?,
    })
}
