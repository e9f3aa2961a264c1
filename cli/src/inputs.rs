//! Commands that parse foreign input, without the files around it: for fuzz targets, and for tests that replay their findings. No function
//! here touches the machine.

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Parser;
use model::Snapshot;
use ports::JournalEntry;
use serde_json::{Value, json};
use turns::Report;

use crate::{conformance, convert, import, journal::rendering, kops};

/// Whether a command accepts these arguments, written as in a shell.
pub fn arguments(line: &str) -> bool {
    let words = shlex::split(line).unwrap_or_default();
    crate::Arguments::try_parse_from(words).is_ok()
}

/// Output of `whittle convert` for manifests.
pub fn converted(manifests: &str) -> String {
    convert::printed(convert::document::documents("input", manifests)).into_text()
}

/// Output of `whittle kops convert`.
pub fn kops(groups: &str) -> Result<String> {
    let sources = convert::document::documents("input", groups);
    let printed = kops::printed(sources, "#!/bin/bash\nnodeup --v=2\n")?;
    Ok(printed.into_text())
}

/// Output of `whittle import asg` for groups and versions of their launch templates, and the steps of the migration.
pub fn auto_scaling_groups(groups: &str, templates: Option<&str>) -> Result<(String, String)> {
    import::printed(import::Of::Asg, groups, templates)
}

/// Output of `whittle import mng`, as [`auto_scaling_groups`].
pub fn node_groups(groups: &str, templates: Option<&str>) -> Result<(String, String)> {
    import::printed(import::Of::Mng, groups, templates)
}

/// Output of `whittle import asg` for a group whose launch template has this user data.
pub fn user_data(text: &str) -> Result<(String, String)> {
    let groups = json!({"AutoScalingGroups": [{
        "AutoScalingGroupName": "web", "MaxSize": 1, "VPCZoneIdentifier": "subnet-1",
        "LaunchTemplate": {"LaunchTemplateName": "web", "Version": "1"},
    }]});
    let templates = json!({"LaunchTemplateVersions": [{
        "LaunchTemplateName": "web", "LaunchTemplateId": "lt-1", "VersionNumber": 1,
        "LaunchTemplateData": {
            "ImageId": "ami-12345678", "SecurityGroupIds": ["sg-1"], "UserData": STANDARD.encode(text),
        },
    }]});
    auto_scaling_groups(&groups.to_string(), Some(&templates.to_string()))
}

/// Output of `whittle import nth` for a chart's values.
pub fn termination_handler(values: &str) -> Result<Value> {
    import::nth::convert(values, None)?.entry()
}

/// Output of `whittle journal` for a line of an exported journal, as a list entry and in full.
pub fn record(line: &str) -> Result<(String, String)> {
    let entry: JournalEntry = serde_json::from_str(line).context("no record")?;
    let report = Report::read(&entry)?;
    Ok((rendering::short(&report), rendering::whole(&report)))
}

/// The cluster of a case of `whittle conformance`.
pub fn case(line: &str) -> Result<Snapshot> {
    conformance::cluster(line)
}
