//! Manifests from files: YAML or JSON, one or many documents, single objects or lists.
//!
//! Each document is parsed independently. One that cannot be parsed is a [`ManifestError`] with file, document, line
//! and field; the others are unaffected.

mod documents;
mod line_json;
mod object;
mod outline;
mod tree;

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use thiserror::Error;

use documents::{Document, documents};
pub use object::Object;
use object::{Decoded, TypeMeta};
pub use outline::outline;

use crate::schema::{schema_of, unknown_fields};

/// Objects and errors of a set of files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    pub objects: Vec<Manifest>,
    /// Objects of kinds that planning does not use.
    pub ignored: Vec<IgnoredObject>,
    pub errors: Vec<ManifestError>,
    /// Karpenter's objects before conversion, whether or not they could be parsed.
    pub written: Vec<RawObject>,
    /// Index into `objects` by kind, namespace and name.
    known: BTreeMap<(&'static str, String, String), usize>,
}

/// An object and its location.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub place: SourceLocation,
    pub object: Object,
    /// Fields of a Karpenter object that its type does not have: most likely misspelt, and without effect.
    pub unknown_fields: Vec<String>,
}

/// An object before conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct RawObject {
    pub place: SourceLocation,
    pub kind: String,
    pub value: Value,
}

/// An object that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredObject {
    pub place: SourceLocation,
    pub api_version: String,
    pub kind: String,
}

/// Location of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    pub file: String,
    /// Number of the document in its file, from 1.
    pub document: usize,
    /// Number of the object in its list, from 1.
    pub item: Option<usize>,
    /// Line in the file, from 1: that of the error if known, otherwise the object's first line.
    pub line: usize,
}

/// Reason why an object cannot be parsed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct ManifestError {
    pub place: SourceLocation,
    /// The invalid field, if there is one.
    pub field: Option<String>,
    /// Description of the error.
    pub message: String,
}

/// Whether the text is a Helm template rather than a manifest.
pub fn is_helm_template(text: &str) -> bool {
    text.contains("{{") && text.contains("}}")
}

/// Remedy for a Helm template.
pub const HELM_TEMPLATE_REMEDY: &str =
    "it is a Helm template: render it with `helm template <chart>`, and pass the output";

impl fmt::Display for SourceLocation {
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
    /// Adds an object. A later definition of an object replaces the earlier one, as when both are applied; the earlier
    /// one is reported as an error.
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
                "{kind} {name} is defined again at {}: the later definition is used",
                manifest.place
            ),
        });
        *earlier = manifest;
    }

    /// A unique name for an object with `generateName`; empty without a prefix.
    fn generated_name(&self, document: &Document<'_>) -> String {
        let value = document.value().unwrap_or_default();
        let prefix = value.pointer("/metadata/generateName");
        match prefix.and_then(Value::as_str) {
            Some(prefix) => format!("{prefix}{}", self.objects.len() + 1),
            None => String::new(),
        }
    }

    /// Parses `text` and adds its objects. `file` is the name in locations.
    pub fn read(&mut self, file: &str, text: &str) {
        for document in documents(text) {
            let place = SourceLocation {
                file: file.to_owned(),
                document: document.number,
                item: None,
                line: document.first_line(),
            };
            self.document(document, place);
        }
    }

    fn document(&mut self, document: Document<'_>, place: SourceLocation) {
        match document.types() {
            Ok(None) => {}
            Ok(Some(types)) if types.is_list() && place.item.is_none() => {
                self.list(document, place)
            }
            Ok(Some(types)) => self.object(&document, types, place),
            Err(document_error) => self.errors.push(document_error.at(place)),
        }
    }

    fn list(&mut self, document: Document<'_>, place: SourceLocation) {
        match document.items() {
            Ok(items) => {
                for item in items {
                    let place = SourceLocation {
                        item: Some(item.number),
                        line: item.first_line(),
                        ..place.clone()
                    };
                    self.document(item, place);
                }
            }
            Err(document_error) => self.errors.push(document_error.at(place)),
        }
    }

    fn object(&mut self, document: &Document<'_>, types: TypeMeta, place: SourceLocation) {
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
                let unknown_fields = self.keep_raw(document, &kind, &place);
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
            Ok(Decoded::UnknownKind) => self.ignored.push(IgnoredObject { place, api_version, kind }),
            Err(document_error) => {
                self.keep_raw(document, &kind, &place);
                self.errors_of(document, &api_version, &kind, document_error, &place);
            }
        }
    }

    /// Keeps the raw object, and returns the fields that its type does not have.
    fn keep_raw(
        &mut self,
        document: &Document<'_>,
        kind: &str,
        place: &SourceLocation,
    ) -> Vec<String> {
        let Some(schema) = schema_of(kind) else {
            return Vec::new();
        };
        let Some(value) = document.value() else {
            return Vec::new();
        };
        let unknown = unknown_fields(schema, &value);
        self.written.push(RawObject {
            place: place.clone(),
            kind: kind.to_owned(),
            value,
        });
        unknown
    }

    /// All errors of an object. The first one is known; each further one is found by parsing again without the previous
    /// ones' fields.
    fn errors_of(
        &mut self,
        document: &Document<'_>,
        api_version: &str,
        kind: &str,
        document_error: DocumentError,
        place: &SourceLocation,
    ) {
        let mut left_out = Vec::new();
        let mut rest = document_error.without(document, &mut left_out);
        self.errors.push(document_error.at(place.clone()));
        for _ in 1..ERRORS_MAX {
            let Some(document) = rest.take() else {
                return;
            };
            let Err(document_error) = Object::decode(api_version, kind, &document) else {
                return;
            };
            let is_consequence = document_error.is_consequence_of(&left_out);
            rest = document_error.without(&document, &mut left_out);
            if !is_consequence {
                self.errors.push(document_error.at(place.clone()));
            }
        }
    }
}

/// Remedy for objects of older versions of Karpenter's API.
fn to_convert(api_version: &str) -> &'static str {
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let is_old = ["v1alpha1", "v1alpha5", "v1beta1"].contains(&version);
    match ["karpenter.sh", "karpenter.k8s.aws"].contains(&group) && is_old {
        true => ": `whittle convert -f <file>` makes v1 of it",
        false => "",
    }
}

/// Upper bound on reported errors of one object, each of which costs another parse.
const ERRORS_MAX: usize = 20;

/// An error in a document, before its location in the file is known.
#[derive(Clone)]
struct DocumentError {
    /// Line in the file.
    line: Option<usize>,
    field: Option<String>,
    message: String,
}

impl DocumentError {
    /// Whether the field is missing only because it, or a field within it, was removed.
    fn is_consequence_of(&self, left_out: &[String]) -> bool {
        let field = self.field.as_deref().unwrap_or_default();
        let is_in = |other: &String| {
            let rest = other.strip_prefix(field);
            rest.is_some_and(|rest| field.is_empty() || rest.starts_with(['.', '[']))
        };
        self.message.starts_with("missing field") && left_out.iter().any(is_in)
    }

    /// The document without the invalid field, if known, or without the list that contains it.
    fn without<'a>(
        &self,
        document: &Document<'a>,
        left_out: &mut Vec<String>,
    ) -> Option<Document<'a>> {
        let field = self.field.as_deref().filter(|field| !field.is_empty())?;
        // Removing the whole list keeps the numbers of other items.
        let field = match field.strip_suffix(']') {
            Some(item) => item.rsplit_once('[').map_or(item, |(list, _)| list),
            None => field,
        };
        let rest = document.without(field)?;
        left_out.push(field.to_owned());
        Some(rest)
    }

    fn at(self, place: SourceLocation) -> ManifestError {
        let line = self.line.unwrap_or(place.line);
        ManifestError {
            place: SourceLocation { line, ..place },
            field: self.field,
            message: self.message,
        }
    }
}

#[cfg(test)]
mod tests;
