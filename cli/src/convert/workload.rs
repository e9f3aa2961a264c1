//! Pods, nodes and what makes pods: annotations and tolerations that have other names now (spec/migrate §1.4).

use serde_json::{Value, json};

use super::{
    edit::{Edit, escaped},
    names,
};

pub(super) fn convert(edit: &mut Edit) {
    let (_, kind) = edit.type_of();
    let pod = match kind.as_str() {
        "Pod" | "Node" => "",
        "DaemonSet" | "Deployment" | "Job" | "ReplicaSet" | "StatefulSet" => "/spec/template",
        "CronJob" => "/spec/jobTemplate/spec/template",
        _ => return,
    };
    annotations(edit, &format!("{pod}/metadata"));
    tolerations(edit, &format!("{pod}/spec/tolerations"));
}

/// What kept pods and nodes from being disturbed, below this metadata.
pub(super) fn annotations(edit: &mut Edit, metadata: &str) {
    let field = |key: &str| format!("{metadata}/annotations/{}", escaped(key));
    let new = field(names::DO_NOT_DISRUPT);
    for old in [names::DO_NOT_EVICT, names::DO_NOT_CONSOLIDATE] {
        let Some(value) = edit.get(&field(old)).cloned() else {
            continue;
        };
        // Before the old one goes, so that the annotations do not vanish with it.
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
    let tolerations = edit.get(list).and_then(Value::as_array);
    let old: Vec<usize> = tolerations
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, one)| {
            one.get("key").and_then(Value::as_str) == Some("karpenter.sh/disruption")
        })
        .map(|(number, _)| number)
        .collect();
    for number in old {
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
