//! Splits text into documents, and parses documents with the lines of errors.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_saphyr::{MessageFormatter, Options, UserMessageFormatter};

use super::DocumentError;
use super::line_json::LineJson;
use super::object::TypeMeta;
use super::tree::{Node, Tree};

/// A document of a file, or an item of a list.
pub(super) struct Document<'a> {
    /// Number in the file or list, from 1.
    pub(super) number: usize,
    /// First line of the document in the file.
    pub(super) line: usize,
    content: Content<'a>,
}

enum Content<'a> {
    Yaml(Tree),
    Json(&'a str),
    /// Invalid YAML.
    Broken(DocumentError),
}

/// The non-empty documents of a file.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    json_documents(text).unwrap_or_else(|| yaml_documents(text))
}

/// The values of a JSON file, which may contain several in sequence. `None` if it is not JSON.
fn json_documents(text: &str) -> Option<Vec<Document<'_>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let values: Result<Vec<_>, _> = values.collect();
    Some(json_items(text, 1, values.ok()?))
}

/// Documents for values that are slices of `text`, which begins on `first_line`.
fn json_items<'a>(
    text: &'a str,
    first_line: usize,
    values: Vec<&'a RawValue>,
) -> Vec<Document<'a>> {
    let (mut line, mut offset) = (first_line, 0);
    let place = |(index, raw): (usize, &'a RawValue)| {
        let start = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        line += count_lines(text.get(offset..start).unwrap_or_default());
        offset = start;
        Document {
            number: index + 1,
            line,
            content: Content::Json(raw.get()),
        }
    };
    values.into_iter().enumerate().map(place).collect()
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Splits at lines that begin with `---`. YAML does not allow such lines within a document, not even in block scalars.
fn yaml_documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut begin, mut first_line, mut offset) = (0, 1, 0);
    let mut add = |begin: usize, end: usize, line: usize| {
        let content = text.get(begin..end).unwrap_or_default();
        if has_content(content) {
            documents.push(Document::yaml(documents.len() + 1, line, content));
        }
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if let Some(rest) = line.strip_prefix("---")
            && rest.chars().next().is_none_or(char::is_whitespace)
        {
            add(begin, offset, first_line);
            // Text after the marker belongs to the document that begins here.
            begin = offset + 3;
            first_line = index + 1;
        }
        offset += line.len();
    }
    add(begin, text.len(), first_line);
    documents
}

/// Whether the text contains more than comments, directives and end markers.
fn has_content(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with(['#', '%']) && line != "..."
    })
}

impl<'a> Document<'a> {
    fn yaml(number: usize, line: usize, text: &str) -> Self {
        let content = match serde_saphyr::from_str_with_options(text, yaml_options()) {
            Ok(tree) => Content::Yaml(tree),
            Err(error) => Content::Broken(DocumentError {
                line: error
                    .location()
                    .and_then(|location| usize::try_from(location.line()).ok()),
                field: None,
                message: match super::is_helm_template(text) {
                    true => super::HELM_TEMPLATE_REMEDY.to_owned(),
                    false => UserMessageFormatter
                        .format_message(error.without_snippet())
                        .into_owned(),
                },
            }),
        };
        Self {
            number,
            line,
            content,
        }
    }

    /// The object's type; `None` if the document is empty.
    pub(super) fn types(&self) -> Result<Option<TypeMeta>, DocumentError> {
        match &self.content {
            Content::Yaml(tree) if tree.is_null() => Ok(None),
            Content::Yaml(tree) => {
                let text = |name| match &tree.get(name)?.node {
                    Node::Scalar(Value::String(text)) => Some(text.clone()),
                    Node::Scalar(_) | Node::Seq(_) | Node::Map(_) => None,
                };
                Ok(Some(TypeMeta {
                    api_version: text("apiVersion"),
                    kind: text("kind"),
                }))
            }
            Content::Json(text) => match serde_json::from_str(text) {
                Ok(types) => Ok(Some(types)),
                Err(error) => Err(self.json_fault(&error)),
            },
            Content::Broken(document_error) => Err(self.placed(document_error.clone())),
        }
    }

    /// Deserializes the document as a `T`.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        match &self.content {
            Content::Yaml(tree) => {
                let line_json = LineJson::new(tree);
                serde_json::from_slice(line_json.json().as_bytes()).map_err(|error| {
                    let field = line_json.field_of(&error);
                    self.placed(DocumentError {
                        line: field.map(|field| field.line),
                        field: field.map(|field| field.path.clone()),
                        message: json_message(&error),
                    })
                })
            }
            Content::Json(text) => {
                serde_json::from_slice(text.as_bytes()).map_err(|error| DocumentError {
                    field: field_in::<T>(text),
                    ..self.json_fault(&error)
                })
            }
            Content::Broken(document_error) => Err(self.placed(document_error.clone())),
        }
    }

    /// The document without a field such as `spec.requirements[0].key`; `None` if it has no such field.
    pub(super) fn without(&self, field: &str) -> Option<Document<'a>> {
        let Content::Yaml(tree) = &self.content else {
            return None;
        };
        let mut tree = tree.clone();
        tree.remove(field).then_some(Document {
            number: self.number,
            line: self.line,
            content: Content::Yaml(tree),
        })
    }

    /// The document as a JSON value.
    pub(super) fn value(&self) -> Option<Value> {
        match &self.content {
            Content::Yaml(tree) => serde_json::from_str(LineJson::new(tree).json()).ok(),
            Content::Json(text) => serde_json::from_str(text).ok(),
            Content::Broken(_) => None,
        }
    }

    /// The items of a list.
    pub(super) fn items(self) -> Result<Vec<Document<'a>>, DocumentError> {
        #[derive(Deserialize)]
        struct Items<'a> {
            #[serde(borrow)]
            items: Option<Vec<&'a RawValue>>,
        }
        let no_list = || DocumentError {
            line: None,
            field: Some("items".to_owned()),
            message: "expected a list".to_owned(),
        };
        match self.content {
            Content::Json(text) => {
                let list: Items<'a> = serde_json::from_str(text).map_err(|_| no_list())?;
                Ok(json_items(text, self.line, list.items.unwrap_or_default()))
            }
            Content::Yaml(tree) => match tree.take("items").map(|items| items.node) {
                None | Some(Node::Scalar(Value::Null)) => Ok(Vec::new()),
                Some(Node::Seq(items)) => {
                    let document = |(index, item)| Document {
                        number: index + 1,
                        line: self.line,
                        content: Content::Yaml(item),
                    };
                    Ok(items.into_iter().enumerate().map(document).collect())
                }
                Some(Node::Scalar(_) | Node::Map(_)) => Err(no_list()),
            },
            Content::Broken(document_error) => Err(document_error),
        }
    }

    /// First line of the content in the file.
    pub(super) fn first_line(&self) -> usize {
        match &self.content {
            Content::Yaml(tree) => self.line + tree.line - 1,
            Content::Json(_) | Content::Broken(_) => self.line,
        }
    }

    /// Converts a line of the document to a line of the file.
    fn placed(&self, document_error: DocumentError) -> DocumentError {
        DocumentError {
            line: document_error
                .line
                .map(|line| self.line + line.saturating_sub(1)),
            ..document_error
        }
    }

    fn json_fault(&self, error: &serde_json::Error) -> DocumentError {
        self.placed(DocumentError {
            line: Some(error.line()),
            field: None,
            message: json_message(error),
        })
    }
}

/// The field that cannot be deserialized as part of a `T`.
fn field_in<T: DeserializeOwned>(text: &str) -> Option<String> {
    let line_json = LineJson::new(&Tree::from_value(serde_json::from_str(text).ok()?));
    let error = serde_json::from_slice::<T>(line_json.json().as_bytes()).err()?;
    line_json.field_of(&error).map(|field| field.path.clone())
}

/// Upper bound on values and names in one document. A running pod from `kubectl get -o yaml` has about 300, and a list
/// may contain the 50,000 pods of the largest supported cluster.
const YAML_NODES_MAX: usize = 20_000_000;
/// Upper bound on the bytes of text in a list of that size: 1 GiB, 20 KiB for each of 50,000 pods.
const YAML_BYTES_MAX: usize = 1 << 30;

fn yaml_options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: YAML_NODES_MAX,
            max_nodes: YAML_NODES_MAX,
            max_total_scalar_bytes: YAML_BYTES_MAX,
        },
    }
}

/// The error message without the position, which is reported separately.
fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.strip_suffix(&format!(
        " at line {} column {}",
        error.line(),
        error.column()
    )) {
        Some(message) => message.to_owned(),
        None => text,
    }
}
