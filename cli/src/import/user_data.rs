//! User data: the image family it is written for, and its settings for nodes that are set elsewhere now.

use aws_rules::user_data::mime::{self, Part};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::{bootstrap, bottlerocket, group::Group, kubelet::USER_DATA, node_config, shell};

const WINDOWS_BOOTSTRAP: &str = "Start-EKSBootstrap.ps1";
/// Content type of scripts that cloud-init runs early in every boot.
const BOOTHOOK: &str = "text/cloud-boothook";
/// Upper bound of EC2 on user data, in bytes.
const USER_DATA_MAX: usize = 16_384;
/// Folder of the files by which eksctl configures kubelets, and of its scripts that start them.
const OF_EKSCTL: &str = "/eksctl/";

/// Detects the family of an image that is named by id, and moves settings of nodes from user data into fields: a call of the bootstrap
/// script would run twice, and labels and taints that NodePools do not know would keep pods off their nodes.
pub(super) fn read(group: &mut Group, text: &str, has_family: bool) {
    let is_archive = mime::is_archive(text);
    let text = &match is_archive {
        true => with_separators(text),
        false => text.to_owned(),
    };
    let parts = match is_archive {
        true => decoded_parts(group, text),
        false => vec![(Format::of(text, None), Part::new("", text.as_str()))],
    };
    let family = family(&parts);
    if !has_family {
        set_family(group, family, text);
    }
    let mut rest = Vec::new();
    let mut is_changed = false;
    let has_parts = parts.len() > 1;
    for (number, (format, part)) in parts.into_iter().enumerate() {
        let known = group.refusals.len();
        let content = without_settings(group, format, part.content.clone());
        // Lines are counted in the part.
        for (.., remedy) in group.refusals.iter_mut().skip(known).filter(|_| has_parts) {
            *remedy = format!("part {}: {remedy}", number + 1);
        }
        is_changed |= content != part.content;
        if !["", "#!/bin/bash"].contains(&content.trim()) {
            rest.push((format, Part { content, ..part }));
        }
    }
    let is_custom = group.class.get("amiFamily") == Some(&"Custom".into());
    let rest = match rest.as_slice() {
        [] => return,
        // The nodes of other families get plain text as a script, which runs late and once.
        [(_, only)] if !is_archive && is_boothook(only) && !is_custom => {
            mime::write(&[Part::new(BOOTHOOK, only.content.as_str())])
        }
        _ if !is_changed => text.to_owned(),
        [(Format::Script, only)] if runs_once(only) => only.content.clone(),
        [(_, only)] if !is_archive => only.content.clone(),
        parts => mime::write(
            &parts
                .iter()
                .map(|(_, part)| part.clone())
                .collect::<Vec<_>>(),
        ),
    };
    if rest.len() > USER_DATA_MAX {
        group.warnings.push(format!(
            "the user data has {} bytes, and EC2 takes {USER_DATA_MAX}: fetch a part of it at boot, such as from S3",
            rest.len()
        ));
    }
    group.class.insert("userData".to_owned(), rest.into());
}

/// Whether a script runs early in every boot, by the header of its part or by its first line.
fn is_boothook(part: &Part) -> bool {
    let content_type = part.content_type().unwrap_or_default();
    content_type.starts_with(BOOTHOOK) || part.content.trim_start().starts_with("#cloud-boothook")
}

/// Whether a script runs once, at the end of the first boot, as plain text does.
fn runs_once(part: &Part) -> bool {
    let content_type = part.content_type().unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    ["", "text/x-shellscript"].contains(&media_type) && !is_boothook(part)
}

/// Format of user data, or of a part of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Script,
    CloudConfig,
    NodeConfig,
    Bottlerocket,
    PowerShell,
    Other,
}

impl Format {
    /// The format by the content type of a part, or by how the text begins.
    fn of(text: &str, content_type: Option<&str>) -> Self {
        let content_type = content_type.unwrap_or_default();
        let has_line = |start: &str| {
            text.lines()
                .any(|line| line.trim_start().starts_with(start))
        };
        let is_start = |starts: &[&str]| {
            let text = text.trim_start();
            starts.iter().any(|start| text.starts_with(start))
        };
        match content_type {
            _ if content_type.contains(node_config::API_GROUP) => Self::NodeConfig,
            _ if content_type.starts_with("text/x-shellscript") => Self::Script,
            _ if is_start(&["#cloud-config"]) => Self::CloudConfig,
            _ if is_start(&["#!", "#cloud-boothook"]) => Self::Script,
            _ if content_type.starts_with("text/cloud-config") => Self::CloudConfig,
            _ if content_type.starts_with(BOOTHOOK) => Self::Script,
            _ if has_line("[settings") || has_line("settings.") => Self::Bottlerocket,
            _ if has_line("<powershell>") => Self::PowerShell,
            _ if text.contains(node_config::API_GROUP)
                && (has_line("apiVersion:") || is_start(&["{"])) =>
            {
                Self::NodeConfig
            }
            _ if text.contains(bootstrap::SCRIPT) => Self::Script,
            _ => Self::Other,
        }
    }
}

/// An archive with the empty line after the headers of every part. cloud-init, which is lenient, reads parts without it.
fn with_separators(archive: &str) -> String {
    let is_header = |line: &str| {
        let name = line.split_once(':').map(|(name, _)| name);
        line.starts_with([' ', '\t']) || name.is_some_and(|name| !name.contains([' ', '#', '/']))
    };
    let boundary = archive.lines().find(|line| line.starts_with("--"));
    let mut text = String::new();
    let mut is_in_headers = false;
    for line in archive.split_inclusive('\n') {
        if boundary.is_some_and(|boundary| line.trim_end() == boundary.trim_end()) {
            is_in_headers = true;
        } else if is_in_headers && !is_header(line) {
            if !line.trim().is_empty() && !text.ends_with("\n\n") {
                text.push('\n');
            }
            is_in_headers = false;
        }
        text.push_str(line);
    }
    text
}

/// The parts of an archive, without their encoding.
fn decoded_parts(group: &mut Group, text: &str) -> Vec<(Format, Part)> {
    let parts = match mime::parse(text) {
        Ok(parts) => parts,
        Err(error) => {
            let remedy = format!("no MIME archive that cloud-init can read: {error}");
            group.refuse(USER_DATA, "", remedy);
            return Vec::new();
        }
    };
    let mut decoded = Vec::new();
    for mut part in parts {
        match content(&part) {
            Some(content) => {
                part.headers.retain(|header| !is_encoding(header));
                part.content = content.replace("\r\n", "\n");
                let format = Format::of(&part.content, part.content_type());
                decoded.push((format, part));
            }
            None => group.refuse(
                USER_DATA,
                "",
                "a part is no base64, as its header says: correct it",
            ),
        }
    }
    decoded
}

/// The content of a part: Terraform's cloudinit_config, for one, encodes parts.
fn content(part: &Part) -> Option<String> {
    if !part.headers.iter().any(is_encoding) {
        return Some(part.content.clone());
    }
    let plain: String = part.content.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(plain).ok()?).ok()
}

/// Whether a header says that the content is in base64.
fn is_encoding((name, value): &(String, String)) -> bool {
    name.eq_ignore_ascii_case("content-transfer-encoding") && value.eq_ignore_ascii_case("base64")
}

/// The family of an image that user data is written for. Comments and names of images do not count.
fn family(parts: &[(Format, Part)]) -> &'static str {
    let has = |wanted: Format| parts.iter().any(|(format, _)| *format == wanted);
    let scripts = || {
        let scripts = parts.iter().filter(|(format, _)| {
            [Format::Script, Format::CloudConfig, Format::Other].contains(format)
        });
        scripts.flat_map(|(_, part)| shell::code_lines(&part.content))
    };
    let is_bootstrap = |line: &str| line.contains(bootstrap::SCRIPT) || line.contains(OF_EKSCTL);
    let is_nodeadm =
        |line: &str| line.contains(node_config::API_GROUP) || node_config::names_program(line);
    if has(Format::NodeConfig) {
        "AL2023"
    } else if has(Format::Bottlerocket) {
        "Bottlerocket"
    } else if has(Format::PowerShell) {
        "Windows2022"
    } else if scripts().any(|(_, line)| is_bootstrap(&line)) {
        "AL2"
    } else if scripts().any(|(_, line)| is_nodeadm(&line)) {
        "AL2023"
    } else {
        "Custom"
    }
}

fn set_family(group: &mut Group, family: &str, text: &str) {
    group.class.insert("amiFamily".to_owned(), family.into());
    let how = match family {
        "Custom" => "because the user data is of no known family",
        _ => "by its user data",
    };
    group.about_class(
        "/spec/amiFamily",
        format!("guessed {how}: correct it if the image is of another"),
    );
    if family == "Custom" && !text.contains("karpenter.sh/unregistered") {
        group.warnings.push(
            "the user data does not name the taint karpenter.sh/unregistered:NoExecute, which kubelets of a Custom family must \
             register with"
                .to_owned(),
        );
    }
}

/// The text without settings that are fields now.
fn without_settings(group: &mut Group, format: Format, text: String) -> String {
    match format {
        Format::NodeConfig => node_config::documents(group, &text),
        Format::Bottlerocket => bottlerocket::without_settings(group, &text),
        Format::Script => {
            node_config::refuse_scripts(group, &text);
            let rest = bootstrap::without_call(group, &text);
            if rest == text {
                warn_of_kubelet_flags(group, &text);
            }
            rest
        }
        Format::CloudConfig | Format::Other => {
            node_config::refuse_scripts(group, &text);
            refuse_bootstrap(group, &text);
            warn_of_kubelet_flags(group, &text);
            text
        }
        Format::PowerShell => {
            if text.contains(WINDOWS_BOOTSTRAP) {
                let remedy = "the call of the bootstrap script would run twice: take it out of the user data, and give its labels \
                              and taints as tags of the group";
                group.refuse(USER_DATA, WINDOWS_BOOTSTRAP, remedy);
            }
            text
        }
    }
}

/// Warns of labels and taints that user data gives kubelets other than by a call that is read.
fn warn_of_kubelet_flags(group: &mut Group, text: &str) {
    const FLAGS: [&str; 2] = ["--node-labels", "--register-with-taints"];
    let lines = shell::code_lines(text);
    for flag in FLAGS {
        if let Some((line, _)) = lines.iter().find(|(_, line)| line.contains(flag)) {
            group.warnings.push(format!(
                "line {line} of the user data has {flag}, which is not read: add its labels or taints to the NodePool, or pods that \
                 need them stay pending"
            ));
        }
    }
}

/// Refuses a cloud-config that joins nodes itself.
fn refuse_bootstrap(group: &mut Group, text: &str) {
    let lines = shell::code_lines(text);
    let line_with = |name: &str| lines.iter().find(|(_, line)| line.contains(name));
    let remedy = |line: usize, what: &str| {
        format!(
            "line {line} {what}, and nodes are joined by the generated call: make a version of the launch template without it, and \
             give its labels and taints as tags k8s.io/cluster-autoscaler/node-template/label/<key> and …/taint/<key> of the group"
        )
    };
    if let Some((line, _)) = line_with(bootstrap::SCRIPT) {
        let remedy = remedy(*line, "calls it");
        group.refuse(USER_DATA, bootstrap::SCRIPT, remedy);
    } else if let Some((line, _)) = line_with(OF_EKSCTL) {
        let remedy = remedy(
            *line,
            "is eksctl's, which starts the kubelet with settings of its own",
        );
        group.refuse(USER_DATA, "#cloud-config", remedy);
    }
}
