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

/// Names of annotations and labels of pods, and their names in v1.
const OLD_NAMES: [(&str, &str); 3] = [
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
