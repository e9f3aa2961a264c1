//! Partial objects in place of objects that cannot be decoded, so that decisions about nearby objects know that these exist.
//!
//! A partial pod, node or NodeClaim consists of the fields that can be decoded. A pod or node is annotated as not to be
//! disrupted: a node with such a pod is neither empty nor drained, and such a node exists and takes no pods. A NodeClaim refers
//! to a NodeClass that does not exist, so Whittle neither launches, registers nor terminates it, and it counts towards the limits
//! of its NodePool. Objects of other kinds end nothing by their absence, and are skipped.

use api::{Resource, UnreadableItem, names::annotation};
use serde_json::{Map, Value, json};

pub(crate) enum PartialObject<T> {
    Object(T),
    Skip,
    /// The object cannot be skipped, and the list must not pass as complete.
    Fail,
}

/// Decodes the readable part of an object in a list.
pub(crate) fn partial_object<T: Resource>(item: &UnreadableItem) -> PartialObject<T> {
    let overrides: &[(&str, &str, Value)] = match T::KIND {
        "Pod" => &[],
        "Node" => &[("spec", "unschedulable", Value::Bool(true))],
        "NodeClaim" => &[("spec", "nodeClassRef", nonexistent_node_class())],
        _ => return PartialObject::Skip,
    };
    match readable_part(item, overrides) {
        Some(object) => PartialObject::Object(object),
        None => PartialObject::Fail,
    }
}

/// A reference that matches no NodeClass.
fn nonexistent_node_class() -> Value {
    json!({"group": "", "kind": "", "name": ""})
}

/// Object of all fields that can be decoded; `None` if its name cannot.
fn readable_part<T: Resource>(
    item: &UnreadableItem,
    overrides: &[(&str, &str, Value)],
) -> Option<T> {
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
            // Without its conditions, a pod without a node never counts as unschedulable, so no node is launched for a partial
            // pod.
            if section == "status" && field == "conditions" && T::KIND == "Pod" {
                continue;
            }
            let mut extended = part.clone();
            put(&mut extended, section, field, value.clone());
            if let Some(object) = read(&extended) {
                (part, readable) = (extended, object);
            }
        }
    }
    for (section, field, value) in overrides {
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
    // Sections and fields that every object of these kinds has.
    for section in ["metadata", "spec", "status"] {
        whole.entry(section).or_insert_with(|| json!({}));
    }
    if T::KIND == "NodeClaim"
        && let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("requirements").or_insert_with(|| json!([]));
        spec.entry("nodeClassRef")
            .or_insert_with(nonexistent_node_class);
        spec.entry("expireAfter").or_insert_with(|| json!("Never"));
    }
    serde_json::from_value(Value::Object(whole)).ok()
}
