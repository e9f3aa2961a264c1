//! The NodePool of a group (docs/spec/migrate.md#kops-node-pool).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{cluster::Cluster, manifest};
use crate::convert::edit::{Edit, escaped};

const POLICY: &str = "/spec/mixedInstancesPolicy";
const LABELS: &str = "/spec/template/metadata/labels";

pub(super) fn convert(
    edit: &mut Edit,
    cluster: &Cluster,
    labels: &BTreeMap<String, String>,
    taints: Vec<Value>,
) -> Edit {
    let mut requirements =
        vec![json!({ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] })];
    let types = instance_types(edit);
    let has_attributes = is_set(edit, &format!("{POLICY}/instanceRequirements"));
    if !types.is_empty() && !has_attributes {
        requirements.push(json!({ "key": INSTANCE_TYPE, "operator": "In", "values": types }));
    }
    requirements
        .push(json!({ "key": CAPACITY_TYPE, "operator": "In", "values": capacity_types(edit) }));
    let first_of_policy = requirements.len();
    requirements.extend(by_attributes(edit));
    let ours = requirements.len() > first_of_policy;

    let (kept, dropped): (Vec<_>, Vec<_>) = labels.iter().partition(|(key, _)| is_safe(key));
    let kept: Map<String, Value> = kept
        .into_iter()
        .map(|(key, value)| (key.clone(), value.as_str().into()))
        .collect();
    let mut template = json!({
        "metadata": { "labels": kept },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": manifest::name(edit) },
            "requirements": requirements,
        },
    });
    if let (false, Some(spec)) = (
        taints.is_empty(),
        template.pointer_mut("/spec").and_then(Value::as_object_mut),
    ) {
        spec.insert("taints".to_owned(), Value::Array(taints));
    }
    let mut spec = Map::new();
    spec.insert("template".to_owned(), template);
    if let Some(replicas) = edit.get("/spec/minSize") {
        spec.insert("replicas".to_owned(), replicas.clone());
    }
    if let Some(nodes) = edit.get("/spec/maxSize") {
        spec.insert("limits".to_owned(), json!({ "nodes": nodes.to_string() }));
    }
    let mut pool = manifest::object(
        edit,
        cluster,
        "karpenter.sh/v1",
        "NodePool",
        Value::Object(spec),
    );
    for (key, value) in dropped {
        pool.comment(
            LABELS,
            format!("label {key}: {value:?} is left out: v1 keeps it for itself"),
        );
    }
    if ours {
        pool.comment(
            &format!("/spec/template/spec/requirements/{first_of_policy}"),
            "from spec.mixedInstancesPolicy.instanceRequirements, which kOps uses from 1.37 on",
        );
    }
    if has_attributes && !types.is_empty() {
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        pool.warn(format!(
            "spec.machineType and spec.mixedInstancesPolicy.instances ({}) are left out, as in kOps: \
             spec.mixedInstancesPolicy.instanceRequirements replaces them",
            types.join(", ")
        ));
    }
    for text in purchase_remarks(edit) {
        pool.warn(text);
    }
    if let Some(replicas) = edit.get("/spec/minSize") {
        pool.comment("/spec/replicas", format!("was spec.minSize: {replicas}"));
    }
    pool
}

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// Instance types of the policy and of machineType, which may be a list.
fn instance_types(edit: &Edit) -> BTreeSet<String> {
    let listed = edit
        .get(&format!("{POLICY}/instances"))
        .and_then(Value::as_array);
    let listed = listed.into_iter().flatten().filter_map(Value::as_str);
    let machine = edit.text_at("/spec/machineType").unwrap_or_default();
    listed
        .chain(machine.split(','))
        .map(str::trim)
        .filter(|instance_type| !instance_type.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_set(edit: &Edit, field: &str) -> bool {
    edit.get(field).is_some_and(|value| !value.is_null())
}

/// Remarks on parts of the purchase options that have no effect in kOps either.
fn purchase_remarks(edit: &Edit) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut report = |field: &str, why: &str| {
        if let Some(value) = edit
            .get(&format!("/spec/{field}"))
            .filter(|value| !value.is_null())
        {
            let field = field.replace('/', ".");
            remarks.push(format!("spec.{field} {value} {why}"));
        }
    };
    report(
        "maxPrice",
        "makes nodes spot, as in kOps, and bounds no price: spot instances are launched at the current price, at most the on-demand price",
    );
    report(
        "spotDurationInMinutes",
        "makes nodes spot, as in kOps, and bounds no duration",
    );
    let is_share = capacity_types(edit) == ["on-demand", "spot"];
    if is_share {
        report(
            "mixedInstancesPolicy/onDemandAboveBase",
            "is no share of on-demand nodes, as in kOps: spot comes first, on-demand where there is none",
        );
    }
    remarks
}

fn capacity_types(edit: &Edit) -> Vec<&'static str> {
    let is_set = |field: &str| is_set(edit, field);
    let above_base = edit
        .get(&format!("{POLICY}/onDemandAboveBase"))
        .and_then(Value::as_i64);
    match above_base {
        _ if is_set("/spec/maxPrice") || is_set("/spec/spotDurationInMinutes") => vec!["spot"],
        Some(..100) => vec!["on-demand", "spot"],
        Some(_) | None => vec!["on-demand"],
    }
}

/// Whether a label may be set: nodes do not get it elsewhere, and v1 does not refuse it.
fn is_safe(key: &str) -> bool {
    if key == CAPACITY_TYPE {
        return true;
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let reserved = ["karpenter.sh", "karpenter.k8s.aws"];
    let within = |reserved: &str| {
        domain == reserved
            || domain
                .strip_suffix(reserved)
                .is_some_and(|sub| sub.ends_with('.'))
    };
    key != "kubernetes.io/hostname" && !reserved.into_iter().any(within)
}

/// Requirements of a mixed-instances policy that selects instances by attributes.
fn by_attributes(edit: &mut Edit) -> Vec<Value> {
    let at = format!("{POLICY}/instanceRequirements");
    let Some(wanted) = edit.get(&at).and_then(Value::as_object).cloned() else {
        return Vec::new();
    };
    let mut requirements = Vec::new();
    for (field, value) in &wanted {
        let place = format!("{at}/{}", escaped(field));
        match field.as_str() {
            "cpu" => requirements.extend(bounds(
                edit,
                &place,
                value,
                "karpenter.k8s.aws/instance-cpu",
                cores,
            )),
            "memory" => {
                requirements.extend(bounds(
                    edit,
                    &place,
                    value,
                    "karpenter.k8s.aws/instance-memory",
                    mebibytes,
                ));
            }
            "excludedInstanceTypes" => requirements.extend(excluded(edit, &place, value)),
            _ => edit.refuse(&place, "", "expected cpu, memory or excludedInstanceTypes"),
        }
    }
    requirements
}

/// Converts a quantity to a whole number: the first not below it, or the last not above it.
type Rounded = fn(&str, Bound) -> Option<i64>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Min,
    Max,
}

fn bounds(edit: &mut Edit, at: &str, value: &Value, key: &str, rounded: Rounded) -> Vec<Value> {
    let mut requirements = Vec::new();
    for (name, bound, operator) in [("min", Bound::Min, "Gte"), ("max", Bound::Max, "Lte")] {
        let text = match value.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let number =
            rounded(&text, bound).filter(|number| (0..=i64::from(i32::MAX)).contains(number));
        match number {
            Some(number) => {
                requirements.push(
                    json!({ "key": key, "operator": operator, "values": [number.to_string()] }),
                );
            }
            None => edit.refuse(
                &format!("{at}/{name}"),
                &text,
                "expected a whole number of CPUs or an amount of memory from 0",
            ),
        }
    }
    requirements
}

fn cores(text: &str, _: Bound) -> Option<i64> {
    text.parse().ok()
}

fn mebibytes(text: &str, bound: Bound) -> Option<i64> {
    const MEBIBYTE: i64 = 1 << 20;
    let bytes = text.parse::<model::quantity::Quantity>().ok()?.ceil();
    match bound {
        Bound::Min => bytes
            .checked_add(MEBIBYTE - 1)
            .map(|bytes| bytes / MEBIBYTE),
        Bound::Max => Some(bytes / MEBIBYTE),
    }
}

/// Excluded types: `m5.*` excludes a family, `m5.large` a type; other patterns have no counterpart.
fn excluded(edit: &mut Edit, at: &str, value: &Value) -> Vec<Value> {
    let (mut families, mut types) = (BTreeSet::new(), BTreeSet::new());
    for (number, pattern) in value.as_array().into_iter().flatten().enumerate() {
        let pattern = pattern.as_str().unwrap_or_default();
        match pattern.strip_suffix(".*") {
            Some(family) if !family.is_empty() && !family.contains(['*', '.']) => {
                families.insert(family.to_owned());
            }
            None if !pattern.is_empty() && !pattern.contains('*') => {
                types.insert(pattern.to_owned());
            }
            Some(_) | None => {
                edit.refuse(
                    &format!("{at}/{number}"),
                    pattern,
                    "expected an instance type, or a family such as m5.*",
                );
            }
        }
    }
    [
        ("karpenter.k8s.aws/instance-family", families),
        (INSTANCE_TYPE, types),
    ]
    .into_iter()
    .filter(|(_, values)| !values.is_empty())
    .map(|(key, values)| json!({ "key": key, "operator": "NotIn", "values": values }))
    .collect()
}
