//! Manifests from files: YAML or JSON, one or many documents, single objects or lists.
//!
//! Every document is read on its own. What cannot be read is a [`ManifestError`] that names file, document, line and field;
//! the rest goes on.

mod documents;
mod object;
mod outline;
mod spread;
mod tree;

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use thiserror::Error;

use documents::{Document, documents};
pub use object::Object;
use object::{Decoded, TypeMeta};
pub use outline::outline;

use crate::schema::{schema_of, unknown_fields};

/// What some files hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    pub objects: Vec<Manifest>,
    /// Objects of kinds that planning does not look at.
    pub ignored: Vec<Ignored>,
    pub errors: Vec<ManifestError>,
    /// Karpenter's objects as they are written, whether they could be read or not.
    pub written: Vec<Written>,
    /// Where in `objects` each is: kind, namespace and name.
    known: BTreeMap<(&'static str, String, String), usize>,
}

/// An object and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub place: Place,
    pub object: Object,
    /// Fields of one of Karpenter's objects that its type does not have: most likely misspelt, and without effect.
    pub unknown_fields: Vec<String>,
}

/// An object before it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub place: Place,
    pub kind: String,
    pub value: Value,
}

/// An object that is not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub place: Place,
    pub api_version: String,
    pub kind: String,
}

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    /// Number of the document in its file, from 1.
    pub document: usize,
    /// Number of the object in its list, from 1.
    pub item: Option<usize>,
    /// Line of the file, from 1: that of the mistake if one is known, else where the object begins.
    pub line: usize,
}

/// Why an object could not be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct ManifestError {
    pub place: Place,
    /// The field that is wrong, where it is one.
    pub field: Option<String>,
    /// What is wrong with it.
    pub message: String,
}

/// Whether a text is a template of Helm, which only becomes manifests.
pub fn is_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
}

/// What to do with a template of Helm.
pub const TEMPLATE: &str = "it is a template of Helm: render it first, with `helm template <chart>`, and give what that prints";

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} (document {}", self.file, self.line, self.document)?;
        if let Some(item) = self.item {
            write!(f, ", item {item}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl Manifests {
    /// Of an object that is given twice the later one counts, as when both are applied; the earlier one is told of.
    fn add(&mut self, manifest: Manifest) {
        let metadata = manifest.object.metadata();
        let namespace = metadata
            .namespace
            .as_deref()
            .unwrap_or("default")
            .to_owned();
        let id = (manifest.object.kind(), namespace, metadata.name.clone());
        let Some(earlier) = self.known.get(&id).and_then(|at| self.objects.get_mut(*at)) else {
            self.known.insert(id, self.objects.len());
            self.objects.push(manifest);
            return;
        };
        let (kind, _, name) = id;
        self.errors.push(ManifestError {
            place: earlier.place.clone(),
            field: None,
            message: format!(
                "{kind} {name} is given again at {}: that one counts",
                manifest.place
            ),
        });
        *earlier = manifest;
    }

    /// A name of its own for an object that leaves it to the API server; empty if it does not say how the name begins.
    fn generated_name(&self, document: &Document<'_>) -> String {
        let value = document.value().unwrap_or_default();
        let prefix = value.pointer("/metadata/generateName");
        match prefix.and_then(Value::as_str) {
            Some(prefix) => format!("{prefix}{}", self.objects.len() + 1),
            None => String::new(),
        }
    }

    /// Adds what `text` holds. `file` is the name used in places.
    pub fn read(&mut self, file: &str, text: &str) {
        for document in documents(text) {
            let place = Place {
                file: file.to_owned(),
                document: document.number,
                item: None,
                line: document.first_line(),
            };
            self.document(document, place);
        }
    }

    fn document(&mut self, document: Document<'_>, place: Place) {
        match document.types() {
            Ok(None) => {}
            Ok(Some(types)) if types.is_list() && place.item.is_none() => {
                self.list(document, place)
            }
            Ok(Some(types)) => self.object(&document, types, place),
            Err(fault) => self.errors.push(fault.at(place)),
        }
    }

    fn list(&mut self, document: Document<'_>, place: Place) {
        match document.items() {
            Ok(items) => {
                for item in items {
                    let place = Place {
                        item: Some(item.number),
                        line: item.first_line(),
                        ..place.clone()
                    };
                    self.document(item, place);
                }
            }
            Err(fault) => self.errors.push(fault.at(place)),
        }
    }

    fn object(&mut self, document: &Document<'_>, types: TypeMeta, place: Place) {
        let (api_version, kind) = match types.named() {
            Ok(named) => named,
            Err(message) => {
                return self.errors.push(ManifestError {
                    place,
                    field: None,
                    message,
                });
            }
        };
        match Object::decode(&api_version, &kind, document) {
            Ok(Decoded::Object(mut object)) => {
                if object.metadata().name.is_empty() {
                    object.metadata_mut().name = self.generated_name(document);
                }
                let unknown_fields = self.keep_written(document, &kind, &place);
                self.add(Manifest { place, object, unknown_fields });
            }
            Ok(Decoded::OtherVersion { known }) => self.errors.push(ManifestError {
                place,
                field: Some("apiVersion".to_owned()),
                message: format!(
                    "\"{api_version}\" is not a version of {kind} that can be read: expected {known}{}",
                    to_convert(&api_version)
                ),
            }),
            Ok(Decoded::UnknownKind) if !to_convert(&api_version).is_empty() => {
                self.errors.push(ManifestError {
                    place,
                    field: Some("kind".to_owned()),
                    message: format!("\"{kind}\" of {api_version} cannot be read{}", to_convert(&api_version)),
                });
            }
            Ok(Decoded::UnknownKind) => self.ignored.push(Ignored { place, api_version, kind }),
            Err(fault) => {
                self.keep_written(document, &kind, &place);
                self.mistakes(document, &api_version, &kind, fault, &place);
            }
        }
    }

    /// Returns the fields that its type does not have.
    fn keep_written(&mut self, document: &Document<'_>, kind: &str, place: &Place) -> Vec<String> {
        let Some(schema) = schema_of(kind) else {
            return Vec::new();
        };
        let Some(value) = document.value() else {
            return Vec::new();
        };
        let unknown = unknown_fields(schema, &value);
        self.written.push(Written {
            place: place.clone(),
            kind: kind.to_owned(),
            value,
        });
        unknown
    }

    /// Every mistake of an object: the first one is known, and the others are found by leaving out what was wrong before.
    fn mistakes(
        &mut self,
        document: &Document<'_>,
        api_version: &str,
        kind: &str,
        fault: Fault,
        place: &Place,
    ) {
        let mut left_out = Vec::new();
        let mut rest = fault.without(document, &mut left_out);
        self.errors.push(fault.at(place.clone()));
        for _ in 1..MISTAKES_MAX {
            let Some(document) = rest.take() else {
                return;
            };
            let Err(fault) = Object::decode(api_version, kind, &document) else {
                return;
            };
            let is_consequence = fault.is_consequence_of(&left_out);
            rest = fault.without(&document, &mut left_out);
            if !is_consequence {
                self.errors.push(fault.at(place.clone()));
            }
        }
    }
}

/// What to do with Karpenter's older versions.
fn to_convert(api_version: &str) -> &'static str {
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let is_old = ["v1alpha1", "v1alpha5", "v1beta1"].contains(&version);
    match ["karpenter.sh", "karpenter.k8s.aws"].contains(&group) && is_old {
        true => ": `whittle convert -f <file>` makes v1 of it",
        false => "",
    }
}

/// Mistakes of one object that are told at once; each costs another reading of it.
const MISTAKES_MAX: usize = 20;

/// What went wrong while reading a document, before it is known where that is in its file.
#[derive(Clone)]
struct Fault {
    /// Line of the file.
    line: Option<usize>,
    field: Option<String>,
    message: String,
}

impl Fault {
    /// Whether a field is missing because it, or one in it, was left out.
    fn is_consequence_of(&self, left_out: &[String]) -> bool {
        let field = self.field.as_deref().unwrap_or_default();
        let is_in = |other: &String| {
            let rest = other.strip_prefix(field);
            rest.is_some_and(|rest| field.is_empty() || rest.starts_with(['.', '[']))
        };
        self.message.starts_with("missing field") && left_out.iter().any(is_in)
    }

    /// The document without the field that is wrong, where that is known, or without the list that it stands in.
    fn without<'a>(
        &self,
        document: &Document<'a>,
        left_out: &mut Vec<String>,
    ) -> Option<Document<'a>> {
        let field = self.field.as_deref().filter(|field| !field.is_empty())?;
        // Other items keep their numbers.
        let field = match field.strip_suffix(']') {
            Some(item) => item.rsplit_once('[').map_or(item, |(list, _)| list),
            None => field,
        };
        let rest = document.without(field)?;
        left_out.push(field.to_owned());
        Some(rest)
    }

    fn at(self, place: Place) -> ManifestError {
        let line = self.line.unwrap_or(place.line);
        ManifestError {
            place: Place { line, ..place },
            field: self.field,
            message: self.message,
        }
    }
}

#[cfg(test)]
mod tests;
