//! User data: the image family it is written for, and its settings for nodes that are set elsewhere now.

use serde_json::json;

use super::{
    bottlerocket,
    group::Group,
    kubelet::{self, USER_DATA},
    node_config,
    shell::Variables,
};

const BOOTSTRAP: &str = "/etc/eks/bootstrap.sh";
const WINDOWS_BOOTSTRAP: &str = "Start-EKSBootstrap.ps1";
/// Arguments that the generated call also passes, each with a value.
const GENERATED: &[&str] = &[
    "--apiserver-endpoint",
    "--b64-cluster-ca",
    "--container-runtime",
    "--ip-family",
    "--service-ipv4-cidr",
    "--service-ipv6-cidr",
    "--use-max-pods",
];

/// Detects the family of an image that is named by id, and moves settings for nodes from user data into fields: a call of the bootstrap
/// script would run twice, and labels and taints that NodePools do not know would keep pods off their nodes.
pub(super) fn read(group: &mut Group, text: &str, has_family: bool) {
    let family = match text {
        _ if text.contains(BOOTSTRAP) => "AL2",
        _ if text.contains(node_config::API_GROUP) || text.contains(node_config::PROGRAM) => {
            "AL2023"
        }
        _ if text
            .lines()
            .any(|line| line.trim_start().starts_with("[settings")) =>
        {
            "Bottlerocket"
        }
        _ if text.contains("<powershell>") => "Windows2022",
        _ => "Custom",
    };
    if !has_family {
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
    let rest = match family {
        "AL2023" => node_config::without_settings(group, text),
        "Bottlerocket" => bottlerocket::without_settings(group, text),
        _ => without_call(group, text),
    };
    if family == "Windows2022" && text.contains(WINDOWS_BOOTSTRAP) {
        let remedy = "the call of the bootstrap script would run twice: take it out of the user data, and give its labels and taints \
                      as tags of the group";
        group.refuse(USER_DATA, WINDOWS_BOOTSTRAP, remedy);
    }
    if !rest.trim().is_empty() && rest.trim() != "#!/bin/bash" {
        group.class.insert("userData".to_owned(), rest.into());
    }
}

/// The text without the lines of the bootstrap call.
fn without_call(group: &mut Group, text: &str) -> String {
    let mut rest = String::new();
    let mut call: Option<String> = None;
    let mut variables = Variables::default();
    for line in text.split_inclusive('\n') {
        let is_call = call.is_none() && line.trim_start().starts_with(BOOTSTRAP);
        match &mut call {
            Some(call) => call.push_str(line),
            None if is_call => call = Some(line.to_owned()),
            None => {
                variables.read(line);
                rest.push_str(line);
                continue;
            }
        }
        let goes_on = line.trim_end().ends_with('\\');
        if let Some(done) = call.take_if(|_| !goes_on) {
            let call = variables.expanded(&done.replace("\\\n", " "));
            read_call(group, &call);
        }
    }
    if text.contains(BOOTSTRAP) && rest.contains(BOOTSTRAP) {
        let remedy = "the call of bootstrap.sh is not a line of its own, and would run twice: take it out of the user data";
        group.refuse(USER_DATA, BOOTSTRAP, remedy);
    }
    rest
}

fn read_call(group: &mut Group, call: &str) {
    let Some(words) = shlex::split(call) else {
        group.refuse(
            USER_DATA,
            call.trim(),
            "its quotes are not closed: correct it",
        );
        return;
    };
    let mut words = words.into_iter().skip(1);
    let mut has_cluster = false;
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (word.clone(), None),
        };
        // The cluster's name is the positional argument.
        if !name.starts_with("--") {
            if has_cluster && is_computed(&word) {
                group.refuse(USER_DATA, &word, COMPUTED);
            }
            has_cluster = true;
            continue;
        }
        let value = inline.or_else(|| words.next()).unwrap_or_default();
        match name.as_str() {
            generated if GENERATED.contains(&generated) => {}
            "--kubelet-extra-args" => kubelet_arguments(group, &value),
            _ if is_computed(&value) => {
                group.refuse(USER_DATA, &format!("{name} {value}"), COMPUTED);
            }
            "--dns-cluster-ip" => kubelet::set(group, "clusterDNS", json!([value])),
            "--max-pods" => kubelet::number(group, "maxPods", &name, &value),
            _ => group.refuse(
                USER_DATA,
                &format!("{name} {value}"),
                "no field says what this argument does: take it out",
            ),
        }
    }
}

fn kubelet_arguments(group: &mut Group, text: &str) {
    let words = shlex::split(text).unwrap_or_else(|| vec![text.to_owned()]);
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (word, words.next().unwrap_or_default()),
        };
        let argument = match value.is_empty() {
            true => name.clone(),
            false => format!("{name}={value}"),
        };
        if is_computed(&argument) {
            group.refuse(USER_DATA, &argument, COMPUTED);
        } else if !kubelet::argument(group, &name, &value) {
            group.refuse(
                USER_DATA,
                &argument,
                "no field says what this kubelet argument does: take it out",
            );
        }
    }
}

/// Whether the shell computes a part of this text, after the variables that the script sets are replaced.
fn is_computed(text: &str) -> bool {
    text.contains(['$', '`'])
}

/// Remedy for an argument whose value depends on the instance.
const COMPUTED: &str = "its value is computed on the instance, or set outside this script: write the value itself, or take the argument out";
