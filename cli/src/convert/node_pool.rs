//! NodePools of v1beta1 (docs/spec/migrate.md#v1beta1-node-pool).

use serde_json::{Value, json};

use super::{
    edit::{Edit, escaped},
    names,
    unknown::{self, KnownFields},
    workload,
};

const REQUIREMENTS: &str = "/spec/template/spec/requirements";
const EXPIRE_AFTER: &str = "/spec/template/spec/expireAfter";

const KNOWN: KnownFields = &[
    ("/spec", &["disruption", "limits", "template", "weight"]),
    (
        "/spec/disruption",
        &[
            "budgets",
            "consolidateAfter",
            "consolidationPolicy",
            "expireAfter",
        ],
    ),
    (
        "/spec/disruption/budgets/*",
        &["duration", "nodes", "reasons", "schedule"],
    ),
    ("/spec/template", &["metadata", "spec"]),
    ("/spec/template/metadata", &["annotations", "labels"]),
    (
        "/spec/template/spec",
        &[
            "kubelet",
            "nodeClassRef",
            "requirements",
            "resources",
            "startupTaints",
            "taints",
        ],
    ),
    ("/spec/template/spec/kubelet", super::kubelet::FIELDS),
    (
        "/spec/template/spec/nodeClassRef",
        &["apiVersion", "kind", "name"],
    ),
    (
        "/spec/template/spec/requirements/*",
        &["key", "minValues", "operator", "values"],
    ),
    (
        "/spec/template/spec/startupTaints/*",
        &["effect", "key", "timeAdded", "value"],
    ),
    (
        "/spec/template/spec/taints/*",
        &["effect", "key", "timeAdded", "value"],
    ),
];

pub(super) fn convert(edit: &mut Edit, allow_unknown: bool) {
    unknown::check(edit, KNOWN, allow_unknown);
    edit.set("/apiVersion", names::NODE_POOL_V1.into());
    edit.clean_metadata();
    disruption(edit);
    expiry(edit);
    node_class(edit, "/spec/template/spec");
    if edit.take("/spec/template/spec/resources").is_some() {
        edit.comment(
            "/spec/template/spec",
            "spec.template.spec.resources is left out: only NodeClaims have it",
        );
    }
    if edit.get(REQUIREMENTS).is_none() {
        edit.set(REQUIREMENTS, json!([]));
    }
    refuse_gone_labels(edit);
    aliases(edit);
    workload::annotations(edit, "/spec/template/metadata");
    accelerators(edit);
}

fn disruption(edit: &mut Edit) {
    const POLICY: &str = "/spec/disruption/consolidationPolicy";
    const AFTER: &str = "/spec/disruption/consolidateAfter";
    let policy = edit.text_at(POLICY).map(str::to_owned);
    let after = edit.text_at(AFTER).map(str::to_owned);
    match (policy.as_deref(), after.as_deref()) {
        (Some("WhenEmpty"), Some(_)) => set_duration(edit, AFTER),
        (Some("WhenEmpty"), None) => {
            edit.refuse(
                AFTER,
                "",
                "WhenEmpty needs it: say how long a node may be empty, such as 30s",
            );
        }
        (None | Some("WhenUnderutilized"), _) => {
            let was = policy.map_or(
                "was not set: WhenUnderutilized was the default",
                |_| "was WhenUnderutilized",
            );
            edit.set(POLICY, "WhenEmptyOrUnderutilized".into());
            edit.comment(POLICY, format!("spec.disruption.consolidationPolicy {was}"));
            match after.as_deref() {
                None => {
                    edit.set(AFTER, "0s".into());
                    edit.comment(
                        AFTER,
                        "spec.disruption.consolidateAfter was not set: v1 before Karpenter 1.15 needs it, and 0s consolidates as soon as before",
                    );
                }
                Some("Never") => edit.comment(
                    AFTER,
                    "Never goes on meaning that this NodePool is not consolidated",
                ),
                Some(other) => {
                    let remedy = "WhenUnderutilized allowed nothing but Never: choose WhenEmpty, or leave it out";
                    edit.refuse(AFTER, &format!("{other:?}"), remedy);
                }
            }
        }
        (Some(other), _) => {
            edit.refuse(
                POLICY,
                &format!("{other:?}"),
                "expected WhenEmpty or WhenUnderutilized",
            );
        }
    }
}

pub(super) const FORCEFUL: &str = "expiry is forceful in v1: it drains at once, without a replacement first and outside \
                                   budgets, and belongs to the drift hash";

fn expiry(edit: &mut Edit) {
    match edit.take("/spec/disruption/expireAfter") {
        Some(value) => {
            edit.set(EXPIRE_AFTER, value);
            set_duration(edit, EXPIRE_AFTER);
            edit.comment(
                EXPIRE_AFTER,
                format!("was spec.disruption.expireAfter; {FORCEFUL}"),
            );
        }
        None => {
            edit.set(EXPIRE_AFTER, "720h".into());
            edit.comment(
                EXPIRE_AFTER,
                format!(
                    "spec.disruption.expireAfter was not set: 720h was the default; {FORCEFUL}"
                ),
            );
        }
    }
}

/// Writes a duration in its largest units.
fn set_duration(edit: &mut Edit, field: &str) {
    let text = edit.text_at(field).unwrap_or_default().to_owned();
    if text == "Never" {
        return;
    }
    match canonical(&text) {
        Some(canonical) => edit.set(field, canonical.into()),
        None => edit.refuse(
            field,
            &format!("{text:?}"),
            "expected hours, minutes and seconds such as 72h, or Never",
        ),
    }
}

fn canonical(text: &str) -> Option<String> {
    let duration = api::duration::parse_go_duration(text)?;
    let seconds = duration.as_secs();
    (seconds >= 0 && duration.subsec_nanos() == 0).then(|| seconds_text(seconds))
}

/// A duration without parts that are zero.
pub(super) fn seconds_text(seconds: i64) -> String {
    if seconds == 0 {
        return "0s".to_owned();
    }
    let parts = [
        (seconds / 3600, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    let shown = parts.into_iter().filter(|(amount, _)| *amount > 0);
    shown
        .map(|(amount, unit)| format!("{amount}{unit}"))
        .collect()
}

/// Converts the reference to the node class below this field.
pub(super) fn node_class(edit: &mut Edit, spec: &str) {
    let reference = &format!("{spec}/nodeClassRef");
    let old = edit.get(reference).cloned().unwrap_or_default();
    let part = |name: &str| old.get(name).and_then(Value::as_str).map(str::to_owned);
    let version = part("apiVersion").unwrap_or_else(|| names::NODE_CLASS_V1BETA1.to_owned());
    let group = version.split('/').next().unwrap_or_default().to_owned();
    let kind = part("kind").unwrap_or_else(|| "EC2NodeClass".to_owned());
    if group != api::names::group::KARPENTER_AWS || kind != "EC2NodeClass" {
        let value = format!("{kind} of {version}");
        edit.refuse(
            reference,
            &value,
            "expected an EC2NodeClass of karpenter.k8s.aws: others are not Whittle's",
        );
        return;
    }
    let Some(name) = part("name") else {
        edit.refuse(
            &format!("{reference}/name"),
            "",
            "expected the name of an EC2NodeClass",
        );
        return;
    };
    edit.set(
        reference,
        json!({ "group": group, "kind": kind, "name": name }),
    );
    edit.comment(
        reference,
        format!("apiVersion {version} is the group now, and v1 needs the kind"),
    );
}

/// Refuses labels that nodes no longer have: a requirement for one would leave no node.
pub(super) fn refuse_gone_labels(edit: &mut Edit) {
    let keys = requirement_keys(edit);
    for (number, key) in keys {
        if let Some((_, remedy)) = names::GONE_LABELS.iter().find(|(gone, _)| *gone == key) {
            let field = format!("{REQUIREMENTS}/{number}");
            edit.refuse(
                &field,
                &key,
                format!("no node has this label any more: {remedy}"),
            );
        }
    }
}

/// Replaces old label keys by the new ones, as the scheduler reads them.
pub(super) fn aliases(edit: &mut Edit) {
    for (number, key) in requirement_keys(edit) {
        if let Some((old, new)) = names::LABEL_ALIASES.iter().find(|(old, _)| *old == key) {
            edit.set(&format!("{REQUIREMENTS}/{number}/key"), (*new).into());
            edit.comment(&format!("{REQUIREMENTS}/{number}"), format!("was {old}"));
        }
    }
    for (old, new) in names::LABEL_ALIASES {
        let label = |key: &str| format!("/spec/template/metadata/labels/{}", escaped(key));
        workload::rename(edit, &label(old), &label(new));
    }
}

fn requirement_keys(edit: &Edit) -> Vec<(usize, String)> {
    edit.get(REQUIREMENTS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(number, requirement)| {
            Some((number, requirement.get("key")?.as_str()?.to_owned()))
        })
        .collect()
}

/// Renames Inferentia 2 and Trainium, which have names of their own since v1.1.
pub(super) fn accelerators(edit: &mut Edit) {
    let requirements = edit.get(REQUIREMENTS).and_then(Value::as_array);
    let names_inferentia = |requirement: &Value| {
        let values = requirement.get("values").and_then(Value::as_array);
        requirement.get("key").and_then(Value::as_str)
            == Some("karpenter.k8s.aws/instance-accelerator-name")
            && values
                .into_iter()
                .flatten()
                .any(|value| value == "inferentia")
    };
    if requirements.into_iter().flatten().any(names_inferentia) {
        edit.warn("inferentia means the first generation only now: name inferentia2 and trainium, too, if they are meant");
    }
}
