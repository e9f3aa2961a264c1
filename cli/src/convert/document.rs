//! Streams of YAML and JSON, document by document, each with the text it stood as.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::edit::Refusal;

/// One object.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Where it stands, for messages: file and number.
    pub(crate) place: String,
    /// Its text, where it was a document of its own.
    pub(crate) text: Option<String>,
    pub(crate) object: Value,
}

pub(crate) enum Source {
    Document(Document),
    Unreadable(Refusal),
}

/// The documents of files, of the files of folders by name, and of standard input (`-`).
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for file in files {
        let name = file.display().to_string();
        if name == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            sources.extend(documents("standard input", &text));
        } else if file.is_dir() {
            for file in manifests(file)? {
                sources.extend(one(&file)?);
            }
        } else {
            sources.extend(one(file)?);
        }
    }
    Ok(sources)
}

fn one(file: &Path) -> Result<Vec<Source>> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok(documents(&name, &text))
}

/// Files, and the files of folders by name.
pub(crate) fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in given {
        match file.is_dir() {
            true => files.extend(manifests(file)?),
            false => files.push(file.clone()),
        }
    }
    Ok(files)
}

fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Splits a stream. Documents without content are none.
pub(crate) fn documents(file: &str, text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for (number, part) in split(text).into_iter().enumerate() {
        let place = format!("{file}, document {}", number + 1);
        match serde_saphyr::from_str::<Value>(&part) {
            Ok(Value::Null) => {}
            Ok(object) => sources.extend(items(&place, part, object)),
            Err(error) => sources.push(Source::Unreadable(Refusal {
                object: place,
                field: String::new(),
                value: String::new(),
                remedy: match api::manifests::is_template(&part) {
                    true => api::manifests::TEMPLATE.to_owned(),
                    false => format!("it cannot be read: {error}"),
                },
            })),
        }
    }
    sources
}

fn items(place: &str, text: String, object: Value) -> Vec<Source> {
    let is_list = object.get("kind").and_then(Value::as_str) == Some("List");
    let items = object.get("items").and_then(Value::as_array);
    let (true, Some(items)) = (is_list, items) else {
        return vec![Source::Document(Document {
            place: place.to_owned(),
            text: Some(text),
            object,
        })];
    };
    let item = |(number, object): (usize, &Value)| {
        Source::Document(Document {
            place: format!("{place}, item {}", number + 1),
            text: None,
            object: object.clone(),
        })
    };
    items.iter().enumerate().map(item).collect()
}

/// The parts between document markers, as they stand.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let marker = line.trim_end();
        if marker == "---" || marker.starts_with("--- #") {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
        }
    }
    parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .map(|mut part| {
            if !part.ends_with('\n') {
                part.push('\n');
            }
            part
        })
        .collect()
}
