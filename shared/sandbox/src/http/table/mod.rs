//! `metav1.Table`: the rows that `kubectl get` prints.

mod age;
mod cells;
mod columns;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::accept::RowObject;
use crate::{
    json,
    kinds::{Column, Form, ResourceType},
};

/// Table of the objects.
pub(super) fn of_objects<'v>(
    kind: &ResourceType,
    metadata: &Value,
    objects: impl Iterator<Item = &'v Value>,
    carried: RowObject,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .map(|object| {
            let mut row = json!({"cells": cells(kind, object, now)});
            let object = match carried {
                RowObject::None => Value::Null,
                RowObject::Metadata => partial(object),
                RowObject::Whole => object.clone(),
            };
            if !object.is_null() {
                json::set(&mut row, &["object"], object);
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions(kind), "rows": rows,
    })
}

/// `PartialObjectMetadata` of an object.
pub(super) fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": json::at(object, &["metadata"]),
    })
}

fn definitions(kind: &ResourceType) -> Vec<Value> {
    let definition = |name: &str, kind: &str, format: &str, description: &str, priority: i64| {
        json!({
            "name": name, "type": kind, "format": format,
            "description": description, "priority": priority,
        })
    };
    let mut definitions = vec![definition(
        "Name",
        "string",
        "name",
        "Name of the object.",
        0,
    )];
    match &kind.form {
        Form::Custom(form) if !form.columns.is_empty() => {
            definitions.extend(form.columns.iter().map(|column| {
                definition(
                    &column.name,
                    &column.kind,
                    &column.format,
                    &column.description,
                    column.priority,
                )
            }));
        }
        Form::Custom(_) => definitions.push(definition("Age", "date", "", "", 0)),
        Form::BuiltIn(_) | Form::Events(_) => {
            if !columns::begin_with_name(kind) {
                definitions.clear();
            }
            definitions.extend(
                columns::of(kind)
                    .iter()
                    .map(|column| definition(column.name, "string", "", "", column.priority)),
            );
        }
    }
    definitions
}

fn cells(kind: &ResourceType, object: &Value, now: Timestamp) -> Vec<Value> {
    let created = json::at(object, &["metadata", "creationTimestamp"]);
    let mut cells = vec![json::at(object, &["metadata", "name"]).clone()];
    match &kind.form {
        Form::Custom(form) if !form.columns.is_empty() => {
            let columns = form.columns.iter();
            cells.extend(columns.map(|column| custom_cell(column, object, now)));
        }
        Form::Custom(_) => cells.push(age::age(created, now)),
        Form::BuiltIn(_) | Form::Events(_) => {
            if !columns::begin_with_name(kind) {
                cells.clear();
            }
            let columns = columns::of(kind).iter();
            cells.extend(columns.map(|column| (column.cell)(object, now)));
        }
    }
    cells
}

fn custom_cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let Some(value) = jsonpath::first(object, &column.path) else {
        return Value::Null;
    };
    match column.kind.as_str() {
        "date" => age::age(value, now),
        "string" if !value.is_string() => Value::from(value.to_string()),
        _ => value.clone(),
    }
}
