//! Streams of YAML and JSON, document by document, each with its source text.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{edit::Refusal, list};

/// One object.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Position for messages: file and number.
    pub(crate) place: String,
    /// Source text, where the object was a document or lines of its own.
    pub(crate) text: Option<String>,
    /// The object was an item of a list with comments that cannot be attributed to an item.
    pub(crate) loses_comments: bool,
    pub(crate) object: Value,
}

pub(crate) enum Source {
    Document(Document),
    Unreadable(Refusal),
}

/// Reads the documents of files, of manifests in folders in the order of their paths, and of standard input (`-`).
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
                sources.extend(read_file(&file)?);
            }
        } else {
            sources.extend(read_file(file)?);
        }
    }
    Ok(sources)
}

fn read_file(file: &Path) -> Result<Vec<Source>> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok(documents(&name, &text))
}

/// Files, and the manifests in folders in the order of their paths.
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

/// The manifests in a folder and its subfolders. Hidden folders such as `.git` are skipped, and links to folders are not followed: they may
/// form a cycle.
fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let path = entry.path();
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let extension = path.extension().and_then(|extension| extension.to_str());
            if entry.file_type().with_context(cannot)?.is_dir() {
                folders.extend((!is_hidden).then_some(path));
            } else if matches!(extension, Some("yaml" | "yml" | "json")) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Splits a stream into documents. Documents without content are dropped.
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
                remedy: match template_remedy(&part, &error) {
                    Some(remedy) => remedy,
                    None => format!("it cannot be read: {error}"),
                },
            })),
        }
    }
    sources
}

/// Remedy for a text that only becomes manifests; `None` for others.
fn template_remedy(text: &str, error: &serde_saphyr::Error) -> Option<String> {
    if api::manifests::is_helm_template(text) {
        return Some(api::manifests::HELM_TEMPLATE_REMEDY.to_owned());
    }
    // User data may have such references, too, so the error is shown.
    let is_of_terraform = text.contains("%{") || text.contains("${");
    is_of_terraform.then(|| {
        format!(
            "if it is a template of Terraform, render it first, with `echo 'templatefile(\"<file>\", {{<variables>}})' | terraform \
             console`, and give what that prints; else it cannot be read: {error}"
        )
    })
}

fn items(place: &str, text: String, object: Value) -> Vec<Source> {
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let items = object.get("items").and_then(Value::as_array);
    // A list of one kind, such as NodePoolList: its items may lack the type that it implies.
    let item_kind = kind.strip_suffix("List");
    let (Some(item_kind), Some(items)) = (item_kind, items) else {
        return vec![Source::Document(Document {
            place: place.to_owned(),
            text: Some(text),
            loses_comments: false,
            object,
        })];
    };
    let has_comments = list::has_comments(&text);
    let texts = list::texts(&text, items);
    let version = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let item = |(number, (object, text)): (usize, (&Value, Option<String>))| {
        let mut object = object.clone();
        let mut text = text;
        if let Some(fields) = object.as_object_mut()
            && !item_kind.is_empty()
            && !fields.contains_key("kind")
            && !fields.contains_key("apiVersion")
        {
            fields.insert("apiVersion".to_owned(), version.into());
            fields.insert("kind".to_owned(), item_kind.into());
            text = text.map(|text| format!("apiVersion: {version}\nkind: {item_kind}\n{text}"));
        }
        Source::Document(Document {
            place: format!("{place}, item {}", number + 1),
            loses_comments: text.is_none() && has_comments,
            text,
            object,
        })
    };
    items.iter().zip(texts).enumerate().map(item).collect()
}

/// The parts between document markers, verbatim.
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
