//! nodeadm's NodeConfig: its settings for kubelets, labels and taints are moved into fields, because the generated document, which nodeadm
//! merges last, would override them.

use serde_json::{Map, Value};

use super::{
    group::Group,
    kubelet::{self, USER_DATA},
    names::shell_word,
    shell,
};

/// API group of nodeadm's documents, in any version.
pub(super) const API_GROUP: &str = "node.eks.aws";

/// nodeadm, which reads the documents and starts the kubelet.
const PROGRAM: &str = "nodeadm";

/// Fields that the generated document sets anyway.
const CLUSTER: &[&str] = &["apiServerEndpoint", "certificateAuthority", "cidr", "name"];

/// Whether a line names nodeadm, its units or its folder.
pub(super) fn names_program(line: &str) -> bool {
    const OF_PROGRAM: [&str; 4] = [PROGRAM, "nodeadm.d", "nodeadm-config", "nodeadm-run"];
    words(line).any(|word| OF_PROGRAM.contains(&word))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_end = |character: char| character.is_whitespace() || "/,[]'\"`()&;|".contains(character);
    line.split(is_end).filter(|word| !["", "-"].contains(word))
}

/// Refuses a script or cloud-config that calls nodeadm or writes a NodeConfig, whose labels and taints are not read.
pub(super) fn refuse_scripts(group: &mut Group, script: &str) {
    const REMEDY: &str = "give the NodeConfig as a part of the user data of type application/node.eks.aws, which is read";
    let lines = shell::code_lines(script);
    let words: Vec<(usize, &str)> = lines
        .iter()
        .flat_map(|(line, text)| words(text).map(|word| (*line, word)))
        .collect();
    let call = words.windows(2).find_map(|pair| match pair {
        [(line, PROGRAM), (_, "init")] => Some(*line),
        _ => None,
    });
    let is_config = |text: &String| text.contains(API_GROUP) || text.contains("kind: NodeConfig");
    let write = lines.iter().find(|(_, text)| is_config(text));
    if let Some(line) = call {
        let remedy = format!(
            "the instance calls it at boot with the generated NodeConfig, and a second call would override that: take line {line} out, \
             and {REMEDY}"
        );
        group.refuse(USER_DATA, "nodeadm init", remedy);
    } else if let Some((line, _)) = write {
        let remedy = format!(
            "a script writes it on the instance, so its labels, taints and kubelet settings are not read: take it out in line {line}, \
             and {REMEDY}"
        );
        group.refuse(USER_DATA, "kind: NodeConfig", remedy);
    }
}

/// The documents of a part, each without settings that are fields now; empty if no setting is left. Documents other than NodeConfigs stay verbatim.
pub(super) fn documents(group: &mut Group, text: &str) -> String {
    let documents = match serde_saphyr::from_multiple::<Value>(text) {
        Ok(documents) => documents,
        Err(error) => {
            let remedy = format!("the NodeConfig is no YAML: {error}");
            group.refuse(USER_DATA, "", remedy);
            return String::new();
        }
    };
    let mut rest = Vec::new();
    let mut is_taken = false;
    for mut document in documents.into_iter().filter(|document| !document.is_null()) {
        let is_config = document.get("kind").and_then(Value::as_str) == Some("NodeConfig");
        let Some(config) = document.as_object_mut().filter(|_| is_config) else {
            rest.push(document);
            continue;
        };
        let before = config.clone();
        take(group, config);
        is_taken |= *config != before;
        if config.contains_key("spec") {
            rest.push(document);
        }
    }
    if !is_taken {
        return text.to_owned();
    }
    let texts = rest.iter().map(crate::convert::yaml::plain);
    texts.collect::<Vec<_>>().join("---\n")
}

fn take(group: &mut Group, config: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = config.get_mut("spec") else {
        return;
    };
    if let Some(Value::Object(cluster)) = spec.get_mut("cluster") {
        cluster.retain(|field, _| !CLUSTER.contains(&field.as_str()));
    }
    if let Some(Value::Object(kubelet)) = spec.get_mut("kubelet") {
        if let Some(Value::Object(settings)) = kubelet.remove("config") {
            kubelet::configuration(group, settings);
        }
        // Flags override the configuration, so they are read after it.
        if let Some(Value::Array(flags)) = kubelet.get_mut("flags") {
            *flags = without_taken_flags(group, flags);
        }
    }
    let strategy = spec
        .get("instance")
        .and_then(|instance| instance.pointer("/localStorage/strategy"));
    if strategy.and_then(Value::as_str) == Some("RAID0") {
        group
            .class
            .insert("instanceStorePolicy".to_owned(), "RAID0".into());
        if let Some(Value::Object(storage)) = spec
            .get_mut("instance")
            .and_then(|instance| instance.get_mut("localStorage"))
        {
            storage.remove("strategy");
        }
    }
    prune(config);
}

/// The flags that are no fields now. nodeadm joins the items with spaces, so an item may hold several flags, and a flag's value may be the
/// next item. An item keeps its text if all of its flags stay.
fn without_taken_flags(group: &mut Group, flags: &[Value]) -> Vec<Value> {
    let split = |flag: &Value| {
        let text = flag.as_str().unwrap_or_default();
        shlex::split(text).unwrap_or_else(|| vec![text.to_owned()])
    };
    let items: Vec<Vec<String>> = flags.iter().map(split).collect();
    let words: Vec<(usize, &String)> = items
        .iter()
        .enumerate()
        .flat_map(|(item, words)| words.iter().map(move |word| (item, word)))
        .collect();
    let mut rest: Vec<Vec<&str>> = vec![Vec::new(); items.len()];
    let mut words = words.into_iter().peekable();
    while let Some((item, word)) = words.next() {
        let value = match word.split_once('=') {
            Some((name, value)) => Some((name, value, None)),
            None => {
                let next =
                    words.next_if(|(_, next)| word.starts_with("--") && !next.starts_with('-'));
                next.map(|(item, value)| (word.as_str(), value.as_str(), Some((item, value))))
            }
        };
        let is_taken = value.is_some_and(|(name, value, _)| kubelet::argument(group, name, value));
        if !is_taken {
            let next = value.and_then(|(.., next)| next);
            for (item, word) in [Some((item, word)), next].into_iter().flatten() {
                if let Some(rest) = rest.get_mut(item) {
                    rest.push(word);
                }
            }
        }
    }
    let mut left = Vec::new();
    for ((flag, words), rest) in flags.iter().zip(&items).zip(rest) {
        if rest.len() == words.len() && !(words.is_empty() && flag.is_string()) {
            left.push(flag.clone());
        } else if !rest.is_empty() {
            let words: Vec<String> = rest.into_iter().map(flag_word).collect();
            left.push(words.join(" ").into());
        }
    }
    left
}

/// A word as it was before it was split from a text: in quotes only if it has to be.
fn flag_word(word: &str) -> String {
    let is_plain = |character: char| !character.is_whitespace() && !"\"'\\".contains(character);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => shell_word(word),
    }
}

/// Removes empty maps and lists.
fn prune(map: &mut Map<String, Value>) {
    map.retain(|_, value| match value {
        Value::Object(inner) => {
            prune(inner);
            !inner.is_empty()
        }
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    });
}
