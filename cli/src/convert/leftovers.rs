//! Leftovers of a conversion webhook in objects that are v1 already (docs/spec/migrate.md#v1beta1-names), and old names in objects that are
//! not Karpenter's. Objects without leftovers stay verbatim.

use serde_json::Value;

use super::{
    edit::{Edit, escaped, shown},
    names,
};

pub(super) fn clean(edit: &mut Edit) {
    for key in names::DROPPED_ANNOTATIONS {
        edit.take(&format!("/metadata/annotations/{}", escaped(key)));
    }
    edit.take_annotation(names::ALIAS_VERSION);
    let Some(ubuntu) = edit.take_annotation(names::UBUNTU) else {
        return;
    };
    if ubuntu.contains("incompatible") {
        let remedy = "the webhook found no image for amiFamily Ubuntu and wrote a placeholder: select one by id, name or tags";
        edit.refuse("/spec/amiSelectorTerms", "", remedy);
    }
}

/// Names of annotations and labels of pods, and of versions, and their names in v1.
const OLD_NAMES: [(&str, &str); 7] = [
    (names::NODE_POOL_V1BETA1, names::NODE_POOL_V1),
    (names::PROVISIONER_V1ALPHA5, names::NODE_POOL_V1),
    (names::NODE_CLASS_V1BETA1, names::NODE_CLASS_V1),
    (names::NODE_TEMPLATE_V1ALPHA1, names::NODE_CLASS_V1),
    (names::DO_NOT_EVICT, names::DO_NOT_DISRUPT),
    (names::DO_NOT_CONSOLIDATE, names::DO_NOT_DISRUPT),
    (names::PROVISIONER_NAME, names::NODE_POOL_LABEL),
];

/// Warns of old names that the conversion leaves: in policies, in texts, and in fields of kinds that are not known here.
pub(super) fn warn_of_old_names(edit: &mut Edit) {
    let mut found = Vec::new();
    find(&edit.object, "", &mut found);
    for (field, old, new) in found {
        edit.warn(format!(
            "{} names {old}, which is {new} in v1 and is not converted here: change it by hand",
            shown(&field)
        ));
    }
}

/// Warns of placeholders of a template, which a valid document may have in quotes. User data may have its own.
pub(super) fn warn_of_placeholders(edit: &mut Edit) {
    let mut text = edit.object.clone();
    if let Some(spec) = text.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.remove("userData");
    }
    let text = text.to_string();
    let placeholder = [("{{", "}}"), ("${", "}")]
        .iter()
        .find_map(|(open, close)| {
            let (_, after) = text.split_once(open)?;
            let (name, _) = after.split_once(close)?;
            Some(format!("{open}{name}{close}"))
        });
    if let Some(placeholder) = placeholder {
        edit.warn(format!(
            "placeholders of a template, such as {placeholder}, are kept: render the template first, or check the fields that have them"
        ));
    }
}

type Found = Vec<(String, &'static str, &'static str)>;

fn find(value: &Value, at: &str, found: &mut Found) {
    match value {
        Value::Object(fields) => {
            // An expression that excludes both labels is converted: nodes of the old version still have the old one.
            let part = |name: &str| fields.get(name).and_then(Value::as_str);
            if part("key") == Some(names::PROVISIONER_NAME)
                && part("operator") == Some("DoesNotExist")
            {
                return;
            }
            for (key, field) in fields.iter().filter(|(key, _)| *key != names::LAST_APPLIED) {
                let place = format!("{at}/{}", escaped(key));
                found.extend(old_names(key, &place));
                find(field, &place, found);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                find(item, &format!("{at}/{number}"), found);
            }
        }
        Value::String(text) => found.extend(old_names(text, at)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The old names in a text.
fn old_names(text: &str, field: &str) -> Found {
    let named = OLD_NAMES.into_iter().filter(|(old, _)| text.contains(old));
    named
        .map(|(old, new)| (field.to_owned(), old, new))
        .collect()
}
