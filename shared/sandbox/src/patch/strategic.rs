use serde_json::{Map, Value};

use super::lists;
use crate::error::{ApiError, ApiResult};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch: like a merge patch, but lists with a merge key are merged by it, and `$patch`,
/// `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList` are honored.
pub fn merge(value: &mut Value, patch: &Value) -> ApiResult<()> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request(
            "a strategic merge patch is an object",
        ));
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Some(object) = value.as_object_mut() {
        merge_object(object, patch, &mut Vec::new())?;
    }
    Ok(())
}

fn merge_object<'p>(
    object: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
    path: &mut Vec<&'p str>,
) -> ApiResult<()> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => object.clear(),
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "unknown {DIRECTIVE} directive \"{other}\": expected replace, delete or merge"
            )));
        }
    }
    if let Some(kept) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        object.retain(|field, _| kept.iter().any(|kept| kept == field));
    }
    for (field, change) in patch {
        if field == DIRECTIVE || field == RETAIN_KEYS || field.starts_with(ELEMENT_ORDER) {
            continue;
        }
        if let Some(list) = field.strip_prefix(DELETE_FROM_LIST) {
            delete_values(object.get_mut(list), change);
            continue;
        }
        path.push(field);
        merge_field(object, field, change, path)?;
        path.pop();
    }
    for (field, order) in patch {
        if let Some(list) = field.strip_prefix(ELEMENT_ORDER) {
            path.push(list);
            sort(object.get_mut(list), order, lists::strategic_key(path));
            path.pop();
        }
    }
    Ok(())
}

fn merge_field<'p>(
    object: &mut Map<String, Value>,
    field: &str,
    change: &'p Value,
    path: &mut Vec<&'p str>,
) -> ApiResult<()> {
    match change {
        Value::Null => {
            object.remove(field);
        }
        Value::Object(change) => {
            let slot = object
                .entry(field)
                .or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Some(slot) = slot.as_object_mut() {
                merge_object(slot, change, path)?;
            }
            if change.get(DIRECTIVE).is_some_and(|word| word == "delete") {
                object.remove(field);
            }
        }
        Value::Array(changes) => {
            let list = match object.get_mut(field) {
                Some(Value::Array(list)) => list,
                Some(
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Object(_),
                )
                | None => {
                    object.insert(field.to_owned(), Value::Array(Vec::new()));
                    match object.get_mut(field).and_then(Value::as_array_mut) {
                        Some(list) => list,
                        None => return Ok(()),
                    }
                }
            };
            merge_list(list, changes, path)?;
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            object.insert(field.to_owned(), change.clone());
        }
    }
    Ok(())
}

fn merge_list<'p>(
    list: &mut Vec<Value>,
    changes: &'p [Value],
    path: &mut Vec<&'p str>,
) -> ApiResult<()> {
    let Some(key) = lists::strategic_key(path) else {
        if lists::is_merged_set(path) {
            for change in changes {
                if !list.contains(change) {
                    list.push(change.clone());
                }
            }
        } else {
            *list = changes.to_vec();
        }
        return Ok(());
    };
    let directive = |change: &Value| {
        change
            .get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if changes
        .iter()
        .any(|change| directive(change).as_deref() == Some("replace"))
    {
        list.clear();
    }
    for change in changes {
        let Some(identity) = change.get(key) else {
            if directive(change).as_deref() == Some("replace") {
                continue;
            }
            return Err(ApiError::bad_request(format!(
                "an element of {} has no \"{key}\", by which its list is merged",
                path.join(".")
            )));
        };
        let place = list.iter().position(|item| item.get(key) == Some(identity));
        if directive(change).as_deref() == Some("delete") {
            list.retain(|item| item.get(key) != Some(identity));
            continue;
        }
        let mut element = match place.and_then(|place| list.get_mut(place)) {
            Some(element) => std::mem::take(element),
            None => Value::Object(Map::new()),
        };
        if let (Some(element), Some(change)) = (element.as_object_mut(), change.as_object()) {
            merge_object(element, change, path)?;
        }
        match place.and_then(|place| list.get_mut(place)) {
            Some(slot) => *slot = element,
            None => list.push(element),
        }
    }
    Ok(())
}

fn delete_values(list: Option<&mut Value>, gone: &Value) {
    if let (Some(list), Some(gone)) = (list.and_then(Value::as_array_mut), gone.as_array()) {
        list.retain(|item| !gone.contains(item));
    }
}

/// Sorts elements by `$setElementOrder`, after the elements that it does not name.
fn sort(list: Option<&mut Value>, order: &Value, key: Option<&str>) {
    if let (Some(list), Some(order)) = (list.and_then(Value::as_array_mut), order.as_array()) {
        let identity = |item: &Value| match key {
            Some(key) => item.get(key).cloned(),
            None => Some(item.clone()),
        };
        list.sort_by_key(|item| {
            order
                .iter()
                .position(|named| identity(named) == identity(item))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut value: Value, patch: Value) -> Value {
        merge(&mut value, &patch).unwrap();
        value
    }

    fn pod() -> Value {
        json!({"spec": {
            "containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}],
            "tolerations": [{"key": "x"}],
        }})
    }

    #[test]
    fn containers_are_merged_by_name() {
        let patch = json!({"spec": {"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]}});
        assert_eq!(
            patched(pod(), patch)["spec"]["containers"],
            json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}])
        );
    }

    #[test]
    fn elements_are_deleted_and_ordered_on_demand() {
        let patch = json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "containers": [{"name": "a", "$patch": "delete"}, {"name": "c", "image": "c:1"}],
        }});
        assert_eq!(
            patched(pod(), patch)["spec"]["containers"],
            json!([{"name": "c", "image": "c:1"}, {"name": "b", "image": "b:1"}])
        );
    }

    #[test]
    fn lists_without_identity_are_replaced() {
        let patch = json!({"spec": {"tolerations": [{"key": "y"}]}});
        assert_eq!(
            patched(pod(), patch)["spec"]["tolerations"],
            json!([{"key": "y"}])
        );
    }

    #[test]
    fn null_and_the_delete_directive_remove_fields() {
        let node = json!({"spec": {"unschedulable": true, "a": {"b": 1}}});
        let patch = json!({"spec": {"unschedulable": null, "a": {"$patch": "delete"}}});
        assert_eq!(patched(node, patch), json!({"spec": {}}));
    }

    #[test]
    fn retain_keys_drops_the_other_members_of_a_union() {
        let deployment = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(
            patched(deployment, patch),
            json!({"spec": {"strategy": {"type": "Recreate"}}})
        );
    }

    #[test]
    fn finalizers_are_a_set() {
        let object = json!({"metadata": {"finalizers": ["a"]}});
        let added = patched(
            object.clone(),
            json!({"metadata": {"finalizers": ["a", "b"]}}),
        );
        assert_eq!(added["metadata"]["finalizers"], json!(["a", "b"]));
        let removed = patched(
            object,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        );
        assert_eq!(removed["metadata"]["finalizers"], json!([]));
    }
}
