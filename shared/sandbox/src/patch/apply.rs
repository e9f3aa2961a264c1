//! Server-side apply: an applier states the fields that it manages; the server merges them, keeps other managers'
//! fields, removes fields that the applier no longer states, and rejects changes to other managers' fields unless
//! forced.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    field_set::{self, FieldSet},
    lists::{self, ListRule},
    ownership::{self, Operation, Owner},
};
use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::ResourceType,
    store::Object,
};

/// Conflict resolution of an apply request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    #[default]
    Refuse,
    /// Take over the conflicting fields.
    Force,
}

/// Object that results from applying a configuration to the live object, or to none.
pub fn apply(
    kind: &ResourceType,
    live: Option<&Arc<Object>>,
    config: &Value,
    subresource: Option<&str>,
    manager: &str,
    conflicts: Conflicts,
    now: Timestamp,
) -> ApiResult<Value> {
    let stated = FieldSet::of(kind, config);
    let mut mine = Owner::new(kind, manager, Operation::Apply, subresource);
    mine.fields = stated.clone();
    mine.touch(now);
    let Some(live) = live else {
        let mut created = config.clone();
        ownership::record(&mut created, &[mine]);
        return Ok(created);
    };
    let live = live.value();
    let mut owners = ownership::owners(live);
    let before = owners
        .iter()
        .position(|owner| owner.is(&mine))
        .map(|at| owners.remove(at).fields)
        .unwrap_or_default();
    resolve(&mut owners, &stated, live, config, conflicts)?;
    let mut merged = live.clone();
    merge(kind, &mut merged, config, &mut Vec::new());
    let mut dropped = before;
    dropped.subtract(&stated);
    let mut dropped = dropped.paths();
    dropped.reverse();
    for path in dropped {
        let is_wanted = stated.touches(&path) || owners.iter().any(|o| o.fields.touches(&path));
        if !is_wanted {
            field_set::remove(&mut merged, &path);
        }
    }
    owners.push(mine);
    ownership::record(&mut merged, &owners);
    Ok(merged)
}

/// Resolves conflicts with other managers of applied fields: equal values are shared; different ones are rejected, or
/// taken over by force.
fn resolve(
    owners: &mut [Owner],
    stated: &FieldSet,
    live: &Value,
    config: &Value,
    conflicts: Conflicts,
) -> ApiResult<()> {
    let mut causes = Vec::new();
    for owner in owners {
        let mut lost = FieldSet::default();
        for path in stated.common(&owner.fields) {
            let (old, new) = (field_set::find(live, &path), field_set::find(config, &path));
            let is_element = path.last().is_some_and(|name| name.starts_with("k:"));
            if old == new || is_element {
                continue;
            }
            match conflicts {
                Conflicts::Force => lost.insert(&path),
                Conflicts::Refuse => causes.push((
                    format!(
                        "conflict with \"{}\" using {}",
                        owner.manager, owner.api_version
                    ),
                    field_set::shown(&path),
                )),
            }
        }
        owner.fields.subtract(&lost);
    }
    if causes.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = causes
        .iter()
        .map(|(who, field)| format!("{who}: {field}"))
        .collect();
    let count = match causes.len() {
        1 => "1 conflict".to_owned(),
        many => format!("{many} conflicts"),
    };
    let details: Vec<Value> = causes
        .iter()
        .map(|(who, field)| json!({"reason": "FieldManagerConflict", "message": who, "field": field}))
        .collect();
    Err(ApiError::new(
        409,
        "Conflict",
        format!("Apply failed with {count}: {}", list.join(", ")),
    )
    .with_details(json!({"causes": details})))
}

fn merge<'c>(kind: &ResourceType, live: &mut Value, config: &'c Value, path: &mut Vec<&'c str>) {
    match config {
        Value::Object(fields)
            if live.is_object() && (path.is_empty() || !lists::is_atomic_object(kind, path)) =>
        {
            merge_fields(kind, json::object_mut(live, &[]), fields, path);
        }
        Value::Array(items) if live.is_array() => match lists::rule(kind, path) {
            ListRule::Atomic => live.clone_from(config),
            ListRule::Set => {
                if let Some(live) = live.as_array_mut() {
                    for item in items {
                        if !live.contains(item) {
                            live.push(item.clone());
                        }
                    }
                }
            }
            ListRule::Map(keys) => {
                if let Some(live) = live.as_array_mut() {
                    merge_elements(kind, live, items, &keys, path);
                }
            }
        },
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)
        | Value::Array(_) => live.clone_from(config),
    }
}

fn merge_fields<'c>(
    kind: &ResourceType,
    live: &mut Map<String, Value>,
    config: &'c Map<String, Value>,
    path: &mut Vec<&'c str>,
) {
    for (field, value) in config {
        path.push(field);
        match live.get_mut(field) {
            Some(live) => merge(kind, live, value, path),
            None => {
                live.insert(field.clone(), value.clone());
            }
        }
        path.pop();
    }
}

fn merge_elements<'c>(
    kind: &ResourceType,
    live: &mut Vec<Value>,
    config: &'c [Value],
    keys: &[(String, Option<&'static str>)],
    path: &mut Vec<&'c str>,
) {
    for item in config {
        let wanted = field_set::identity(item, keys);
        let place = live
            .iter_mut()
            .find(|own| field_set::identity(own, keys) == wanted);
        match (place, item) {
            (Some(own), Value::Object(fields)) => {
                merge_fields(kind, json::object_mut(own, &[]), fields, path);
            }
            (Some(own), _) => own.clone_from(item),
            (None, _) => live.push(item.clone()),
        }
    }
}
