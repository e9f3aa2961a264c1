//! Text to documents, and documents to values, with the lines of mistakes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_path_to_error::Track;
use serde_saphyr::{Location, MessageFormatter, Options, Spanned, UserMessageFormatter};

use super::Fault;

/// One document of a file, or one item of a list in one.
pub(super) struct Document<'a> {
    /// From 1, in its file or list.
    pub(super) number: usize,
    /// Line of the file on which it begins.
    pub(super) line: usize,
    content: Content<'a>,
}

enum Content<'a> {
    Yaml(&'a str),
    Json(&'a str),
    /// An item of a YAML list, whose own text is not at hand.
    Value(serde_json::Value),
}

/// The documents of a file that hold anything.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    json_documents(text).unwrap_or_else(|| yaml_documents(text))
}

/// The values of a JSON file, of which there may be many one behind the other. `None` if it is none.
fn json_documents(text: &str) -> Option<Vec<Document<'_>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let values: Result<Vec<_>, _> = values.collect();
    Some(json_items(text, 1, values.ok()?))
}

/// Documents for values that are parts of `text`, which begins on `first_line`.
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

/// Splits at lines that begin with `---`. YAML allows these nowhere inside a document, not even in a block of text.
fn yaml_documents(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut begin, mut first_line, mut offset) = (0, 1, 0);
    let mut add = |begin: usize, end: usize, line: usize| {
        let content = text.get(begin..end).unwrap_or_default();
        if has_content(content) {
            documents.push(Document {
                number: documents.len() + 1,
                line,
                content: Content::Yaml(content),
            });
        }
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if let Some(rest) = line.strip_prefix("---")
            && rest.chars().next().is_none_or(char::is_whitespace)
        {
            add(begin, offset, first_line);
            // What stands behind the marker belongs to the document that begins here.
            begin = offset + 3;
            first_line = index + 1;
        }
        offset += line.len();
    }
    add(begin, text.len(), first_line);
    documents
}

/// Whether there is more than comments, directives and end markers.
fn has_content(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with(['#', '%']) && line != "..."
    })
}

impl<'a> Document<'a> {
    /// Reads the document as a `T`.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        self.read_with(&mut |_| ())
    }

    /// Reads the document as a `T`, and tells which fields a `T` does not have.
    pub(super) fn read_object<T: DeserializeOwned>(&self) -> Result<(T, Vec<String>), Fault> {
        let mut unknown = Vec::new();
        let object = self.read_with(&mut |path| {
            // Types of objects leave out apiVersion, kind and most metadata by intention.
            if !matches!(
                path.split(['.', '[']).next(),
                Some("apiVersion" | "kind" | "metadata")
            ) {
                unknown.push(path);
            }
        })?;
        Ok((object, unknown))
    }

    fn read_with<T: DeserializeOwned>(&self, unknown: &mut dyn FnMut(String)) -> Result<T, Fault> {
        let mut track = Track::new();
        let (line, message) = match &self.content {
            Content::Yaml(text) => {
                let read = serde_saphyr::with_deserializer_from_str_with_options(
                    text,
                    yaml_options(),
                    |deserializer| tracked(deserializer, &mut track, unknown),
                );
                match read {
                    Ok(value) => return Ok(value),
                    Err(error) => (
                        error.location().as_ref().and_then(line_of),
                        yaml_message(&error),
                    ),
                }
            }
            Content::Json(text) => {
                let mut deserializer = serde_json::Deserializer::from_str(text);
                match tracked(&mut deserializer, &mut track, unknown) {
                    Ok(value) => return Ok(value),
                    Err(error) => (Some(error.line()), json_message(&error)),
                }
            }
            Content::Value(value) => match tracked(value, &mut track, unknown) {
                Ok(value) => return Ok(value),
                Err(error) => (None, json_message(&error)),
            },
        };
        let path = track.path().to_string();
        Err(Fault {
            line: line.map(|line| self.line + line.saturating_sub(1)),
            field: (path != ".").then_some(path),
            message,
        })
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Vec<Document<'a>>, Fault> {
        #[derive(Deserialize)]
        struct Items<T> {
            items: Option<Vec<T>>,
        }
        match &self.content {
            Content::Json(text) => {
                let text: &'a str = text;
                let list: Result<Items<&'a RawValue>, _> = serde_json::from_str(text);
                let list = list.map_err(|error| Fault {
                    line: Some(self.line + error.line().saturating_sub(1)),
                    field: Some("items".to_owned()),
                    message: json_message(&error),
                })?;
                Ok(json_items(text, self.line, list.items.unwrap_or_default()))
            }
            Content::Yaml(_) => {
                let list: Items<Spanned<serde_json::Value>> = self.read()?;
                let items = list.items.unwrap_or_default().into_iter().enumerate();
                Ok(items
                    .map(|(index, item)| Document {
                        number: index + 1,
                        line: self.line + line_of(&item.referenced).unwrap_or(1).saturating_sub(1),
                        content: Content::Value(item.value),
                    })
                    .collect())
            }
            Content::Value(_) => Err(Fault {
                line: None,
                field: None,
                message: "a list inside a list: expected objects".to_owned(),
            }),
        }
    }
}

/// Reads a value, keeping track of where it is and calling `unknown` with the path of each field that is skipped.
fn tracked<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    track: &mut Track,
    unknown: &mut dyn FnMut(String),
) -> Result<T, D::Error> {
    let mut skipped = |path: serde_ignored::Path<'_>| unknown(path_text(&path));
    let deserializer = serde_path_to_error::Deserializer::new(deserializer, track);
    T::deserialize(serde_ignored::Deserializer::new(deserializer, &mut skipped))
}

/// `spec.requirements[0].key`.
fn path_text(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", path_text(parent)),
        Path::Map { parent, key } => match path_text(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => path_text(parent),
    }
}

fn line_of(location: &Location) -> Option<usize> {
    usize::try_from(location.line())
        .ok()
        .filter(|line| *line > 0)
}

/// Values and names in one document. A running pod as `kubectl get -o yaml` writes it has about 300, and a list may hold the
/// 50,000 of the largest cluster planned for.
const YAML_NODES_MAX: usize = 20_000_000;
/// Bytes of text in such a list.
const YAML_BYTES_MAX: usize = 1 << 30;

fn yaml_options() -> Options {
    serde_saphyr::options! {
        // As kubectl: `team: 1` is a number, and no label.
        no_schema: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: YAML_NODES_MAX,
            max_nodes: YAML_NODES_MAX,
            max_total_scalar_bytes: YAML_BYTES_MAX,
        },
    }
}

/// The message without the place, which is told in another way.
fn yaml_message(error: &serde_saphyr::Error) -> String {
    if let serde_saphyr::Error::QuotingRequired { value, .. } = error.without_snippet() {
        return format!("{value} is not text: put it in quotes");
    }
    UserMessageFormatter
        .format_message(error.without_snippet())
        .into_owned()
}

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
