//! Outcome of a conversion: the converted documents, changes, warnings and refusals, printed as text or JSON.

use std::io::Write;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;

use super::edit::{self, Edit, Refusal};

use crate::exit::Exit;

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Report {
    Text,
    Json,
}

/// The converted documents, in their order.
#[derive(Default)]
pub(crate) struct Outcome {
    text: String,
    changes: Vec<(String, String)>,
    warnings: Vec<(String, String)>,
    refusals: Vec<Refusal>,
}

impl Outcome {
    pub(crate) fn refuse(&mut self, refusals: impl IntoIterator<Item = Refusal>) {
        self.refusals.extend(refusals);
    }

    /// Adds a warning about an object that is not printed.
    pub(crate) fn warn(&mut self, object: String, text: String) {
        self.warnings.push((object, text));
    }

    /// Adds a document to the output, unless a part of it is refused.
    pub(crate) fn add(&mut self, edit: Edit) {
        if !edit.refusals.is_empty() {
            self.refuse(edit.refusals);
            return;
        }
        let name = edit.name();
        for (field, comments) in &edit.comments {
            let lines = comments.iter().map(|comment| match field.is_empty() {
                true => comment.clone(),
                false => format!("{}: {comment}", edit::shown(field)),
            });
            self.changes.extend(lines.map(|text| (name.clone(), text)));
        }
        let warnings = edit.warnings.iter();
        self.warnings
            .extend(warnings.map(|text| (name.clone(), text.clone())));
        if edit.is_left_out {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("---\n");
        }
        self.text.push_str(&edit.text());
    }

    /// The text of the output.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Writes the output to standard output and the report to standard error.
    pub(crate) fn deliver(&self, report: Report) -> Result<Exit> {
        std::io::stdout().lock().write_all(self.text.as_bytes())?;
        match report {
            Report::Text => self.print_report(),
            Report::Json => self.print_json()?,
        }
        Ok(match self.refusals.is_empty() {
            true => Exit::Done,
            false => Exit::Refused,
        })
    }

    fn print_report(&self) {
        for (name, text) in &self.changes {
            eprintln!("{name}: {text}");
        }
        for (name, text) in &self.warnings {
            eprintln!("{name}: warning: {text}");
        }
        for refusal in &self.refusals {
            eprintln!("whittle: {refusal}");
        }
    }

    fn print_json(&self) -> Result<()> {
        let list = |texts: &[(String, String)]| -> Vec<_> {
            let entry = |(name, text): &(String, String)| json!({"object": name, "text": text});
            texts.iter().map(entry).collect()
        };
        let refusals: Vec<_> = self
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
            "changes": list(&self.changes), "warnings": list(&self.warnings),
            "refusals": refusals,
        });
        eprintln!("{}", serde_json::to_string_pretty(&report)?);
        Ok(())
    }
}
