//! Fields that the old version does not have: dropping one silently would drop its author's intention.

use serde_json::Value;

use super::edit::{Edit, escaped, shown};

/// Known fields of an object by path; `*` is any element.
pub(super) type KnownFields = &'static [(&'static str, &'static [&'static str])];

/// Refuses unknown fields, or turns them into comments.
pub(super) fn check(edit: &mut Edit, known: KnownFields, allow: bool) {
    let mut unknown = Vec::new();
    walk(&edit.object, "", "", known, &mut unknown);
    for field in unknown {
        let value = edit
            .get(&field)
            .map(ToString::to_string)
            .unwrap_or_default();
        if allow {
            edit.take(&field);
            let name = shown(&field);
            edit.comment(
                "/spec",
                format!("{name}: {value} is left out: no version has this field"),
            );
        } else {
            let remedy =
                "no version has this field: correct it, or leave it out with --allow-unknown";
            edit.refuse(&field, &value, remedy);
        }
    }
}

fn walk(value: &Value, at: &str, pattern: &str, known: KnownFields, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let fields = known.iter().find(|(place, _)| *place == pattern);
            for (key, value) in map {
                let field = format!("{at}/{}", escaped(key));
                match fields {
                    Some((_, fields)) if !fields.contains(&key.as_str()) => unknown.push(field),
                    _ => walk(value, &field, &format!("{pattern}/{key}"), known, unknown),
                }
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                walk(
                    item,
                    &format!("{at}/{number}"),
                    &format!("{pattern}/*"),
                    known,
                    unknown,
                );
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
