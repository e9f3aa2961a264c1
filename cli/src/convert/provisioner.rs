//! Provisioners of v1alpha5 (docs/spec/migrate.md#provisioner).

mod implied;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Options,
    edit::{Edit, escaped},
    names, node_pool, node_template,
    unknown::{self, KnownFields},
    workload,
};

const REQUIREMENTS: &str = "/spec/template/spec/requirements";

const KNOWN: KnownFields = &[
    (
        "/spec",
        &[
            "annotations",
            "consolidation",
            "kubeletConfiguration",
            "labels",
            "limits",
            "provider",
            "providerRef",
            "requirements",
            "startupTaints",
            "taints",
            "ttlSecondsAfterEmpty",
            "ttlSecondsUntilExpired",
            "weight",
        ],
    ),
    ("/spec/consolidation", &["enabled"]),
    ("/spec/kubeletConfiguration", super::kubelet::FIELDS),
    ("/spec/limits", &["resources"]),
    ("/spec/provider", node_template::INLINE_FIELDS),
    ("/spec/providerRef", &["apiVersion", "kind", "name"]),
    ("/spec/requirements/*", &["key", "operator", "values"]),
    (
        "/spec/startupTaints/*",
        &["effect", "key", "timeAdded", "value"],
    ),
    ("/spec/taints/*", &["effect", "key", "timeAdded", "value"]),
];

/// Converts a Provisioner into a NodePool, and its inline provider into an EC2NodeClass.
pub(super) fn convert(edit: &mut Edit, options: &Options) -> Option<Edit> {
    // Kubelets no longer have this setting.
    let runtime = edit.take("/spec/kubeletConfiguration/containerRuntime");
    unknown::check(edit, KNOWN, options.allow_unknown);
    refuse_what_was_invalid(edit);
    let old = edit.take("/spec").unwrap_or_default();
    edit.clean_metadata();
    edit.comment("/kind", "was a Provisioner of karpenter.sh/v1alpha5");
    let moves = [
        ("annotations", "/spec/template/metadata/annotations"),
        ("labels", "/spec/template/metadata/labels"),
        ("startupTaints", "/spec/template/spec/startupTaints"),
        ("taints", "/spec/template/spec/taints"),
    ];
    for (field, place) in moves {
        if let Some(value) = filled(&old, field) {
            edit.set(place, value);
            edit.comment(place, format!("was spec.{field}"));
        }
    }
    if let Some(weight) = old.get("weight") {
        edit.set("/spec/weight", weight.clone());
    }
    if let Some(limits) = filled(old.get("limits").unwrap_or(&Value::Null), "resources") {
        edit.set("/spec/limits", limits);
        edit.comment("/spec/limits", "was spec.limits.resources");
    }
    requirements(edit, &old, options);
    kubelet(edit, &old, runtime.as_ref(), options);
    disruption(edit, &old);
    expiry(edit, &old);
    node_pool::aliases(edit);
    node_pool::accelerators(edit);
    workload::annotations(edit, "/spec/template/metadata");
    edit.warn(
        "instances carry the tag karpenter.sh/nodepool instead of karpenter.sh/provisioner-name: change IAM conditions \
         that name it",
    );
    let class = node_class(edit, &old, options);
    edit.set("/apiVersion", names::NODE_POOL_V1.into());
    edit.set("/kind", "NodePool".into());
    class
}

/// A field that is not empty.
fn filled(object: &Value, field: &str) -> Option<Value> {
    let value = object.get(field)?;
    let is_empty = match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    (!is_empty).then(|| value.clone())
}

/// Refuses values that v1alpha5 itself did not allow: they have no meaning that could be preserved.
fn refuse_what_was_invalid(edit: &mut Edit) {
    let mut seen = BTreeSet::new();
    let mut twice = Vec::new();
    for list in ["taints", "startupTaints"] {
        let taints = edit
            .get(&format!("/spec/{list}"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for (number, taint) in taints.enumerate() {
            let part = |name| taint.get(name).and_then(Value::as_str).unwrap_or_default();
            if !seen.insert((part("key").to_owned(), part("effect").to_owned())) {
                let shown = format!("{}:{}", part("key"), part("effect"));
                twice.push((format!("/spec/{list}/{number}"), shown));
            }
        }
    }
    for (field, shown) in twice {
        let remedy =
            "each key and effect may stand once in taints and startupTaints together: remove one";
        edit.refuse(&field, &shown, remedy);
    }
    let label = format!("/spec/labels/{}", escaped(names::PROVISIONER_NAME));
    if edit.get(&label).is_some() {
        let remedy = "it was never allowed here: leave it out, nodes get karpenter.sh/nodepool by themselves";
        edit.refuse(&label, "", remedy);
    }
}

fn requirements(edit: &mut Edit, old: &Value, options: &Options) {
    let own = old.get("requirements").cloned().unwrap_or(json!([]));
    edit.set(REQUIREMENTS, own);
    node_pool::refuse_gone_labels(edit);
    if options.ignore_defaults {
        return;
    }
    implied::add(edit, old.get("labels"));
}

fn kubelet(edit: &mut Edit, old: &Value, runtime: Option<&Value>, options: &Options) {
    const KUBELET: &str = "/spec/template/spec/kubelet";
    let mut kubelet = match old.get("kubeletConfiguration") {
        Some(Value::Object(kubelet)) => kubelet.clone(),
        _ => Map::new(),
    };
    match runtime.map(|runtime| runtime.as_str().unwrap_or_default()) {
        None => {}
        Some("containerd") => edit.comment(
            "/spec/template/spec",
            "spec.kubeletConfiguration.containerRuntime: containerd is left out: there is no other now",
        ),
        Some(other) => edit.refuse(
            "/spec/kubeletConfiguration/containerRuntime",
            other,
            "Kubernetes runs on containerd alone: remove it",
        ),
    }
    if options.settings.is_density_unlimited && !kubelet.contains_key("maxPods") {
        kubelet.insert("maxPods".to_owned(), 110.into());
        edit.comment(
            "/spec/template/spec",
            "setting aws.enableENILimitedPodDensity was false: it is maxPods 110 in the EC2NodeClass",
        );
    }
    if !kubelet.is_empty() {
        edit.set(KUBELET, Value::Object(kubelet));
    }
}

fn disruption(edit: &mut Edit, old: &Value) {
    const POLICY: &str = "/spec/disruption/consolidationPolicy";
    const AFTER: &str = "/spec/disruption/consolidateAfter";
    let consolidates = old.pointer("/consolidation/enabled") == Some(&Value::Bool(true));
    let after_empty = old.get("ttlSecondsAfterEmpty").filter(|ttl| !ttl.is_null());
    let (policy, after, was) = match (consolidates, after_empty) {
        (true, Some(seconds)) => {
            let remedy = "it was never allowed beside consolidation.enabled: remove one of them";
            edit.refuse("/spec/ttlSecondsAfterEmpty", &seconds.to_string(), remedy);
            return;
        }
        (true, None) => (
            "WhenEmptyOrUnderutilized",
            "0s".to_owned(),
            "spec.consolidation.enabled was true",
        ),
        (false, Some(seconds)) => match seconds.as_i64().filter(|seconds| *seconds >= 0) {
            Some(seconds) => (
                "WhenEmpty",
                node_pool::seconds_text(seconds),
                "spec.ttlSecondsAfterEmpty",
            ),
            None => {
                let remedy = "expected a number of seconds from 0";
                edit.refuse("/spec/ttlSecondsAfterEmpty", &seconds.to_string(), remedy);
                return;
            }
        },
        (false, None) => (
            "WhenEmpty",
            "Never".to_owned(),
            "neither spec.consolidation.enabled nor spec.ttlSecondsAfterEmpty was set, so no node was removed for being \
             empty; WhenEmptyOrUnderutilized after 0s saves what they cost",
        ),
    };
    edit.set(POLICY, policy.into());
    edit.set(AFTER, after.into());
    match after_empty {
        Some(seconds) => edit.comment(AFTER, format!("{was} was {seconds}")),
        None => edit.comment(AFTER, was),
    }
}

fn expiry(edit: &mut Edit, old: &Value) {
    const EXPIRE_AFTER: &str = "/spec/template/spec/expireAfter";
    const OLD: &str = "/spec/ttlSecondsUntilExpired";
    let Some(ttl) = old
        .get("ttlSecondsUntilExpired")
        .filter(|ttl| !ttl.is_null())
    else {
        edit.set(EXPIRE_AFTER, "Never".into());
        edit.comment(
            EXPIRE_AFTER,
            "spec.ttlSecondsUntilExpired was not set: nodes did not expire, and v1's default is 720h",
        );
        return;
    };
    match ttl.as_i64() {
        Some(seconds @ 1..) => {
            edit.set(EXPIRE_AFTER, node_pool::seconds_text(seconds).into());
            edit.comment(
                EXPIRE_AFTER,
                format!(
                    "was spec.ttlSecondsUntilExpired: {seconds}; {}",
                    node_pool::FORCEFUL
                ),
            );
        }
        Some(0) => {
            let remedy = "nodes would expire at once: remove it, or set a lifetime above 0";
            edit.refuse(OLD, "0", remedy);
        }
        Some(_) | None => edit.refuse(OLD, &ttl.to_string(), "expected a number of seconds from 1"),
    }
}

fn node_class(edit: &mut Edit, old: &Value, options: &Options) -> Option<Edit> {
    const REFERENCE: &str = "/spec/template/spec/nodeClassRef";
    let to =
        |name: &str| json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name });
    let pool = edit
        .text_at("/metadata/name")
        .unwrap_or_default()
        .to_owned();
    match (old.get("providerRef"), old.get("provider")) {
        (Some(reference), None) => {
            let part = |name: &str| reference.get(name).and_then(Value::as_str);
            let kind = part("kind").unwrap_or("AWSNodeTemplate");
            if kind != "AWSNodeTemplate" {
                let remedy = "expected an AWSNodeTemplate: others are not Whittle's";
                edit.refuse("/spec/providerRef/kind", kind, remedy);
            }
            match part("name") {
                Some(name) => {
                    edit.set(REFERENCE, to(name));
                    edit.comment(REFERENCE, "was spec.providerRef to an AWSNodeTemplate");
                }
                None => edit.refuse(
                    "/spec/providerRef/name",
                    "",
                    "expected the name of an AWSNodeTemplate",
                ),
            }
            None
        }
        (None, Some(provider)) => {
            edit.set(REFERENCE, to(&pool));
            edit.comment(
                REFERENCE,
                "was spec.provider, which is an EC2NodeClass of its own now",
            );
            node_template::inline(edit, provider, options)
        }
        (Some(_), Some(_)) => {
            edit.refuse(
                "/spec/provider",
                "",
                "it was never allowed beside providerRef: remove one of them",
            );
            None
        }
        (None, None) => {
            let remedy =
                "expected the name of an AWSNodeTemplate, which selects the nodes' instances";
            edit.refuse("/spec/providerRef", "", remedy);
            None
        }
    }
}

/// Refuses an inline provider's class whose name another object has. The class follows its NodePool.
pub(super) fn refuse_name_clashes(edits: &mut Vec<Edit>) {
    let name = |edit: &Edit| {
        edit.text_at("/metadata/name")
            .unwrap_or_default()
            .to_owned()
    };
    let others: BTreeSet<String> = edits
        .iter()
        .filter(|edit| edit.type_of().1 == "EC2NodeClass" && edit.caused_by.is_none())
        .map(name)
        .collect();
    let clashes = |edit: &Edit| edit.caused_by.is_some() && others.contains(&name(edit));
    while let Some(at) = edits.iter().position(clashes) {
        let class = edits.remove(at);
        if let Some(pool) = at.checked_sub(1).and_then(|before| edits.get_mut(before)) {
            let remedy = "it becomes an EC2NodeClass of its Provisioner's name, and there is one already: rename that one";
            pool.refuse("/spec/provider", &name(&class), remedy);
        }
    }
}
