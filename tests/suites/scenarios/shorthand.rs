//! One-line notations of requirements, taints and tolerations.

use serde_json::{Value, json};

/// Abbreviations of label keys that scenarios may use.
const ALIASES: [(&str, &str); 8] = [
    ("zone", "topology.kubernetes.io/zone"),
    ("hostname", "kubernetes.io/hostname"),
    ("arch", "kubernetes.io/arch"),
    ("os", "kubernetes.io/os"),
    ("instance-type", "node.kubernetes.io/instance-type"),
    ("capacity-type", "karpenter.sh/capacity-type"),
    ("nodepool", "karpenter.sh/nodepool"),
    ("family", "karpenter.k8s.aws/instance-family"),
];

pub(crate) fn key(alias: &str) -> String {
    let known = ALIASES.iter().find(|(short, _)| *short == alias);
    known.map_or(alias, |(_, key)| *key).to_owned()
}

/// Parses `key Operator value…`, such as `zone In a b` or `team Exists`, optionally followed by `minValues=2`.
pub(crate) fn requirement(text: &str) -> Value {
    let mut words = text.split_whitespace();
    let (alias, operator) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (min_values, values): (Vec<&str>, Vec<&str>) =
        words.partition(|word| word.starts_with("minValues="));
    let mut requirement = json!({ "key": key(alias), "operator": operator, "values": values });
    let min_values = min_values
        .first()
        .and_then(|word| word.strip_prefix("minValues=")?.parse::<u32>().ok());
    if let (Some(min_values), Value::Object(fields)) = (min_values, &mut requirement) {
        fields.insert("minValues".to_owned(), min_values.into());
    }
    requirement
}

/// Parses `key=value:Effect` or `key:Effect`, as kubectl does.
pub(crate) fn taint(text: &str) -> Value {
    let (name, effect) = text.split_once(':').unwrap_or((text, "NoSchedule"));
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    json!({ "key": key, "value": value, "effect": effect })
}

/// Parses `key` or `key=value`, optionally followed by `:Effect`; `*` tolerates everything.
pub(crate) fn toleration(text: &str) -> Value {
    let (name, effect) = text.split_once(':').unwrap_or((text, ""));
    match name.split_once('=') {
        Some((key, value)) => {
            json!({ "key": key, "operator": "Equal", "value": value, "effect": effect })
        }
        None if name == "*" => json!({ "operator": "Exists", "effect": effect }),
        None => json!({ "key": name, "operator": "Exists", "effect": effect }),
    }
}
