//! `whittle convert`: manifests of Karpenter's v1beta1 API as v1, with a comment above everything that changed.
//!
//! Files go in and text comes out: no cluster and no AWS is asked. A document that cannot be converted with its meaning kept
//! is refused by name, field and remedy, and the others are still converted.

mod admission;
mod document;
mod edit;
mod kubelet;
mod leftovers;
mod names;
mod node_class;
mod node_pool;
mod unknown;
mod workload;
mod yaml;

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use self::{
    document::{Document, Source},
    edit::{Edit, Refusal},
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Manifests, or folders of them; `-` reads standard input.
    #[arg(short = 'f', long = "filename", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Make fields that no version has a comment, instead of refusing their document.
    #[arg(long)]
    allow_unknown: bool,
    /// How to tell what was changed and refused, on standard error.
    #[arg(long, value_enum, default_value_t = Report::Text)]
    report: Report,
}

#[derive(Clone, Copy, ValueEnum)]
enum Report {
    Text,
    Json,
}

/// What becomes of the documents, in their order.
struct Converted {
    text: String,
    changes: Vec<(String, String)>,
    warnings: Vec<(String, String)>,
    refusals: Vec<Refusal>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sources = document::read(&arguments.files)?;
    let converted = convert(sources, arguments.allow_unknown);
    std::io::stdout()
        .lock()
        .write_all(converted.text.as_bytes())?;
    match arguments.report {
        Report::Text => tell(&converted),
        Report::Json => tell_json(&converted)?,
    }
    Ok(match converted.refusals.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The same input gives the same text, whatever order documents that refer to each other stand in.
fn convert(sources: Vec<Source>, allow_unknown: bool) -> Converted {
    let mut refusals = Vec::new();
    let mut edits: Vec<Edit> = Vec::new();
    for source in sources {
        match source {
            Source::Document(document) => edits.push(first_pass(document, allow_unknown)),
            Source::Unreadable(refusal) => refusals.push(refusal),
        }
    }
    kubelet::move_to_classes(&mut edits);
    for edit in edits.iter_mut().filter(|edit| edit.is_changed()) {
        admission::check(edit);
    }
    let mut converted = Converted {
        text: String::new(),
        changes: Vec::new(),
        warnings: Vec::new(),
        refusals,
    };
    for edit in edits {
        if !edit.refusals.is_empty() {
            converted.refusals.extend(edit.refusals);
            continue;
        }
        let name = edit.name();
        for (field, comments) in &edit.comments {
            let told = comments.iter().map(|comment| match field.is_empty() {
                true => comment.clone(),
                false => format!("{}: {comment}", edit::shown(field)),
            });
            converted
                .changes
                .extend(told.map(|text| (name.clone(), text)));
        }
        let warnings = edit.warnings.iter();
        converted
            .warnings
            .extend(warnings.map(|text| (name.clone(), text.clone())));
        if !converted.text.is_empty() {
            converted.text.push_str("---\n");
        }
        converted.text.push_str(&edit.text());
    }
    converted
}

/// What a document alone says about what becomes of it.
fn first_pass(document: Document, allow_unknown: bool) -> Edit {
    let mut edit = Edit::new(document);
    let (version, kind) = edit.type_of();
    match (version.as_str(), kind.as_str()) {
        (names::NODE_POOL_V1BETA1, "NodePool") => node_pool::convert(&mut edit, allow_unknown),
        (names::NODE_CLASS_V1BETA1, "EC2NodeClass") => node_class::convert(&mut edit, allow_unknown),
        (names::NODE_POOL_V1BETA1, "NodeClaim") => edit.refuse(
            "kind",
            "NodeClaim",
            "NodeClaims are made by machine: leave them out, their NodePool makes new ones",
        ),
        (names::PROVISIONER_V1ALPHA5, _) | (names::NODE_TEMPLATE_V1ALPHA1, _) => edit.refuse(
            "apiVersion",
            &version,
            "expected v1beta1 or v1: write it as v1beta1 first, as Karpenter's v1beta1 migration guide says",
        ),
        (names::NODE_POOL_V1, "NodePool") | (names::NODE_CLASS_V1, "EC2NodeClass") => {
            leftovers::clean(&mut edit);
        }
        _ => workload::convert(&mut edit),
    }
    edit
}

fn tell(converted: &Converted) {
    for (name, text) in &converted.changes {
        eprintln!("{name}: {text}");
    }
    for (name, text) in &converted.warnings {
        eprintln!("{name}: warning: {text}");
    }
    for refusal in &converted.refusals {
        eprintln!("whittle: {refusal}");
    }
}

fn tell_json(converted: &Converted) -> Result<()> {
    let list = |texts: &[(String, String)]| -> Vec<_> {
        let one = |(name, text): &(String, String)| json!({"object": name, "text": text});
        texts.iter().map(one).collect()
    };
    let refusals: Vec<_> = converted
        .refusals
        .iter()
        .map(|refusal| {
            json!({
                "object": refusal.object, "field": refusal.field, "value": refusal.value,
                "text": refusal.remedy,
            })
        })
        .collect();
    let report = json!({
        "changes": list(&converted.changes), "warnings": list(&converted.warnings),
        "refusals": refusals,
    });
    eprintln!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
