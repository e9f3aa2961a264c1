//! Values of a chart, which are text where they were set by `--set-string`.

use serde_json::{Map, Value};

pub(super) fn given<'v>(values: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    let is_said = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    values.get(key).filter(is_said)
}

/// A boolean. Values of `--set-string` are text, which NTH parses.
pub(super) fn switch(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(on) => Some(*on),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_i64() {
            Some(1) => Some(true),
            Some(0) => Some(false),
            _ => None,
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A whole number, or a text of one.
pub(super) fn whole(value: &Value) -> Option<i64> {
    let text = || value.as_str()?.trim().parse().ok();
    value.as_i64().or_else(text)
}
