//! Attribute-based instance selection, as requirements for labels.

use serde_json::Value;

use super::group::Group;

pub(super) fn read(group: &mut Group, attributes: &Value) {
    for (field, value) in attributes.as_object().into_iter().flatten() {
        let texts = || -> Vec<String> {
            let texts = value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        match field.as_str() {
            "VCpuCount" => bounds(group, "karpenter.k8s.aws/instance-cpu", value),
            "MemoryMiB" => bounds(group, "karpenter.k8s.aws/instance-memory", value),
            "AcceleratorCount" => {
                bounds(group, "karpenter.k8s.aws/instance-accelerator-count", value)
            }
            "CpuManufacturers" => {
                let values = texts().into_iter().map(|one| match one.as_str() {
                    "amazon-web-services" => "aws".to_owned(),
                    _ => one,
                });
                group.require("karpenter.k8s.aws/instance-cpu-manufacturer", "In", values);
            }
            "AllowedInstanceTypes" => types(group, field, &texts(), "In"),
            "ExcludedInstanceTypes" => types(group, field, &texts(), "NotIn"),
            "InstanceGenerations" if texts() == ["current"] => {
                group.about_pool(
                    "/spec/template/spec/requirements",
                    "InstanceGenerations current is generation 3 and above",
                );
                group.require(
                    "karpenter.k8s.aws/instance-generation",
                    "Gt",
                    ["2".to_owned()],
                );
            }
            "InstanceGenerations" => {}
            "BareMetal" => match value.as_str() {
                Some("required") => group.require(
                    "karpenter.k8s.aws/instance-size",
                    "In",
                    ["metal".to_owned()],
                ),
                Some("included") => {}
                _ => group.require(
                    "karpenter.k8s.aws/instance-size",
                    "NotIn",
                    ["metal".to_owned()],
                ),
            },
            "BurstablePerformance" => match value.as_str() {
                Some("required") => group.require(
                    "karpenter.k8s.aws/instance-category",
                    "In",
                    ["t".to_owned()],
                ),
                Some("included") => {}
                _ => group.require(
                    "karpenter.k8s.aws/instance-category",
                    "NotIn",
                    ["t".to_owned()],
                ),
            },
            "AcceleratorManufacturers" => {
                group.require(
                    "karpenter.k8s.aws/instance-accelerator-manufacturer",
                    "In",
                    texts(),
                );
            }
            // Prices bound what is chosen by themselves.
            "SpotMaxPricePercentageOverLowestPrice"
            | "OnDemandMaxPricePercentageOverLowestPrice"
            | "MaxSpotPriceAsPercentageOfOptimalOnDemandPrice" => {}
            _ => group.refuse(
                &format!("InstanceRequirements.{field}"),
                &value.to_string(),
                "no label says this of instance types: name the types in Overrides instead",
            ),
        }
    }
}

fn bounds(group: &mut Group, key: &str, value: &Value) {
    for (field, operator) in [("Min", "Gte"), ("Max", "Lte")] {
        if let Some(bound) = value.get(field).and_then(Value::as_i64) {
            group.require(key, operator, [bound.to_string()]);
        }
    }
}

/// Types, and families as `m5.*`.
fn types(group: &mut Group, field: &str, patterns: &[String], operator: &str) {
    let (mut families, mut types) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let family = pattern.strip_suffix(".*");
        match family.filter(|family| !family.contains('*')) {
            Some(family) => families.push(family.to_owned()),
            None if !pattern.contains('*') => types.push(pattern.clone()),
            None => {
                let remedy = "expected instance types, or families such as m5.*: no requirement says other patterns";
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
        ("karpenter.k8s.aws/instance-family", families),
        ("node.kubernetes.io/instance-type", types),
    ] {
        if !values.is_empty() {
            group.require(key, operator, values);
        }
    }
}
