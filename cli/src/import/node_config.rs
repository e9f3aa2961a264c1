//! nodeadm's NodeConfig: its settings for kubelets, labels and taints are moved into fields, because the generated document, which nodeadm
//! merges last, would override them.

use serde_json::{Map, Value};

use aws_rules::user_data::mime::{self, Part};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    group::Group,
    kubelet::{self, USER_DATA},
};

/// API group of nodeadm's documents, in any version.
pub(super) const API_GROUP: &str = "node.eks.aws";

/// nodeadm, which reads the documents and starts the kubelet.
pub(super) const PROGRAM: &str = "nodeadm";

/// Fields that the generated document sets anyway.
const CLUSTER: &[&str] = &["apiServerEndpoint", "certificateAuthority", "cidr", "name"];

/// The user data without settings that are fields now; empty if no setting is left.
pub(super) fn without_settings(group: &mut Group, text: &str) -> String {
    if !mime::is_archive(text) {
        return match is_script_text(text) {
            true => checked_script(group, text.to_owned()),
            false => documents(group, text),
        };
    }
    let parts = match mime::parse(text) {
        Ok(parts) => parts,
        Err(error) => {
            let remedy = format!("no MIME archive that cloud-init can read: {error}");
            group.refuse(USER_DATA, "", remedy);
            return String::new();
        }
    };
    let mut rest = Vec::new();
    for part in parts {
        let Some(content) = decoded(&part) else {
            group.refuse(
                USER_DATA,
                "",
                "a part is no base64, as its header says: correct it",
            );
            continue;
        };
        let is_config = part
            .content_type()
            .is_some_and(|kind| kind.contains(API_GROUP));
        let content = match is_config {
            true => documents(group, &content),
            false => checked_script(group, content),
        };
        if !content.trim().is_empty() {
            rest.push(Part::new(part.content_type().unwrap_or_default(), content));
        }
    }
    match rest.as_slice() {
        [] => String::new(),
        [only] if only.content_type().is_some_and(is_script) => only.content.clone(),
        parts => mime::write(parts),
    }
}

fn is_script(kind: &str) -> bool {
    kind.starts_with("text/x-shellscript")
}

/// Whether a text is a script or a cloud-config, by its first line.
fn is_script_text(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or_default();
    first.starts_with("#!") || first.starts_with("#cloud-config")
}

/// Refuses a script that calls nodeadm or writes a NodeConfig, whose labels and taints are not read.
fn checked_script(group: &mut Group, script: String) -> String {
    const REMEDY: &str = "give the NodeConfig as a part of the user data of type application/node.eks.aws, which is read";
    let lines = || {
        let lines = script.lines().map(str::trim);
        lines.filter(|line| !line.starts_with('#'))
    };
    let is_end_of_word =
        |character: char| character.is_whitespace() || "/,[]'\"`()&;|".contains(character);
    let calls = |line: &str| {
        let words: Vec<&str> = line
            .split(is_end_of_word)
            .filter(|word| !word.is_empty())
            .collect();
        words.windows(2).any(|pair| pair == [PROGRAM, "init"])
    };
    let writes = |line: &str| line.contains(API_GROUP) || line.contains("kind: NodeConfig");
    if lines().any(calls) {
        let remedy = format!(
            "the instance calls it at boot with the generated NodeConfig, and a second call would override that: take it out, and {REMEDY}"
        );
        group.refuse(USER_DATA, "nodeadm init", remedy);
    } else if lines().any(writes) {
        let remedy = format!(
            "a script writes it on the instance, so its labels, taints and kubelet settings are not read: {REMEDY}"
        );
        group.refuse(USER_DATA, "kind: NodeConfig", remedy);
    }
    script
}

/// Decodes a part: Terraform's cloudinit_config, for one, encodes parts.
fn decoded(part: &Part) -> Option<String> {
    let is_encoded = part.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("content-transfer-encoding")
            && value.eq_ignore_ascii_case("base64")
    });
    if !is_encoded {
        return Some(part.content.clone());
    }
    let plain: String = part.content.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(plain).ok()?).ok()
}

/// The documents of a part, each without settings that are fields now. Documents other than NodeConfigs stay verbatim.
fn documents(group: &mut Group, text: &str) -> String {
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
            let words: Vec<String> = rest.into_iter().map(quoted).collect();
            left.push(words.join(" ").into());
        }
    }
    left
}

/// A word as it was before it was split from a text: in quotes only if it has to be.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| !character.is_whitespace() && !"\"'\\".contains(character);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => super::group::quoted(word),
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
