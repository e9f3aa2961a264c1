//! From JSON Schema to the structural subset that CRDs allow.

use schemars::Schema;
use schemars::transform::transform_subschemas;
use serde_json::Value;

/// Turns JSON Schema as schemars writes it into the structural subset that CRDs allow: optional is "not required" instead of
/// "or null", and there are no titles.
pub(super) fn make_structural(schema: &mut Schema) {
    transform_subschemas(&mut make_structural, schema);
    schema.remove("title");
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = unwrapped(description);
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    unwrap_nullable(schema);
}

/// `anyOf: [X, null]` is X.
fn unwrap_nullable(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else {
        return;
    };
    choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        schema.remove("anyOf");
        for (key, value) in only {
            // What the field says goes before what its type says.
            if schema.get(&key).is_none() {
                schema.insert(key, value);
            }
        }
    }
}

/// Text with the line breaks of the source code taken out; blank lines still part paragraphs.
fn unwrapped(text: &str) -> String {
    let paragraphs: Vec<_> = text
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "))
        .collect();
    paragraphs.join("\n\n")
}
