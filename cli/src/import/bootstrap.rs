//! The call of AL2's bootstrap script in a shell script: its arguments become fields, and the call leaves the script, since the generated
//! user data has one.

use std::ops::RangeInclusive;

use serde_json::json;

use super::{
    group::Group,
    kubelet::{self, USER_DATA},
    shell::{self, Command, Variables},
};

pub(super) const SCRIPT: &str = "/etc/eks/bootstrap.sh";
/// Commands that run another one, which is their next word but options.
const RUNNERS: [&str; 7] = [
    "exec",
    "sudo",
    "bash",
    "sh",
    "/bin/bash",
    "/bin/sh",
    "command",
];
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

/// The script without the lines of the call.
pub(super) fn without_call(group: &mut Group, script: &str) -> String {
    let lines = shell::code_lines(script);
    if !lines.iter().any(|(_, line)| line.contains(SCRIPT)) {
        return script.to_owned();
    }
    let commands = match shell::read(script) {
        Ok(commands) => commands,
        Err(error) => {
            let remedy = format!(
                "line {} of the script is not understood: {error}: correct it, or take the call out of the user data and give its \
                 labels and taints as tags of the group",
                error.line
            );
            group.refuse(USER_DATA, SCRIPT, remedy);
            return script.to_owned();
        }
    };
    let mut variables = Variables::default();
    let mut calls: Vec<RangeInclusive<usize>> = Vec::new();
    let mut removed = None;
    for command in &commands {
        let Some(arguments) = arguments(command) else {
            variables.read(command);
            continue;
        };
        let lines = command.line..=shell::line_at(script, command.span.end);
        match refusal(script, command, calls.first()) {
            Some(remedy) => group.refuse(USER_DATA, SCRIPT, remedy),
            None => {
                read_call(group, command.line, arguments, &variables);
                removed = Some(lines.clone());
            }
        }
        calls.push(lines);
    }
    let is_read = |line: &usize| calls.iter().any(|lines| lines.contains(line));
    let others = lines
        .iter()
        .filter(|(line, text)| text.contains(SCRIPT) && !is_read(line));
    for (line, _) in others {
        let remedy = format!(
            "line {line} names it other than by a plain call, which is not read: take that out of the user data, and give the labels, \
             taints and kubelet settings that it makes as tags of the group or in the EC2NodeClass"
        );
        group.refuse(USER_DATA, SCRIPT, remedy);
    }
    let Some(removed) = removed else {
        return script.to_owned();
    };
    let lines = script.split_inclusive('\n').enumerate();
    let kept = lines.filter(|(number, _)| !removed.contains(&(number + 1)));
    kept.map(|(_, line)| line).collect()
}

/// The words after the bootstrap script of a command that calls it.
fn arguments<'c, 'a>(command: &'c Command<'a>) -> Option<&'c [&'a str]> {
    let words = command.words.as_slice();
    let at = words.iter().position(|word| *word == SCRIPT)?;
    let (before, from_script) = words.split_at(at);
    let is_runner = |word: &&str| RUNNERS.contains(word) || word.starts_with('-');
    let is_call = before.iter().all(is_runner)
        && before.first().is_none_or(|first| RUNNERS.contains(first))
        && !before.contains(&"-c");
    is_call.then(|| from_script.get(1..).unwrap_or_default())
}

/// Reason why a call cannot be read, and the remedy.
fn refusal(
    script: &str,
    command: &Command<'_>,
    other: Option<&RangeInclusive<usize>>,
) -> Option<String> {
    let line = command.line;
    if let Some(context) = &command.context {
        return Some(format!(
            "the call of line {line} is conditional, {context}, so nodes may be started without its arguments: make it a line that \
             always runs, or take it out"
        ));
    }
    if let Some(other) = other {
        return Some(format!(
            "lines {} and {line} call it, and a node is started once: take one of them out",
            other.start()
        ));
    }
    let before = script.get(..command.span.start).unwrap_or_default();
    let before = before.rsplit('\n').next().unwrap_or_default();
    let after = script.get(command.span.end..).unwrap_or_default();
    let after = after.lines().next().unwrap_or_default().trim();
    let is_alone =
        before.trim().is_empty() && (after.is_empty() || after.starts_with('#') || after == ";");
    (!is_alone).then(|| {
        format!(
            "the call of line {line} shares its lines with other commands: make it a line of its own, with nothing before and after it"
        )
    })
}

fn read_call(group: &mut Group, line: usize, words: &[&str], variables: &Variables) {
    let words: Vec<_> = words
        .iter()
        .flat_map(|word| variables.words(word))
        .collect();
    for word in words.iter().filter(|word| word.is_pattern) {
        let remedy =
            format!("line {line}: the shell replaces *, ?, [, {{ and ~ in it: put it in quotes");
        group.refuse(USER_DATA, &word.text, remedy);
    }
    let computed = |text: &str| {
        let cause = variables.cause(text);
        format!(
            "its value is computed on the instance ({cause}): write the value itself into line {line}, or take the argument out"
        )
    };
    let mut words = words.into_iter().map(|word| word.text);
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
            if has_cluster {
                match is_computed(&word) {
                    true => group.refuse(USER_DATA, &word, computed(&word)),
                    false => group.refuse(
                        USER_DATA,
                        &word,
                        format!(
                            "line {line}: the script takes one name, the cluster's: take it out"
                        ),
                    ),
                }
            }
            has_cluster = true;
            continue;
        }
        let value = inline.or_else(|| words.next()).unwrap_or_default();
        match name.as_str() {
            generated if GENERATED.contains(&generated) => {}
            "--kubelet-extra-args" => kubelet_arguments(group, &value, line, computed),
            _ if is_computed(&value) => {
                group.refuse(USER_DATA, &format!("{name} {value}"), computed(&value));
            }
            "--dns-cluster-ip" => kubelet::set(group, "clusterDNS", json!([value])),
            "--max-pods" => kubelet::number(group, "maxPods", &name, &value),
            "--local-disks" if value == "raid0" => {
                group
                    .class
                    .insert("instanceStorePolicy".to_owned(), "RAID0".into());
            }
            _ => group.refuse(
                USER_DATA,
                &format!("{name} {value}"),
                format!("line {line}: no field has the meaning of this argument: take it out"),
            ),
        }
    }
}

fn kubelet_arguments(
    group: &mut Group,
    text: &str,
    line: usize,
    computed: impl Fn(&str) -> String,
) {
    let Some(words) = shlex::split(text) else {
        let remedy = format!("line {line}: its quotes are not closed: correct it");
        group.refuse(USER_DATA, text, remedy);
        return;
    };
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let value = words.next_if(|next| !next.starts_with("--"));
                (word, value.unwrap_or_default())
            }
        };
        let argument = match value.is_empty() {
            true => name.clone(),
            false => format!("{name}={value}"),
        };
        if is_computed(&argument) {
            group.refuse(USER_DATA, &argument, computed(&argument));
        } else if !kubelet::argument(group, &name, &value) {
            group.refuse(
                USER_DATA,
                &argument,
                format!(
                    "line {line}: no field has the meaning of this kubelet argument: take it out"
                ),
            );
        }
    }
}

/// Whether the shell computes a part of this text, after the variables that the script sets are replaced.
fn is_computed(text: &str) -> bool {
    text.contains(['$', '`'])
}
