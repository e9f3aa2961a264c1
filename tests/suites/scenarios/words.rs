//! Requirements, taints and tolerations in one line of text each.

use serde_json::{Value, json};

/// Keys that pages may abbreviate.
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

/// `key Operator value…`, such as `zone In a b` or `team Exists`, with `minValues=2` at the end if need be.
pub(crate) fn requirement(text: &str) -> Value {
    let mut words = text.split_whitespace();
    let (alias, operator) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (least, values): (Vec<&str>, Vec<&str>) =
        words.partition(|word| word.starts_with("minValues="));
    let mut requirement = json!({ "key": key(alias), "operator": operator, "values": values });
    let least = least
        .first()
        .and_then(|word| word.strip_prefix("minValues=")?.parse::<u32>().ok());
    if let (Some(least), Value::Object(fields)) = (least, &mut requirement) {
        fields.insert("minValues".to_owned(), least.into());
    }
    requirement
}

/// `key=value:Effect` or `key:Effect`, as kubectl takes it.
pub(crate) fn taint(text: &str) -> Value {
    let (name, effect) = text.split_once(':').unwrap_or((text, "NoSchedule"));
    let (key, value) = name.split_once('=').unwrap_or((name, ""));
    json!({ "key": key, "value": value, "effect": effect })
}

/// `key`, `key=value` or either with `:Effect`; `*` tolerates everything.
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
