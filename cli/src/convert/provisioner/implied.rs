//! Requirements that v1alpha5's webhook added to a Provisioner (docs/spec/migrate.md#provisioner).

use serde_json::{Value, json};

use crate::convert::{edit::Edit, names};

use super::REQUIREMENTS;

const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";

const CATEGORIES: [&str; 3] = ["c", "m", "r"];
/// Instance generation that the default is above.
const OLD_GENERATION: u32 = 2;

/// Appends the defaults, in their order. Only requirements count as constraining a key; a label that contradicts a default would leave no
/// instance type, so it is refused.
pub(super) fn add(edit: &mut Edit, labels: Option<&Value>) {
    let said: Vec<String> = edit
        .get(REQUIREMENTS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|requirement| Some(stable(requirement.get("key")?.as_str()?).to_owned()))
        .collect();
    let says = |key: &str| said.iter().any(|known_key| known_key == key);
    let mut defaults = Vec::new();
    for (key, value) in [(OS, "linux"), (ARCH, "amd64"), (CAPACITY_TYPE, "on-demand")] {
        if !says(key) {
            defaults.push(json!({ "key": key, "operator": "In", "values": [value] }));
        }
    }
    if ![INSTANCE_TYPE, FAMILY, CATEGORY, GENERATION]
        .into_iter()
        .any(says)
    {
        defaults.push(json!({ "key": CATEGORY, "operator": "In", "values": CATEGORIES }));
        defaults.push(
            json!({ "key": GENERATION, "operator": "Gt", "values": [OLD_GENERATION.to_string()] }),
        );
    }
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if let Some(default) = defaults
            .iter()
            .find(|default| contradicts(default, stable(key), value))
        {
            let default = default
                .get("key")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let remedy = format!(
                "v1alpha5 added a requirement for {default} that it contradicts, as only requirements replace one: write \
                 the label as a requirement, too"
            );
            edit.refuse(
                &format!("/spec/labels/{}", super::escaped(key)),
                value,
                remedy,
            );
        }
    }
    for default in defaults {
        let number = edit
            .get(REQUIREMENTS)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        edit.push(REQUIREMENTS, default);
        edit.comment(
            &format!("{REQUIREMENTS}/{number}"),
            "was implied: v1alpha5 added it by default; --ignore-defaults leaves it out",
        );
    }
}

fn stable(key: &str) -> &str {
    let alias = names::LABEL_ALIASES.iter().find(|(old, _)| *old == key);
    alias.map_or(key, |(_, new)| new)
}

/// Whether no instance type has both the label and the default.
fn contradicts(default: &Value, key: &str, value: &str) -> bool {
    let of = default
        .get("key")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match (of, key) {
        (OS | ARCH | CAPACITY_TYPE, _) if of == key => {
            default.pointer("/values/0").and_then(Value::as_str) != Some(value)
        }
        (CATEGORY, CATEGORY) => !CATEGORIES.contains(&value),
        (CATEGORY, INSTANCE_TYPE | FAMILY) => !CATEGORIES.contains(&category(value)),
        (GENERATION, GENERATION) => value
            .parse()
            .is_ok_and(|number: u32| number <= OLD_GENERATION),
        (GENERATION, INSTANCE_TYPE | FAMILY) => {
            generation(value).is_some_and(|number| number <= OLD_GENERATION)
        }
        _ => false,
    }
}

/// `m` of `m6gd.large`.
fn category(type_or_family: &str) -> &str {
    let end = type_or_family.find(|c: char| !c.is_ascii_lowercase());
    end.and_then(|end| type_or_family.get(..end))
        .unwrap_or(type_or_family)
}

/// `6` of `m6gd.large`.
fn generation(type_or_family: &str) -> Option<u32> {
    let digits = type_or_family.get(category(type_or_family).len()..)?;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}
