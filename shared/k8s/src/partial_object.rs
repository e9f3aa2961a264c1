//! Objects that cannot be read as they are: whatever is decided about their surroundings must know that they exist.
//!
//! A pod, node or NodeClaim is made of those of its fields that can be read. A pod or node is marked as one that must not be disrupted:
//! a node with such a pod is neither empty nor drained, and such a node is there and takes no pods. A NodeClaim is shown as one of a
//! NodeClass of nobody, which is neither launched nor registered nor ended here, and counts for the limits of its NodePool. Objects of
//! other kinds end nothing by being absent, and are left out.

use api::{Resource, UnreadableItem, names::annotation};
use serde_json::{Map, Value, json};

pub(crate) enum Remainder<T> {
    StandIn(T),
    LeftOut,
    /// The list must not pass as complete.
    Missing,
}

/// The remainder of an object of a list.
pub(crate) fn remainder<T: Resource>(item: &UnreadableItem) -> Remainder<T> {
    let marks: &[(&str, &str, Value)] = match T::KIND {
        "Pod" => &[],
        "Node" => &[("spec", "unschedulable", Value::Bool(true))],
        "NodeClaim" => &[("spec", "nodeClassRef", class_of_nobody())],
        _ => return Remainder::LeftOut,
    };
    match readable_part(item, marks) {
        Some(object) => Remainder::StandIn(object),
        None => Remainder::Missing,
    }
}

/// A reference that no NodeClass answers to.
fn class_of_nobody() -> Value {
    json!({"group": "", "kind": "", "name": ""})
}

/// An object of all fields that can be read; `None` if not even its name can.
fn readable_part<T: Resource>(item: &UnreadableItem, marks: &[(&str, &str, Value)]) -> Option<T> {
    let metadata = item.object.get("metadata")?.as_object()?;
    let mut part = Map::new();
    for field in ["name", "namespace", "uid"] {
        if let Some(value) = metadata.get(field) {
            put(&mut part, "metadata", field, value.clone());
        }
    }
    let mut readable: T = read(&part)?;
    if readable.metadata().name.is_empty() {
        return None;
    }
    for section in ["metadata", "spec", "status"] {
        let fields = item.object.get(section).and_then(Value::as_object);
        for (field, value) in fields.into_iter().flatten() {
            // A pod without a node is never bought one by what is left of it.
            if section == "status" && field == "conditions" && T::KIND == "Pod" {
                continue;
            }
            let mut more = part.clone();
            put(&mut more, section, field, value.clone());
            if let Some(object) = read(&more) {
                (part, readable) = (more, object);
            }
        }
    }
    for (section, field, value) in marks {
        put(&mut part, section, field, value.clone());
        readable = read(&part)?;
    }
    let annotations = &mut readable.metadata_mut().annotations;
    annotations.insert(annotation::DO_NOT_DISRUPT.to_owned(), "true".to_owned());
    Some(readable)
}

fn put(object: &mut Map<String, Value>, section: &str, field: &str, value: Value) {
    let section = object.entry(section).or_insert_with(|| json!({}));
    if let Some(section) = section.as_object_mut() {
        section.insert(field.to_owned(), value);
    }
}

fn read<T: Resource>(part: &Map<String, Value>) -> Option<T> {
    let mut whole = part.clone();
    // Fields that every object of these kinds has.
    for section in ["metadata", "spec", "status"] {
        whole.entry(section).or_insert_with(|| json!({}));
    }
    if T::KIND == "NodeClaim"
        && let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("requirements").or_insert_with(|| json!([]));
        spec.entry("nodeClassRef").or_insert_with(class_of_nobody);
        spec.entry("expireAfter").or_insert_with(|| json!("Never"));
    }
    serde_json::from_value(Value::Object(whole)).ok()
}
