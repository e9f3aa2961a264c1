//! Tags by which an Auto Scaling group describes its nodes to Cluster Autoscaler.

use serde_json::{Value, json};

use super::group::Group;

/// Tag by which Cluster Autoscaler discovers groups.
pub(super) const ENABLED: &str = "k8s.io/cluster-autoscaler/enabled";
const DISCOVERY: &str = "k8s.io/cluster-autoscaler/";
const NODE_TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template/";
const EFFECTS: [&str; 3] = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
/// Prefixes of startup taints, which are removed without the user.
const STARTUP: [&str; 2] = [
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
];

pub(super) fn read(group: &mut Group, tags: Option<&Value>) {
    for tag in tags.and_then(Value::as_array).into_iter().flatten() {
        let part = |name: &str| tag.get(name).and_then(Value::as_str).unwrap_or_default();
        let (key, value) = (part("Key"), part("Value"));
        if let Some(about) = key.strip_prefix(NODE_TEMPLATE) {
            node_template(group, about, value);
        } else if let Some(cluster) = key.strip_prefix(DISCOVERY).filter(|_| key != ENABLED) {
            group.clusters.insert(cluster.to_owned());
        } else if key == ENABLED {
            let propagates = tag.get("PropagateAtLaunch") == Some(&Value::Bool(true));
            for member in &mut group.members {
                member.autoscaler_tag = Some((value.to_owned(), propagates));
            }
        } else if key == "eks:cluster-name" {
            group.clusters.insert(value.to_owned());
        } else if tag.get("PropagateAtLaunch") == Some(&Value::Bool(true)) {
            group.tag_instances(key, value);
        }
    }
}

fn node_template(group: &mut Group, about: &str, value: &str) {
    let (kind, name) = about.split_once('/').unwrap_or((about, ""));
    match kind {
        "label" => label(group, name, value, Origin::Group),
        "taint" => taint(group, name, value),
        "resources" => {
            if !["cpu", "memory", "ephemeral-storage"].contains(&name) {
                group.warnings.push(format!(
                    "resource {name}: {value} of a tag is not imported: a device plugin or a NodeOverlay declares it"
                ));
            }
        }
        "autoscaling-options" => option(group, name, value),
        _ => group.warnings.push(format!(
            "tag {NODE_TEMPLATE}{about}: {value} is not imported"
        )),
    }
}

/// The origin of a label or a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Tags of an Auto Scaling group, or fields of a managed node group.
    Group,
    /// User data, by which kubelets register: it overrides the group, which may be out of date.
    UserData,
}

/// Adds a label. Keys that instance types have become requirements, all others become labels.
pub(super) fn label(group: &mut Group, key: &str, value: &str, origin: Origin) {
    use api::names::label;
    if key.starts_with("eks.amazonaws.com/") || key.starts_with("alpha.eksctl.io/") {
        group.warnings.push(format!(
            "label {key} is not imported: it names the group; change the pods that select it"
        ));
    } else if key == label::CAPACITY_TYPE || key == label::HOSTNAME || key == label::NODE_POOL {
        group.warnings.push(format!(
            "label {key} is not imported: nodes get it automatically"
        ));
    } else if label::is_well_known(key) {
        group.require(key, "In", [value.to_owned()]);
    } else if is_new(group, &format!("label {key}"), value, origin) {
        group.labels.insert(key.to_owned(), value.to_owned());
    }
}

fn taint(group: &mut Group, key: &str, text: &str) {
    let (value, effect) = text.rsplit_once(':').unwrap_or(("", text));
    if !EFFECTS.contains(&effect) {
        group.warnings.push(format!(
            "taint {key} of a tag is not imported: {text:?} names no effect, expected <value>:<effect> with {}",
            EFFECTS.join(", ")
        ));
        return;
    }
    add_taint(group, key, value, effect, Origin::Group);
}

/// Whether a value is to be adopted. Of two different values the user data's wins; two of one origin conflict.
fn is_new(group: &mut Group, what: &str, value: &str, origin: Origin) -> bool {
    let said = group.said.get(what).cloned();
    match said {
        None => {
            let said = (value.to_owned(), origin);
            group.said.insert(what.to_owned(), said);
            true
        }
        Some((there, _)) if there == value => false,
        Some((there, Origin::Group)) if origin == Origin::UserData => {
            group.warnings.push(format!(
                "{what}: the group says {there:?}, the user data {value:?}, which its nodes register with: the user data's is imported"
            ));
            group
                .said
                .insert(what.to_owned(), (value.to_owned(), origin));
            true
        }
        Some((there, Origin::UserData)) if origin == Origin::Group => {
            group.warnings.push(format!(
                "{what}: the group says {value:?}, the user data {there:?}, which its nodes register with: the user data's is imported"
            ));
            false
        }
        Some((there, _)) => {
            let values = format!("{there:?} and {value:?}");
            group.refuse(what, &values, "a node has one of them: take the other out");
            false
        }
    }
}

/// Adds a taint; a node has one taint by key and effect.
pub(super) fn add_taint(group: &mut Group, key: &str, value: &str, effect: &str, origin: Origin) {
    if !is_new(group, &format!("taint {key}:{effect}"), value, origin) {
        return;
    }
    let mut taint = json!({ "effect": effect, "key": key });
    if let (false, Some(taint)) = (value.is_empty(), taint.as_object_mut()) {
        taint.insert("value".to_owned(), value.into());
    }
    let taints = match STARTUP.iter().any(|prefix| key.starts_with(prefix)) {
        true => &mut group.startup_taints,
        false => &mut group.taints,
    };
    let is_same = |other: &Value| {
        let part = |field: &str| other.get(field).and_then(Value::as_str);
        (part("key"), part("effect")) == (Some(key), Some(effect))
    };
    taints.retain(|other| !is_same(other));
    taints.push(taint);
}

fn option(group: &mut Group, name: &str, value: &str) {
    match name {
        "scaledownunneededtime" => match api::duration::parse_go_duration(value) {
            Some(_) => {
                group
                    .disruption
                    .insert("consolidateAfter".to_owned(), value.into());
            }
            None => group.warnings.push(format!(
                "option {name}: {value:?} of a tag is no duration, and is not imported"
            )),
        },
        "scaledownutilizationthreshold" if value.parse() == Ok(0.0_f64) => {
            group
                .disruption
                .insert("consolidationPolicy".to_owned(), "WhenEmpty".into());
        }
        _ => group.warnings.push(format!(
            "option {name}: {value} of a tag has no counterpart: nodes are consolidated by cost"
        )),
    }
}
