//! Attribute-based instance selection, as requirements for labels.

use api::names::label;
use serde_json::{Map, Value, json};

use super::group::Group;

const SIZE: &str = "karpenter.k8s.aws/instance-size";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";

/// Sizes of instance types without a hypervisor.
const METAL: [&str; 7] = [
    "metal",
    "metal-12xl",
    "metal-16xl",
    "metal-24xl",
    "metal-32xl",
    "metal-48xl",
    "metal-96xl",
];

/// Families whose instance types EC2 describes with `CurrentGeneration: false`.
const PREVIOUS_FAMILIES: [&str; 9] = ["c1", "c3", "g2", "i2", "m1", "m2", "m3", "r3", "t1"];

/// Classes of instance types that EC2 excludes by default.
const EXCLUDED: [&str; 2] = ["BareMetal", "BurstablePerformance"];

pub(super) fn read(group: &mut Group, attributes: &Value) {
    let Some(mut attributes) = attributes.as_object().cloned() else {
        return;
    };
    for field in EXCLUDED {
        let value = attributes.entry(field).or_insert(Value::Null);
        if value.is_null() {
            *value = "excluded".into();
        }
    }
    accelerators(group, &attributes);
    for (field, value) in &attributes {
        if restricts_nothing(value) {
            continue;
        }
        let texts = || texts(value);
        match (field.as_str(), value.as_str()) {
            ("VCpuCount", _) => bounds(group, "karpenter.k8s.aws/instance-cpu", value),
            ("MemoryMiB", _) => bounds(group, "karpenter.k8s.aws/instance-memory", value),
            ("TotalLocalStorageGB", _) => bounds(group, LOCAL_NVME, value),
            ("BaselineEbsBandwidthMbps", _) => bounds(group, label::INSTANCE_EBS_BANDWIDTH, value),
            ("NetworkBandwidthGbps", _) => {
                bounds(group, label::INSTANCE_NETWORK_BANDWIDTH, &megabits(value));
            }
            ("CpuManufacturers", _) => {
                let values = texts()
                    .into_iter()
                    .map(|name| manufacturer(&name).to_owned());
                group.require("karpenter.k8s.aws/instance-cpu-manufacturer", "In", values);
            }
            ("AllowedInstanceTypes", _) => types(group, field, &texts(), "In"),
            ("ExcludedInstanceTypes", _) => types(group, field, &texts(), "NotIn"),
            ("InstanceGenerations", _) => generations(group, &texts()),
            ("BareMetal", Some("required")) => group.require(SIZE, "In", METAL.map(str::to_owned)),
            ("BareMetal", _) => group.require(SIZE, "NotIn", METAL.map(str::to_owned)),
            ("BurstablePerformance", Some("required")) => {
                group.require(CATEGORY, "In", ["t".to_owned()]);
            }
            ("BurstablePerformance", _) => group.require(CATEGORY, "NotIn", ["t".to_owned()]),
            ("LocalStorage", Some("required")) => {
                group.about_pool(
                    "/spec/template/spec/requirements",
                    "LocalStorage required is local NVMe: types with other disks are left out",
                );
                group.require(LOCAL_NVME, "Exists", []);
            }
            ("LocalStorage", Some("excluded")) => group.require(LOCAL_NVME, "DoesNotExist", []),
            // The requirement restricts types with local storage, and the label counts SSDs only.
            ("LocalStorageTypes", _) if texts().iter().any(|kind| kind == "ssd") => {}
            // Both are read together.
            (
                "AcceleratorCount"
                | "AcceleratorManufacturers"
                | "AcceleratorNames"
                | "AcceleratorTypes",
                _,
            ) => {}
            (
                "SpotMaxPricePercentageOverLowestPrice"
                | "OnDemandMaxPricePercentageOverLowestPrice"
                | "MaxSpotPriceAsPercentageOfOptimalOnDemandPrice",
                _,
            ) => group.not_imported(
                &format!("InstanceRequirements.{field} {value}"),
                "no requirement bounds prices: of the types that fit the pods the cheapest are launched; name the types that are too dear \
                 in a requirement with NotIn",
            ),
            _ => group.refuse(
                &format!("InstanceRequirements.{field}"),
                &value.to_string(),
                "instance types have no label for it: name the types in Overrides instead",
            ),
        }
    }
}

/// Whether a value is AWS' default, which the CLI prints and which restricts nothing.
fn restricts_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text == "included",
        Value::Array(items) => items.is_empty(),
        Value::Object(bounds) => {
            let least = |value: &Value| value.as_f64() == Some(0.0);
            bounds
                .iter()
                .all(|(field, value)| value.is_null() || field == "Min" && least(value))
        }
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn texts(value: &Value) -> Vec<String> {
    let texts = value.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The label's value for a manufacturer.
fn manufacturer(name: &str) -> &str {
    match name {
        "amazon-web-services" => "aws",
        other => other,
    }
}

/// Converts generations. EC2 marks instance types as current or previous one by one, not by the number of their generation: of the third
/// generation m3 is a previous one, and of the second t2 a current one.
fn generations(group: &mut Group, generations: &[String]) {
    let operator = match generations {
        [only] if only == "current" => "NotIn",
        [only] if only == "previous" => "In",
        _ => return,
    };
    group.about_pool(
        "/spec/template/spec/requirements",
        format!(
            "InstanceGenerations {}: EC2 counts these families as previous generations",
            generations.concat()
        ),
    );
    let families = PREVIOUS_FAMILIES.map(str::to_owned);
    group.require(FAMILY, operator, families);
}

/// Converts accelerators. GPUs and other accelerators have labels of their own; types, names and manufacturers determine which of them are
/// meant.
fn accelerators(group: &mut Group, attributes: &Map<String, Value>) {
    let list = |field: &str| attributes.get(field).map(texts).unwrap_or_default();
    let (types, makers) = (list("AcceleratorTypes"), list("AcceleratorManufacturers"));
    let names = list("AcceleratorNames");
    let count = attributes
        .get("AcceleratorCount")
        .filter(|count| !restricts_nothing(count));
    let most = count.and_then(|count| count.get("Max")?.as_i64());
    if most == Some(0) {
        for kind in ["gpu", "accelerator"] {
            let key = format!("karpenter.k8s.aws/instance-{kind}-count");
            group.require(&key, "DoesNotExist", []);
        }
        return;
    }
    if count.is_none() && types.is_empty() && makers.is_empty() && names.is_empty() {
        return;
    }
    let is_gpus = |makers: &[String]| {
        let known = |maker: &String| ["amd", "nvidia"].contains(&maker.as_str());
        !makers.is_empty() && makers.iter().all(known)
    };
    let is_others = |makers: &[String]| {
        let known = |maker: &String| ["amazon-web-services", "habana"].contains(&maker.as_str());
        !makers.is_empty() && makers.iter().all(known)
    };
    let inference = ["inferentia", "inferentia2", "trainium", "trainium2"];
    let kind = match types.as_slice() {
        [only] if only == "gpu" => "gpu",
        [only] if only == "inference" => "accelerator",
        _ if is_gpus(&makers) => "gpu",
        _ if is_others(&makers) => "accelerator",
        [] if !names.is_empty() && names.iter().all(|name| inference.contains(&name.as_str())) => {
            "accelerator"
        }
        [] if makers.is_empty() && !names.is_empty() => "gpu",
        _ => {
            group.refuse(
                "InstanceRequirements.AcceleratorTypes",
                &types.join(", "),
                "GPUs and other accelerators have labels of their own: name one of them, such as AcceleratorTypes gpu",
            );
            return;
        }
    };
    let key = |what: &str| format!("karpenter.k8s.aws/instance-{kind}-{what}");
    match count {
        Some(count) => bounds(group, &key("count"), count),
        None => group.require(&key("count"), "Exists", []),
    }
    if !makers.is_empty() {
        let makers = makers.iter().map(|name| manufacturer(name).to_owned());
        group.require(&key("manufacturer"), "In", makers);
    }
    if !names.is_empty() {
        group.require(&key("name"), "In", names);
    }
}

fn bounds(group: &mut Group, key: &str, value: &Value) {
    for (field, operator) in [("Min", "Gte"), ("Max", "Lte")] {
        // AWS counts storage in fractions; labels have whole numbers.
        let bound = value.get(field).and_then(Value::as_f64);
        let Some(bound) = bound.filter(|bound| *bound > 0.0 || field == "Max") else {
            continue;
        };
        let whole = match field {
            "Min" => bound.ceil(),
            _ => bound.floor(),
        };
        group.require(key, operator, [format!("{whole:.0}")]);
    }
}

/// Bounds in Gbit/s as bounds in Mbit/s, the unit of the label.
fn megabits(value: &Value) -> Value {
    let bound = |field: &str| {
        value
            .get(field)
            .and_then(Value::as_f64)
            .map(|bound| bound * 1000.0)
    };
    json!({ "Min": bound("Min"), "Max": bound("Max") })
}

/// Converts types, and families as `m5.*`.
fn types(group: &mut Group, field: &str, patterns: &[String], operator: &str) {
    let (mut families, mut types) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let family = pattern.strip_suffix(".*");
        match family.filter(|family| !family.contains('*')) {
            Some(family) => families.push(family.to_owned()),
            None if !pattern.contains('*') => types.push(pattern.clone()),
            None => {
                let remedy = "expected instance types, or families such as m5.*: no requirement expresses other patterns";
                group.refuse(&format!("InstanceRequirements.{field}"), pattern, remedy);
            }
        }
    }
    if operator == "In" && !families.is_empty() && !types.is_empty() {
        let remedy = "families and types beside each other have no counterpart: name the types";
        group.refuse(
            &format!("InstanceRequirements.{field}"),
            &patterns.join(", "),
            remedy,
        );
        return;
    }
    for (key, values) in [
        (FAMILY, families),
        ("node.kubernetes.io/instance-type", types),
    ] {
        if !values.is_empty() {
            group.require(key, operator, values);
        }
    }
}
