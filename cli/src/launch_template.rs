//! Versions of launch templates, as `aws ec2 describe-launch-template-versions` prints them.

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) is_default: bool,
    /// Settings for instances.
    pub(crate) data: Value,
    pub(crate) user_data: Option<String>,
}

pub(crate) fn versions(file: &str, text: &str) -> Result<Vec<Version>> {
    let answer: Value =
        serde_json::from_str(text).with_context(|| format!("{file} is not JSON"))?;
    let versions = answer
        .get("LaunchTemplateVersions")
        .and_then(Value::as_array)
        .with_context(|| {
            format!("{file} holds no LaunchTemplateVersions: give what `aws ec2 describe-launch-template-versions` prints")
        })?;
    versions
        .iter()
        .map(|version| version_of(file, version))
        .collect()
}

fn version_of(file: &str, version: &Value) -> Result<Version> {
    let text = |field: &str| {
        let text = version.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let data = version
        .get("LaunchTemplateData")
        .cloned()
        .unwrap_or_default();
    let name = text("LaunchTemplateName");
    let number = version
        .get("VersionNumber")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let user_data = match data.get("UserData").and_then(Value::as_str) {
        None | Some("") => None,
        Some(encoded) => {
            let cannot = || {
                format!(
                    "{file}: UserData of launch template {name}, version {number}, cannot be decoded"
                )
            };
            let bytes = STANDARD.decode(encoded).with_context(cannot)?;
            Some(String::from_utf8(bytes).with_context(cannot)?)
        }
    };
    Ok(Version {
        id: text("LaunchTemplateId"),
        name,
        number,
        is_default: version.get("DefaultVersion") == Some(&Value::Bool(true)),
        data,
        user_data,
    })
}
