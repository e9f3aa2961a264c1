//! Pods, nodes and workloads: annotations, tolerations and labels that have other names now (docs/spec/migrate.md#v1beta1-names,
//! docs/spec/migrate.md#provisioner).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    edit::{Edit, escaped, shown},
    leftovers, names,
};

pub(super) fn convert(edit: &mut Edit) {
    let (_, kind) = edit.type_of();
    let mut pods = BTreeSet::new();
    let known = match kind.as_str() {
        "Pod" | "Node" => Some(""),
        "DaemonSet" | "Deployment" | "Job" | "ReplicaSet" | "StatefulSet" => Some("/spec/template"),
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    };
    pods.extend(known.map(str::to_owned));
    find_pods(&edit.object, "", &mut pods);
    for pod in pods {
        annotations(edit, &format!("{pod}/metadata"));
        let spec = format!("{pod}/spec");
        tolerations(edit, &format!("{spec}/tolerations"));
        node_selector(edit, &format!("{spec}/nodeSelector"));
        node_affinity(edit, &format!("{spec}/affinity/nodeAffinity"));
        topology_keys(edit, &spec);
    }
    // Nodes keep the labels that they were made with.
    if kind != "Node" {
        leftovers::warn_of_old_names(edit);
    }
}

/// Adds the places of pods and of pod templates, in objects of any kind: their `spec` has containers.
fn find_pods(value: &Value, at: &str, pods: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if value
                .pointer("/spec/containers")
                .is_some_and(Value::is_array)
            {
                pods.insert(at.to_owned());
            }
            for (key, field) in fields {
                find_pods(field, &format!("{at}/{}", escaped(key)), pods);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                find_pods(item, &format!("{at}/{number}"), pods);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Moves the value of an old field to its new name. Where both stand, the new one stays.
pub(super) fn rename(edit: &mut Edit, old: &str, new: &str) {
    let Some(value) = edit.get(old).cloned() else {
        return;
    };
    let name = |field: &str| shown(field.rsplit('/').next().unwrap_or(field));
    // Before the old field is removed, so that the map of both does not vanish with it.
    match edit.get(new) {
        None => {
            edit.set(new, value);
            edit.comment(new, format!("was {}", name(old)));
        }
        Some(kept) if *kept != value => {
            let kept = kept.to_string();
            edit.warn(format!(
                "{} said {value}, and {} says {kept}: that stays",
                name(old),
                name(new)
            ));
        }
        Some(_) => {}
    }
    edit.take(old);
}

/// Renames the annotations below this metadata that protect pods and nodes from disruption.
pub(super) fn annotations(edit: &mut Edit, metadata: &str) {
    let field = |key: &str| format!("{metadata}/annotations/{}", escaped(key));
    let new = field(names::DO_NOT_DISRUPT);
    for old in [names::DO_NOT_EVICT, names::DO_NOT_CONSOLIDATE] {
        let Some(value) = edit.get(&field(old)).cloned() else {
            continue;
        };
        // Before the old annotation is removed, so that the map of annotations does not vanish with it.
        match edit.get(&new) {
            None => {
                edit.set(&new, value);
                let stronger = match old == names::DO_NOT_CONSOLIDATE {
                    true => ", which kept from consolidation alone: this keeps from drift, too",
                    false => "",
                };
                edit.comment(&new, format!("was {old}{stronger}"));
            }
            Some(kept) if *kept != value => {
                let kept = kept.to_string();
                edit.warn(format!(
                    "{old} said {value}, and {} says {kept}: that stays",
                    names::DO_NOT_DISRUPT
                ));
            }
            Some(_) => {}
        }
        edit.take(&field(old));
    }
}

fn tolerations(edit: &mut Edit, list: &str) {
    for number in with_key(edit, list, "karpenter.sh/disruption") {
        let field = format!("{list}/{number}");
        let effect = edit.get(&format!("{field}/effect")).cloned();
        let mut toleration = json!({ "key": "karpenter.sh/disrupted", "operator": "Exists" });
        if let (Some(effect), Some(map)) = (effect, toleration.as_object_mut()) {
            map.insert("effect".to_owned(), effect);
        }
        edit.set(&field, toleration);
        edit.comment(&field, "was karpenter.sh/disruption");
        edit.warn(
            "pods that tolerate karpenter.sh/disrupted stay on their node until its instance ends",
        );
    }
}

fn node_selector(edit: &mut Edit, selector: &str) {
    let label = |key: &str| format!("{selector}/{}", escaped(key));
    rename(
        edit,
        &label(names::PROVISIONER_NAME),
        &label(names::NODE_POOL_LABEL),
    );
    for (gone, remedy) in names::GONE_LABELS {
        if edit.get(&label(gone)).is_some() {
            edit.refuse(
                &label(gone),
                "",
                format!("no node has this label any more: {remedy}"),
            );
        }
    }
}

fn node_affinity(edit: &mut Edit, affinity: &str) {
    let required =
        format!("{affinity}/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    let preferred = format!("{affinity}/preferredDuringSchedulingIgnoredDuringExecution");
    for (list, below) in [(required, ""), (preferred, "/preference")] {
        let terms = edit
            .get(&list)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for number in 0..terms {
            expressions(edit, &format!("{list}/{number}{below}/matchExpressions"));
        }
    }
}

/// Adds expressions for both labels: while nodes of both versions run, a node that must be of neither must lack both labels.
fn expressions(edit: &mut Edit, list: &str) {
    for number in with_key(edit, list, names::PROVISIONER_NAME) {
        let field = format!("{list}/{number}");
        if edit.text_at(&format!("{field}/operator")) == Some("DoesNotExist") {
            if !with_key(edit, list, names::NODE_POOL_LABEL).is_empty() {
                continue;
            }
            let added = edit.get(list).and_then(Value::as_array).map_or(0, Vec::len);
            edit.push(
                list,
                json!({ "key": names::NODE_POOL_LABEL, "operator": "DoesNotExist" }),
            );
            edit.comment(
                &format!("{list}/{added}"),
                format!(
                    "as {}, which stays while nodes of both versions run",
                    names::PROVISIONER_NAME
                ),
            );
        } else {
            edit.set(&format!("{field}/key"), names::NODE_POOL_LABEL.into());
            edit.comment(&field, format!("was {}", names::PROVISIONER_NAME));
        }
    }
    for (gone, remedy) in names::GONE_LABELS {
        for number in with_key(edit, list, gone) {
            let field = format!("{list}/{number}/key");
            edit.refuse(
                &field,
                gone,
                format!("no node has this label any more: {remedy}"),
            );
        }
    }
}

fn topology_keys(edit: &mut Edit, spec: &str) {
    let mut lists = vec![(format!("{spec}/topologySpreadConstraints"), "")];
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = format!("{spec}/affinity/{kind}");
        lists.push((
            format!("{affinity}/requiredDuringSchedulingIgnoredDuringExecution"),
            "",
        ));
        lists.push((
            format!("{affinity}/preferredDuringSchedulingIgnoredDuringExecution"),
            "/podAffinityTerm",
        ));
    }
    for (list, below) in lists {
        let terms = edit
            .get(&list)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for number in 0..terms {
            let key = format!("{list}/{number}{below}/topologyKey");
            if edit.text_at(&key) == Some(names::PROVISIONER_NAME) {
                edit.set(&key, names::NODE_POOL_LABEL.into());
                edit.comment(&key, format!("was {}", names::PROVISIONER_NAME));
            }
        }
    }
}

/// Indices of the items of a list with this key.
fn with_key(edit: &Edit, list: &str, key: &str) -> Vec<usize> {
    edit.get(list)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, item)| item.get("key").and_then(Value::as_str) == Some(key))
        .map(|(number, _)| number)
        .collect()
}
