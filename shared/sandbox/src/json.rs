//! Access to JSON by path: Kubernetes objects are kept as `serde_json::Value`.

use serde_json::{Map, Value};

const NULL: &Value = &Value::Null;

/// Value at a path of field names; `null` where a field is missing.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter()
        .try_fold(value, |value, field| value.get(field))
        .unwrap_or(NULL)
}

/// String at a path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

pub(crate) fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).as_i64()
}

pub(crate) fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).as_bool().unwrap_or(false)
}

/// Elements of the array at a path; empty if there is none.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// String entries of the object at a path; entries of other types are omitted.
pub(crate) fn strings<'a>(
    value: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    at(value, path)
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Object at a path, created if missing or of another type.
pub(crate) fn object_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let here = as_object_mut(value);
    match path.split_first() {
        None => here,
        Some((field, rest)) => object_mut(here.entry(*field).or_insert(Value::Null), rest),
    }
}

fn as_object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("made an object just above")
        }
    }
}

/// Sets the last field of a path, and creates missing objects along it.
pub(crate) fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    if let Some((field, parents)) = path.split_last() {
        object_mut(value, parents).insert((*field).to_owned(), new.into());
    }
}

/// Sets the last field of a path if it is absent or null.
pub(crate) fn set_default(value: &mut Value, path: &[&str], default: impl Into<Value>) {
    if at(value, path).is_null() {
        set(value, path, default);
    }
}

/// Removes the last field of a path; creates no objects along it.
pub(crate) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (field, parents) = path.split_last()?;
    let parent = parents
        .iter()
        .try_fold(value, |value, field| value.get_mut(field))?;
    parent.as_object_mut()?.remove(*field)
}

/// Copies the value at a path to another object; removes it there if it is absent.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let value = at(from, path);
    if value.is_null() {
        remove(to, path);
    } else {
        set(to, path, value.clone());
    }
}

/// Mutable elements of the array at a path; empty if there is none.
pub(crate) fn items_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut [Value] {
    path.iter()
        .try_fold(value, |value, field| value.get_mut(field))
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// Array at a path, created if missing or of another type.
pub(crate) fn array_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    let (field, parents) = path.split_last()?;
    let slot = object_mut(value, parents)
        .entry(*field)
        .or_insert_with(|| Value::Array(Vec::new()));
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_fields_read_as_empty() {
        let value = json!({"spec": {"replicas": 3, "names": ["a"]}});
        assert_eq!(integer(&value, &["spec", "replicas"]), Some(3));
        assert_eq!(text(&value, &["spec", "nodeName"]), "");
        assert!(items(&value, &["spec", "replicas"]).is_empty());
        assert!(at(&value, &["status", "phase"]).is_null());
    }

    #[test]
    fn set_creates_parents_and_remove_does_not() {
        let mut value = json!({});
        set(&mut value, &["metadata", "labels", "a/b"], "c");
        assert_eq!(value, json!({"metadata": {"labels": {"a/b": "c"}}}));
        assert_eq!(remove(&mut value, &["spec", "x"]), None);
        assert_eq!(value, json!({"metadata": {"labels": {"a/b": "c"}}}));
        set_default(&mut value, &["metadata", "labels", "a/b"], "d");
        assert_eq!(text(&value, &["metadata", "labels", "a/b"]), "c");
    }
}
