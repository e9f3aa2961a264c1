//! What in the cluster stands in the way of moving pods off their nodes: a finding, the objects, and a remedy (spec/migrate §5.3).

mod checks;
mod objects;

use std::{fmt::Write, path::PathBuf};

use anyhow::Result;
use serde_json::Value;

use self::objects::Objects;
use super::group::Group;

/// How many objects a finding names.
const NAMED_MAX: usize = 10;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) what: String,
    pub(super) objects: Vec<String>,
    pub(super) remedy: &'static str,
}

/// `None` without anything to look at.
pub(super) fn run(
    manifests: &[PathBuf],
    context: Option<&str>,
    groups: &[Group],
    pools: &[Value],
) -> Result<Option<Vec<Finding>>> {
    let objects = match context {
        Some(context) => Objects::of_cluster(context)?,
        None if manifests.is_empty() => return Ok(None),
        None => Objects::of_files(manifests)?,
    };
    Ok(Some(checks::all(&objects, groups, pools)))
}

pub(super) fn text(findings: Option<&[Finding]>) -> String {
    let mut text = String::from("\nPre-flight: ");
    match findings {
        None => text.push_str(
            "not made; give --manifests or --context to look for what stands in the way.\n",
        ),
        Some([]) => text.push_str("nothing stands in the way.\n"),
        Some(findings) => {
            let _ = writeln!(text, "{} found.", findings.len());
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
        }
    }
    text
}
