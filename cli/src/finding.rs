//! Findings: a description, the affected objects and a remedy.

use std::fmt::Write;

use serde::Serialize;

use crate::output::Row;

/// Upper bound on the objects that a finding names; the rest are counted, so that a finding fits on a screen.
const NAMED_MAX: usize = 10;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    #[serde(rename = "finding")]
    pub(crate) what: String,
    pub(crate) objects: Vec<String>,
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn new(what: &str, objects: Vec<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            objects,
            remedy: remedy.into(),
        }
    }
}

impl Row for Finding {
    const HEADERS: &'static [&'static str] = &["OBJECTS", "FINDING", "FIRST OBJECT", "REMEDY"];
    const NARROW: usize = 3;

    fn cells(&self) -> Vec<String> {
        vec![
            self.objects.len().to_string(),
            self.what.clone(),
            self.objects.first().cloned().unwrap_or_default(),
            self.remedy.clone(),
        ]
    }

    fn name(&self) -> String {
        self.what.clone()
    }
}

/// The findings with objects: a check without objects has found nothing.
pub(crate) fn found(checks: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    let checks = checks.into_iter();
    checks.filter(|check| !check.objects.is_empty()).collect()
}

/// Renders the findings, one paragraph each.
pub(crate) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "- {}:", finding.what);
        for object in finding.objects.iter().take(NAMED_MAX) {
            let _ = writeln!(text, "    {object}");
        }
        if let Some(more @ 1..) = finding.objects.len().checked_sub(NAMED_MAX) {
            let _ = writeln!(text, "    and {more} more");
        }
        let _ = writeln!(text, "  remedy: {}", finding.remedy);
    }
    text
}
