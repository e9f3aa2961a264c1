//! What others write and commands read, without the files that it stands in: for fuzz targets, and tests that replay what those
//! found. Nothing here touches the machine.

use anyhow::{Context, Result};
use clap::Parser;
use model::Snapshot;
use ports::JournalEntry;
use serde_json::Value;
use turns::Report;

use crate::{conformance, convert, import, journal::told, kops};

/// Whether a command takes these arguments, spelled as in a shell.
pub fn arguments(line: &str) -> bool {
    let words = shlex::split(line).unwrap_or_default();
    crate::Arguments::try_parse_from(words).is_ok()
}

/// What `whittle convert` prints for manifests.
pub fn converted(manifests: &str) -> String {
    convert::printed(convert::document::documents("input", manifests)).into_text()
}

/// What `whittle kops convert` prints.
pub fn kops(groups: &str) -> Result<String> {
    let sources = convert::document::documents("input", groups);
    let printed = kops::printed(sources, "#!/bin/bash\nnodeup --v=2\n")?;
    Ok(printed.into_text())
}

/// What `whittle import asg` prints for groups and versions of their launch templates, and the steps it tells.
pub fn auto_scaling_groups(groups: &str, templates: Option<&str>) -> Result<(String, String)> {
    import::printed(import::Of::Asg, groups, templates)
}

/// The same of `whittle import mng`.
pub fn node_groups(groups: &str, templates: Option<&str>) -> Result<(String, String)> {
    import::printed(import::Of::Mng, groups, templates)
}

/// What `whittle import nth` prints for a chart's values.
pub fn termination_handler(values: &str) -> Result<Value> {
    import::nth::convert(values, None)?.entry()
}

/// What `whittle journal` prints for a line of an exported journal, in a list and by itself.
pub fn record(line: &str) -> Result<(String, String)> {
    let entry: JournalEntry = serde_json::from_str(line).context("no record")?;
    let report = Report::read(&entry)?;
    Ok((told::short(&report), told::whole(&report)))
}

/// The cluster that `whittle conformance` decides for.
pub fn case(line: &str) -> Result<Snapshot> {
    conformance::cluster(line)
}
