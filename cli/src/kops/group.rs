//! Conversion of one InstanceGroup: its refusals, and the resulting objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    Inputs,
    cluster::{Cluster, texts_by_name},
    fields,
    manifest::name,
    node_class, node_pool,
};
use crate::convert::edit::{Edit, escaped};

pub(super) fn is_karpenters(edit: &Edit) -> bool {
    edit.text_at("/spec/manager") == Some("Karpenter")
}

/// The EC2NodeClass and the NodePool, both named after the group; refusals are in `edit`.
pub(super) fn convert(edit: &mut Edit, cluster: &Cluster, inputs: &Inputs) -> Vec<Edit> {
    refuse(edit, cluster, inputs);
    let labels = labels(edit, cluster);
    let taints = taints(edit);
    let class = node_class::convert(edit, cluster, inputs, &labels);
    let pool = node_pool::convert(edit, cluster, &labels, taints);
    vec![class, pool]
}

fn refuse(edit: &mut Edit, cluster: &Cluster, inputs: &Inputs) {
    let name = name(edit).to_owned();
    let role = edit.text_at("/spec/role").unwrap_or_default().to_owned();
    if role != "Node" {
        edit.refuse(
            "/spec/role",
            &role,
            "Karpenter manages groups of role Node alone: set manager to CloudGroup",
        );
    }
    size(
        edit,
        "/spec/minSize",
        "replicas of a static NodePool: leave it out for a NodePool that grows with its pods",
    );
    size(
        edit,
        "/spec/maxSize",
        "the most nodes there may be: leave it out for no limit",
    );
    if edit.get("/spec/minSize").is_some() {
        if !cluster.has_static_capacity() {
            let gates = cluster.feature_gates.as_deref().unwrap_or_default();
            let remedy = format!(
                "the cluster's karpenter.featureGates {gates:?} lack StaticCapacity=true, which a fixed number of nodes needs: \
                 add it"
            );
            edit.refuse("/spec/minSize", "", remedy);
        }
        if inputs.dynamic_before.contains(&name) {
            change_of_kind(
                edit,
                &name,
                "was not set before, and a NodePool that grows cannot become static",
            );
        }
    } else if inputs.fixed_before.contains(&name) {
        change_of_kind(
            edit,
            &name,
            "was set before, and a static NodePool cannot become one that grows",
        );
    }
    unknown(edit, inputs.allow_unknown);
}

fn change_of_kind(edit: &mut Edit, name: &str, why: &str) {
    let remedy = format!(
        "it {why}: delete it first, which drains its nodes: kubectl delete nodepool {name}"
    );
    edit.refuse("/spec/minSize", "", remedy);
}

fn size(edit: &mut Edit, field: &str, meaning: &str) {
    if let Some(size) = edit.get(field)
        && !size
            .as_i64()
            .is_some_and(|size| (1..=i64::from(i32::MAX)).contains(&size))
    {
        let value = size.to_string();
        edit.refuse(
            field,
            &value,
            format!("expected a number above 0, {meaning}"),
        );
    }
}

fn unknown(edit: &mut Edit, allow: bool) {
    let spec = edit.get("/spec").and_then(Value::as_object);
    let unknown: Vec<String> = spec
        .into_iter()
        .flat_map(Map::keys)
        .filter(|key| !fields::SPEC.contains(&key.as_str()))
        .cloned()
        .collect();
    for key in unknown.iter().filter(|_| !allow) {
        let remedy = "kOps has no such field: correct it, or skip it with --allow-unknown";
        edit.refuse(&format!("/spec/{}", escaped(key)), "", remedy);
    }
}

/// Labels of nodes: the cluster's kubelets', the group's kubelets', the role, the group's own; later ones win.
fn labels(edit: &mut Edit, cluster: &Cluster) -> BTreeMap<String, String> {
    let role = Map::from_iter([(fields::NODE_ROLE_LABEL.to_owned(), "".into())]);
    let all = [
        cluster.kubelet_labels.clone(),
        texts_by_name(edit, "/spec/kubelet/nodeLabels"),
        role,
        texts_by_name(edit, "/spec/nodeLabels"),
    ];
    let all = all.into_iter().flatten();
    all.map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Parses taints `key[=value]:effect`, each key and effect once.
fn taints(edit: &mut Edit) -> Vec<Value> {
    let values = edit.get("/spec/taints").and_then(Value::as_array).cloned();
    let values = values.unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut taints = Vec::new();
    for (number, value) in values.iter().enumerate() {
        let field = format!("/spec/taints/{number}");
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        match value.as_str().and_then(taint) {
            None => edit.refuse(
                &field,
                &text,
                "expected <key>=<value>:<effect> or <key>:<effect>",
            ),
            Some((key, _, effect)) if !seen.insert((key, effect)) => {
                edit.refuse(
                    &field,
                    &text,
                    "each key and effect may stand once: remove one",
                );
            }
            Some((_, _, "")) => edit.refuse(
                &field,
                &text,
                format!("Karpenter's taints have an effect: write it, such as {text}:NoSchedule"),
            ),
            Some((key, value, effect)) => {
                let mut taint = Map::new();
                taint.insert("key".to_owned(), key.into());
                if !value.is_empty() {
                    taint.insert("value".to_owned(), value.into());
                }
                taint.insert("effect".to_owned(), effect.into());
                taints.push(Value::Object(taint));
            }
        }
    }
    taints
}

fn taint(text: &str) -> Option<(&str, &str, &str)> {
    let (key, effect) = text.split_once(':').unwrap_or((text, ""));
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    let is_plain = |part: &str| !part.contains([':', '=']);
    let plain = is_plain(effect) && is_plain(value) && !key.is_empty();
    plain.then_some((key, value, effect))
}
