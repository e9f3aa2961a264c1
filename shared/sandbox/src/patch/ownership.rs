//! `metadata.managedFields`: the managers of each field, so that appliers do not overwrite each other unknowingly.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::field_set::{self, FieldSet};
use crate::{json, kinds::ResourceType, server::rfc3339};

/// Entry of `managedFields`.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub manager: String,
    pub operation: Operation,
    pub subresource: Option<String>,
    pub api_version: String,
    time: String,
    pub fields: FieldSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Owner {
    pub(super) fn new(
        kind: &ResourceType,
        manager: &str,
        operation: Operation,
        subresource: Option<&str>,
    ) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            subresource: subresource.map(str::to_owned),
            api_version: kind.api_version(),
            time: String::new(),
            fields: FieldSet::default(),
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        (&self.manager, self.operation, &self.subresource)
            == (&other.manager, other.operation, &other.subresource)
    }

    pub(super) fn touch(&mut self, now: Timestamp) {
        self.time = rfc3339(now);
    }

    fn to_json(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": self.operation.word(),
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        if let Some(subresource) = &self.subresource {
            json::set(&mut entry, &["subresource"], subresource.as_str());
        }
        entry
    }
}

pub(super) fn owners(object: &Value) -> Vec<Owner> {
    json::items(object, &["metadata", "managedFields"])
        .iter()
        .filter(|entry| !json::text(entry, &["manager"]).is_empty())
        .map(|entry| Owner {
            manager: json::text(entry, &["manager"]).to_owned(),
            operation: if json::text(entry, &["operation"]) == "Apply" {
                Operation::Apply
            } else {
                Operation::Update
            },
            subresource: json::at(entry, &["subresource"])
                .as_str()
                .map(str::to_owned),
            api_version: json::text(entry, &["apiVersion"]).to_owned(),
            time: json::text(entry, &["time"]).to_owned(),
            fields: FieldSet::from_json(json::at(entry, &["fieldsV1"])),
        })
        .collect()
}

pub(super) fn record(object: &mut Value, owners: &[Owner]) {
    let entries: Vec<Value> = owners
        .iter()
        .filter(|owner| !owner.fields.is_empty())
        .map(Owner::to_json)
        .collect();
    if entries.is_empty() {
        json::remove(object, &["metadata", "managedFields"]);
    } else {
        json::set(object, &["metadata", "managedFields"], entries);
    }
}

/// Records that a manager wrote the differences between two versions of an object; other managers lose the fields that
/// it changed or removed.
pub fn of_update(
    kind: &ResourceType,
    subresource: Option<&str>,
    old: &Value,
    new: &mut Value,
    manager: &str,
    now: Timestamp,
) {
    // Clients reset the managed fields with an empty list.
    let forget = json::at(new, &["metadata", "managedFields"])
        .as_array()
        .is_some_and(|entries| entries.iter().all(|entry| *entry == json!({})));
    let mut owners = if forget { Vec::new() } else { owners(old) };
    let before = FieldSet::of(kind, old);
    let after = FieldSet::of(kind, new);
    let mut changed = FieldSet::default();
    for path in after.paths() {
        if !before.has(&path) || field_set::find(old, &path) != field_set::find(new, &path) {
            changed.insert(&path);
        }
    }
    let mut removed = before;
    removed.subtract(&after);
    let mut mine = Owner::new(kind, manager, Operation::Update, subresource);
    for owner in &mut owners {
        owner.fields.subtract(&removed);
        if !owner.is(&mine) {
            owner.fields.subtract(&changed);
        }
    }
    if !changed.is_empty() && !forget {
        match owners.iter().position(|owner| owner.is(&mine)) {
            Some(at) => mine = owners.remove(at),
            None => mine.touch(now),
        }
        for path in changed.paths() {
            mine.fields.insert(&path);
        }
        mine.touch(now);
        owners.push(mine);
    }
    record(new, &owners);
}
