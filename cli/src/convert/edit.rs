//! An object during conversion: its current content, and the changes so far.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

pub(crate) use super::pointer::escaped;
use super::{document::Document, layout::Layout, names, pointer::unescaped, yaml};

/// Fields are named by JSON pointers, such as `/spec/template/spec/expireAfter`.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    place: String,
    text: Option<String>,
    pub(crate) object: Value,
    /// Comments by the field that they stand above.
    pub(crate) comments: BTreeMap<String, Vec<String>>,
    pub(crate) warnings: Vec<String>,
    pub(crate) refusals: Vec<Refusal>,
    /// The object for which this one was generated.
    pub(crate) caused_by: Option<String>,
    /// The object is left out of the output.
    pub(crate) is_left_out: bool,
    changed: bool,
}

/// Reason why a document is not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) object: String,
    pub(crate) field: String,
    pub(crate) value: String,
    /// Allowed values, or what to do.
    pub(crate) remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not converted: ", self.object)?;
        if !self.field.is_empty() {
            write!(f, "{}", self.field)?;
            if !self.value.is_empty() {
                write!(f, " is {}", self.value)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.remedy)
    }
}

impl Edit {
    pub(crate) fn new(document: Document) -> Self {
        let lost = "comments of the list that holds it are left out: give it as a document of its own to keep them";
        Self {
            place: document.place,
            text: document.text,
            object: document.object,
            comments: BTreeMap::new(),
            warnings: document
                .loses_comments
                .then(|| lost.to_owned())
                .into_iter()
                .collect(),
            refusals: Vec::new(),
            caused_by: None,
            is_left_out: false,
            changed: false,
        }
    }

    /// A generated object that no document contains, caused by this one.
    pub(crate) fn caused(&self, object: Value) -> Self {
        let document = Document {
            place: self.place.clone(),
            text: None,
            loses_comments: false,
            object,
        };
        Self {
            caused_by: Some(self.name()),
            ..Self::new(document)
        }
    }

    /// A copy of this object under another name, as a document caused by this one.
    pub(crate) fn copy(&self, name: &str) -> Self {
        let mut copy = Self {
            text: None,
            ..self.clone()
        };
        copy.set("/metadata/name", name.into());
        copy
    }

    /// Marks the object as changed.
    pub(crate) fn touch(&mut self) {
        self.changed = true;
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Kind, name and place, for messages.
    pub(crate) fn name(&self) -> String {
        let (_, kind) = self.type_of();
        let name = self.text_at("/metadata/name").unwrap_or_default();
        match (kind.as_str(), name) {
            ("", "") => self.place.clone(),
            (kind, name) => format!("{kind}/{name} ({})", self.place),
        }
    }

    pub(crate) fn type_of(&self) -> (String, String) {
        let part = |field: &str| self.text_at(field).unwrap_or_default().to_owned();
        (part("/apiVersion"), part("/kind"))
    }

    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.object.pointer(field)
    }

    pub(crate) fn text_at(&self, field: &str) -> Option<&str> {
        self.get(field).and_then(Value::as_str)
    }

    /// Sets a field, and creates the objects above it.
    pub(crate) fn set(&mut self, field: &str, value: Value) {
        self.changed = true;
        let mut at = &mut self.object;
        for step in field.split('/').skip(1).map(unescaped) {
            if at.is_null() {
                *at = Value::Object(Map::new());
            }
            at = match at {
                Value::Object(map) => map.entry(step).or_insert(Value::Null),
                Value::Array(items) => {
                    match step.parse().ok().and_then(|n: usize| items.get_mut(n)) {
                        Some(item) => item,
                        None => return,
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
            };
        }
        *at = value;
    }

    /// Appends to a list.
    pub(crate) fn push(&mut self, list: &str, value: Value) {
        if let Some(Value::Array(items)) = self.object.pointer_mut(list) {
            items.push(value);
            self.changed = true;
        }
    }

    /// Removes a field, and the objects above it that become empty.
    pub(crate) fn take(&mut self, field: &str) -> Option<Value> {
        let (above, last) = field.rsplit_once('/')?;
        let parent = self.object.pointer_mut(above)?.as_object_mut()?;
        let taken = parent.remove(&unescaped(last))?;
        let is_empty = parent.is_empty();
        self.changed = true;
        if is_empty && !above.is_empty() {
            self.take(above);
        }
        Some(taken)
    }

    /// Adds a comment above a field.
    pub(crate) fn comment(&mut self, field: &str, text: impl Into<String>) {
        self.comments
            .entry(field.to_owned())
            .or_default()
            .push(text.into());
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    pub(crate) fn refuse(&mut self, field: &str, value: &str, remedy: impl Into<String>) {
        let refusal = Refusal {
            object: self.name(),
            field: shown(field),
            value: value.to_owned(),
            remedy: remedy.into(),
        };
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    /// Drops fields that belong to the object on its API server, or are computed again (docs/spec/migrate.md#converters,
    /// docs/spec/migrate.md#v1beta1-names).
    pub(crate) fn clean_metadata(&mut self) {
        self.take("/status");
        for field in names::SERVER_METADATA {
            self.take(&format!("/metadata/{field}"));
        }
        for key in names::DROPPED_ANNOTATIONS
            .iter()
            .chain([&names::LAST_APPLIED])
        {
            self.take(&format!("/metadata/annotations/{}", escaped(key)));
        }
        let finalizers = self.object.pointer_mut("/metadata/finalizers");
        if let Some(Value::Array(finalizers)) = finalizers {
            let own = |finalizer: &Value| {
                finalizer
                    .as_str()
                    .is_some_and(|finalizer| names::OWN_FINALIZERS.contains(&finalizer))
            };
            finalizers.retain(|finalizer| !own(finalizer));
            if finalizers.is_empty() {
                self.take("/metadata/finalizers");
            }
        }
    }

    /// Removes an annotation and returns its value.
    pub(crate) fn take_annotation(&mut self, key: &str) -> Option<String> {
        let taken = self.take(&format!("/metadata/annotations/{}", escaped(key)))?;
        taken.as_str().map(str::to_owned)
    }

    /// The source text, or the rendered object if it was changed.
    pub(crate) fn text(&self) -> String {
        match &self.text {
            Some(text) if !self.changed => text.clone(),
            Some(text) => {
                let before = serde_saphyr::from_str(text).unwrap_or(Value::Null);
                let layout = Layout::of(text, &before, &self.object);
                yaml::text(&self.object, &self.comments, &layout)
            }
            None => yaml::text(&self.object, &self.comments, &Layout::default()),
        }
    }
}

/// A field's path in the notation that users write.
pub(crate) fn shown(field: &str) -> String {
    let steps: Vec<String> = field
        .trim_start_matches('/')
        .split('/')
        .map(unescaped)
        .collect();
    steps.join(".")
}
