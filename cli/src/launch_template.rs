//! Versions of launch templates, as `aws ec2 describe-launch-template-versions` prints them.

use std::io::Read;

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::aws_output;

/// Upper bound on decompressed user data, in bytes; EC2 takes 16 KiB before that.
const USER_DATA_MAX: u64 = 1 << 18;

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
    let mut read = Vec::new();
    for answer in aws_output::documents(file, text)? {
        let versions = answer
            .get("LaunchTemplateVersions")
            .and_then(Value::as_array)
            .with_context(|| {
                format!("{file} holds no LaunchTemplateVersions: give what `aws ec2 describe-launch-template-versions` prints")
            })?;
        for version in versions {
            read.push(version_of(file, version)?);
        }
    }
    Ok(read)
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
            Some(plain_text(&bytes).with_context(cannot)?)
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

/// User data as text. eksctl and Terraform's cloudinit_config compress theirs.
fn plain_text(bytes: &[u8]) -> Result<String> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    if !bytes.starts_with(&GZIP) {
        return Ok(String::from_utf8(bytes.to_vec())?);
    }
    let mut text = String::new();
    let length = GzDecoder::new(bytes)
        .take(USER_DATA_MAX + 1)
        .read_to_string(&mut text)?;
    if u64::try_from(length)? > USER_DATA_MAX {
        bail!("it has more than {USER_DATA_MAX} bytes");
    }
    Ok(text)
}
