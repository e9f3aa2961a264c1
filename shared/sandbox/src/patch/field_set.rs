use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::lists::{self, ListRule};
use crate::kinds::ResourceType;

/// Set of fields of one object in the `FieldsV1` format of `managedFields`: children by `f:<field>`, `k:<keys of a
/// list's element>` or `v:<value of a list's element>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Whether the path itself is in the set, not only paths below it.
    owned: bool,
    children: BTreeMap<String, FieldSet>,
}

pub(super) type Path = Vec<String>;

/// Metadata fields that have no manager.
const UNOWNED_METADATA: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "managedFields",
];

impl FieldSet {
    /// Every field that an object sets.
    pub(super) fn of(kind: &ResourceType, object: &Value) -> Self {
        let mut set = Self::default();
        for (field, value) in object.as_object().into_iter().flatten() {
            match field.as_str() {
                "apiVersion" | "kind" => {}
                "metadata" => {
                    let owned = value.as_object().into_iter().flatten();
                    let mut metadata = Self::default();
                    for (field, value) in
                        owned.filter(|(field, _)| !UNOWNED_METADATA.contains(&field.as_str()))
                    {
                        let below = Self::below(kind, value, &mut vec!["metadata", field]);
                        metadata.children.insert(format!("f:{field}"), below);
                    }
                    if !metadata.children.is_empty() {
                        set.children.insert("f:metadata".to_owned(), metadata);
                    }
                }
                _ => {
                    let below = Self::below(kind, value, &mut vec![field]);
                    set.children.insert(format!("f:{field}"), below);
                }
            }
        }
        set
    }

    fn leaf() -> Self {
        Self {
            owned: true,
            children: BTreeMap::new(),
        }
    }

    fn below<'v>(kind: &ResourceType, value: &'v Value, path: &mut Vec<&'v str>) -> Self {
        match value {
            Value::Object(fields) if !fields.is_empty() && !lists::is_atomic_object(kind, path) => {
                Self::of_fields(kind, fields, path)
            }
            Value::Array(items) => match lists::rule(kind, path) {
                ListRule::Atomic => Self::leaf(),
                ListRule::Set => Self {
                    owned: items.is_empty(),
                    children: items
                        .iter()
                        .map(|item| (format!("v:{item}"), Self::leaf()))
                        .collect(),
                },
                ListRule::Map(keys) => {
                    let mut set = Self {
                        owned: items.is_empty(),
                        ..Self::default()
                    };
                    for item in items {
                        let mut element = item
                            .as_object()
                            .map_or_else(Self::leaf, |fields| Self::of_fields(kind, fields, path));
                        element.owned = true;
                        set.children.insert(element_name(item, &keys), element);
                    }
                    set
                }
            },
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => Self::leaf(),
        }
    }

    fn of_fields<'v>(
        kind: &ResourceType,
        fields: &'v Map<String, Value>,
        path: &mut Vec<&'v str>,
    ) -> Self {
        let mut set = Self::default();
        for (field, value) in fields {
            path.push(field);
            let below = Self::below(kind, value, path);
            path.pop();
            set.children.insert(format!("f:{field}"), below);
        }
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.children.is_empty()
    }

    /// Paths in the set, parents before children.
    pub(super) fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, path: &mut Path, paths: &mut Vec<Path>) {
        if self.owned {
            paths.push(path.clone());
        }
        for (name, child) in &self.children {
            path.push(name.clone());
            child.collect(path, paths);
            path.pop();
        }
    }

    /// Returns whether the set contains the path or one below it.
    pub(super) fn touches(&self, path: &[String]) -> bool {
        path.iter()
            .try_fold(self, |set, name| set.children.get(name))
            .is_some_and(|set| !set.is_empty())
    }

    pub(super) fn has(&self, path: &[String]) -> bool {
        path.iter()
            .try_fold(self, |set, name| set.children.get(name))
            .is_some_and(|set| set.owned)
    }

    pub(super) fn insert(&mut self, path: &[String]) {
        match path.split_first() {
            None => self.owned = true,
            Some((name, rest)) => self.children.entry(name.clone()).or_default().insert(rest),
        }
    }

    /// Removes every path of another set.
    pub(super) fn subtract(&mut self, other: &Self) {
        if other.owned {
            self.owned = false;
        }
        self.children.retain(|name, child| {
            if let Some(other) = other.children.get(name) {
                child.subtract(other);
            }
            !child.is_empty()
        });
    }

    /// Paths in both sets.
    pub(super) fn common(&self, other: &Self) -> Vec<Path> {
        self.paths()
            .into_iter()
            .filter(|path| other.has(path))
            .collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let mut fields = Map::new();
        if self.owned && !self.children.is_empty() {
            fields.insert(".".to_owned(), json!({}));
        }
        for (name, child) in &self.children {
            fields.insert(name.clone(), child.to_json());
        }
        Value::Object(fields)
    }

    pub(super) fn from_json(value: &Value) -> Self {
        let Some(fields) = value.as_object() else {
            return Self::default();
        };
        Self {
            owned: fields.is_empty() || fields.contains_key("."),
            children: fields
                .iter()
                .filter(|(name, _)| *name != ".")
                .map(|(name, child)| (name.clone(), Self::from_json(child)))
                .collect(),
        }
    }
}

/// Name of a list element: `k:{"type":"Ready"}`.
pub(super) fn element_name(item: &Value, keys: &[(String, Option<&'static str>)]) -> String {
    format!("k:{}", identity(item, keys))
}

/// Values of a list's keys in one element, with defaults.
pub(super) fn identity(item: &Value, keys: &[(String, Option<&'static str>)]) -> Value {
    let pairs: BTreeMap<String, Value> = keys
        .iter()
        .filter_map(|(key, default)| {
            let value = item.get(key).cloned();
            Some((key.clone(), value.or_else(|| default.map(Value::from))?))
        })
        .collect();
    Value::Object(pairs.into_iter().collect())
}

/// Value at a path of an object.
pub(super) fn find<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter()
        .try_fold(value, |value, name| match name.split_at_checked(2)? {
            ("f:", field) => value.get(field),
            ("k:", keys) => {
                let keys: Value = serde_json::from_str(keys).ok()?;
                value
                    .as_array()?
                    .iter()
                    .find(|item| is_element(item, &keys))
            }
            ("v:", element) => {
                let element: Value = serde_json::from_str(element).ok()?;
                value.as_array()?.iter().find(|item| **item == element)
            }
            _ => None,
        })
}

/// Removes the value at a path; parents stay.
pub(super) fn remove(value: &mut Value, path: &[String]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let Some((kind, name)) = name.split_at_checked(2) else {
        return;
    };
    if kind == "f:" {
        if rest.is_empty() {
            if let Some(fields) = value.as_object_mut() {
                fields.remove(name);
            }
        } else if let Some(field) = value.get_mut(name) {
            remove(field, rest);
        }
    } else if let (Some(items), Ok(wanted)) =
        (value.as_array_mut(), serde_json::from_str::<Value>(name))
    {
        let is_wanted = |item: &Value| match kind {
            "k:" => is_element(item, &wanted),
            _ => *item == wanted,
        };
        if rest.is_empty() {
            items.retain(|item| !is_wanted(item));
        } else if let Some(item) = items.iter_mut().find(|item| is_wanted(item)) {
            remove(item, rest);
        }
    }
}

/// Returns whether an element has these key values; an absent key has its default.
fn is_element(item: &Value, keys: &Value) -> bool {
    keys.as_object().is_some_and(|keys| {
        keys.iter().all(|(key, value)| match item.get(key) {
            Some(own) => own == value,
            None => key == "protocol" && value == "TCP",
        })
    })
}

/// Human-readable path: `.spec.template.spec.containers[name="a"].image`.
pub(super) fn shown(path: &[String]) -> String {
    let mut shown = String::new();
    for name in path {
        match name.split_at_checked(2) {
            Some(("f:", field)) => shown.push_str(&format!(".{field}")),
            Some(("k:", keys)) => {
                let keys: Value = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                shown.push_str(&format!("[{}]", pairs.join(",")));
            }
            Some((_, value)) => shown.push_str(&format!("[={value}]")),
            None => {}
        }
    }
    shown
}
