//! Fields that the old version does not have: dropping one silently would drop its author's intention.

use serde_json::Value;

use super::edit::{Edit, escaped, shown};

/// Known fields of an object by path; `*` is any element.
pub(super) type KnownFields = &'static [(&'static str, &'static [&'static str])];

/// Refuses unknown fields, or turns them into comments.
pub(super) fn check(edit: &mut Edit, known: KnownFields, allow: bool) {
    let mut unknown = Vec::new();
    walk(&edit.object, "", "", known, &mut unknown);
    let (version, kind) = edit.type_of();
    let schema = api::schema::schema_of(&kind);
    for field in unknown {
        let value = edit
            .get(&field)
            .map(ToString::to_string)
            .unwrap_or_default();
        let is_of_v1 = schema.is_some_and(|schema| declares(schema, &field));
        if allow {
            edit.take(&field);
            let name = shown(&field);
            let why = match is_of_v1 {
                true => format!("{version} does not have this field, and v1 does"),
                false => "no version has this field".to_owned(),
            };
            edit.comment("/spec", format!("{name}: {value} is left out: {why}"));
        } else {
            let remedy = match is_of_v1 {
                true => format!(
                    "{version} does not have this field, so it had no effect; v1 has it: leave it out by hand or with --allow-unknown, \
                     and set it in the converted object if you want it"
                ),
                false => {
                    "no version has this field: correct it, or leave it out with --allow-unknown"
                        .to_owned()
                }
            };
            edit.refuse(&field, &value, remedy);
        }
    }
}

/// Whether a schema declares a field.
fn declares(schema: &Value, field: &str) -> bool {
    let mut steps = field.split('/').skip(1);
    let declared = steps.try_fold(schema, |schema, step| {
        let property = schema.get("properties").and_then(|fields| fields.get(step));
        property.or_else(|| schema.get("items"))
    });
    declared.is_some()
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
