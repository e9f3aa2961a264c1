//! Auto Scaling groups, as `aws autoscaling describe-auto-scaling-groups` prints them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    group::{Group, Source, TemplateRef},
    objects::EXPIRE_AFTER,
    requirements, tags,
    unit::Unit,
};

pub(super) fn read(answer: &Value, file: &str) -> Result<Vec<Group>> {
    let groups = answer.get("AutoScalingGroups").and_then(Value::as_array).with_context(|| {
        format!("{file} holds no AutoScalingGroups: give what `aws autoscaling describe-auto-scaling-groups` prints")
    })?;
    Ok(groups.iter().map(|group| read_group(group, file)).collect())
}

fn read_group(asg: &Value, file: &str) -> Group {
    let text = |field: &str| asg.get(field).and_then(Value::as_str);
    let number = |field: &str| asg.get(field).and_then(Value::as_i64).unwrap_or(0);
    let sizes = (
        number("MinSize"),
        number("DesiredCapacity"),
        number("MaxSize"),
    );
    let name = text("AutoScalingGroupName").unwrap_or_default();
    let mut group = Group::new(Source::Asg, file, name, sizes);
    let subnets = text("VPCZoneIdentifier").unwrap_or_default().split(',');
    group.subnets = subnets
        .map(str::trim)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect();
    if group.subnets.is_empty() {
        group.refuse(
            "VPCZoneIdentifier",
            "",
            "a group outside a VPC has no counterpart: add its subnets",
        );
    }
    let policy = asg.get("MixedInstancesPolicy");
    let template = asg
        .get("LaunchTemplate")
        .or_else(|| policy?.pointer("/LaunchTemplate/LaunchTemplateSpecification"));
    group.template = template.map(template_ref);
    if template.is_none() {
        let configuration = text("LaunchConfigurationName")
            .unwrap_or_default()
            .to_owned();
        group.refuse(
            "LaunchConfigurationName",
            &configuration,
            "launch configurations are not read: copy it to a launch template first (EC2 console: Copy to launch template)",
        );
    }
    if let Some(policy) = policy {
        mixed(&mut group, policy);
    }
    tags::read(&mut group, asg.get("Tags"));
    if let Some(seconds) = asg.get("MaxInstanceLifetime").and_then(Value::as_i64)
        && seconds > 0
    {
        group.lifetime = Some(seconds);
        group.about_pool(EXPIRE_AFTER, format!("was MaxInstanceLifetime: {seconds}"));
    }
    if let Some(name) = text("PlacementGroup").filter(|name| !name.is_empty()) {
        let selector = json!({ "name": name });
        group
            .class
            .insert("placementGroupSelector".to_owned(), selector);
    }
    match text("DesiredCapacityType") {
        Some("vcpu") => group.unit = Unit::Cpu,
        Some("memory-mib") => group.unit = Unit::MebibyteOfMemory,
        _ => {}
    }
    remarks(&mut group, asg);
    group
}

/// Reads the weights of instance types, in which the group's sizes are counted; a type without one weighs 1.
fn weights(group: &mut Group, overrides: &[&Value]) {
    let weight = |entry: &&Value| {
        let weight = entry.get("WeightedCapacity")?;
        let text = || weight.as_str()?.parse().ok();
        weight.as_i64().or_else(text)
    };
    if !overrides.iter().any(|entry| weight(entry).is_some()) {
        return;
    }
    let weights = || {
        overrides
            .iter()
            .map(|entry| weight(entry).unwrap_or(1).clamp(1, i64::from(i32::MAX)))
    };
    let (least, most) = (weights().min().unwrap_or(1), weights().max().unwrap_or(1));
    if most > 1 {
        group.unit = Unit::Weight { least, most };
    }
}

/// Fields without a counterpart in a NodePool, and the replacement for each.
const REMARKS: &[(&str, &str)] = &[
    ("AvailabilityZoneDistribution", ZONES),
    ("AvailabilityZoneImpairmentPolicy", ZONES),
    (
        "CapacityRebalance",
        "the annotation whittle.sh/rebalance: replace of the NodePool replaces nodes on recommendations to rebalance",
    ),
    (
        "CapacityReservationSpecification",
        "name reservations by capacityReservationSelectorTerms of the EC2NodeClass",
    ),
    (
        "InstanceMaintenancePolicy",
        "budgets of the NodePool bound how many nodes are replaced at once",
    ),
    ("LifecycleHooks", "they end with the group"),
    ("LoadBalancerNames", BALANCERS),
    (
        "NewInstancesProtectedFromScaleIn",
        "the annotation karpenter.sh/do-not-disrupt keeps pods and nodes",
    ),
    ("SuspendedProcesses", "they end with the group"),
    ("TargetGroupARNs", BALANCERS),
    ("TrafficSources", BALANCERS),
    (
        "WarmPoolConfiguration",
        "Whittle keeps no stopped instances: a CapacityBuffer reserves capacity",
    ),
];
const BALANCERS: &str = "Whittle registers no nodes there: use a Service or a TargetGroupBinding of the AWS Load Balancer Controller";
const ZONES: &str = "topology spread constraints of pods spread them over zones";

fn remarks(group: &mut Group, asg: &Value) {
    for (field, why) in REMARKS {
        let says_something = match asg.get(field) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Bool(true) | Value::Number(_)) => true,
        };
        // The AWS CLI prints this value for an unset field.
        let is_default = asg.get(field)
            == Some(&json!({"CapacityDistributionStrategy": "balanced-best-effort"}))
            || asg.get(field) == Some(&json!({"CapacityReservationPreference": "default"}))
            || asg.get(field)
                == Some(&json!({"MinHealthyPercentage": -1, "MaxHealthyPercentage": -1}))
            || asg.get(field)
                == Some(
                    &json!({"ZonalShiftEnabled": false, "ImpairedZoneHealthCheckBehavior": "ReplaceUnhealthy"}),
                );
        if says_something && !is_default {
            group
                .warnings
                .push(format!("{field} of the group is not imported: {why}"));
        }
    }
}

/// The launch template version that a group, a policy or a managed node group names.
pub(super) fn template_ref(template: &Value) -> TemplateRef {
    let text = |fields: [&str; 2]| {
        let texts = fields
            .into_iter()
            .find_map(|field| template.get(field)?.as_str());
        texts.unwrap_or_default().to_owned()
    };
    let name = text(["LaunchTemplateName", "name"]);
    TemplateRef {
        template: match name.is_empty() {
            true => text(["LaunchTemplateId", "id"]),
            false => name.clone(),
        },
        by: match name.is_empty() {
            true => "id",
            false => "name",
        },
        version: text(["Version", "version"]),
    }
}

fn mixed(group: &mut Group, policy: &Value) {
    let overrides = policy
        .pointer("/LaunchTemplate/Overrides")
        .and_then(Value::as_array);
    let overrides: Vec<&Value> = overrides.into_iter().flatten().collect();
    let types: BTreeSet<String> = overrides
        .iter()
        .filter_map(|entry| Some(entry.get("InstanceType")?.as_str()?.to_owned()))
        .collect();
    if !types.is_empty() {
        group.about_pool(
            "/spec/template/spec/requirements",
            "the instance types of the group: more of them find more capacity, such as a whole instance-category",
        );
        group.require("node.kubernetes.io/instance-type", "In", types);
    }
    weights(group, &overrides);
    group.chooses_types = !overrides.is_empty();
    let attributes = overrides
        .iter()
        .filter_map(|entry| entry.get("InstanceRequirements"));
    let attributes: Vec<&Value> = attributes.collect();
    match attributes.as_slice() {
        [] => {}
        [only] => requirements::read(group, only),
        several => group.refuse(
            "Overrides.InstanceRequirements",
            &format!("{} of them", several.len()),
            "a NodePool has requirements once: import a group for each",
        ),
    }
    for (number, entry) in overrides.iter().enumerate() {
        let own = entry.get("LaunchTemplateSpecification").map(template_ref);
        if let Some(own) = own.filter(|own| group.template.as_ref() != Some(own)) {
            group.refuse(
                &format!("Overrides.{number}.LaunchTemplateSpecification"),
                &own.template,
                "the nodes of a NodePool are launched from one EC2NodeClass: import a group for each launch template",
            );
        }
    }
    let distribution = policy.get("InstancesDistribution");
    let number = |field: &str| distribution?.get(field)?.as_i64();
    let base = number("OnDemandBaseCapacity").unwrap_or(0);
    group.capacity_types = match (
        base,
        number("OnDemandPercentageAboveBaseCapacity").unwrap_or(100),
    ) {
        (_, 100..) => vec!["on-demand"],
        (0, 0) => vec!["spot"],
        (_, percent) => {
            group.about_pool(
                "/spec/template/spec/requirements",
                format!(
                    "OnDemandBaseCapacity {base} and OnDemandPercentageAboveBaseCapacity {percent} have no counterpart: spot \
                     comes first, on-demand where there is none"
                ),
            );
            vec!["on-demand", "spot"]
        }
    };
    strategies(group, distribution.unwrap_or(&Value::Null));
}

/// Reports allocation strategies, which are fixed here, unless the group's strategy is the one used here.
fn strategies(group: &mut Group, distribution: &Value) {
    const ON_DEMAND: &str =
        "the cheapest on-demand type is launched; weights of NodePools set an order";
    const SPOT: &str =
        "spot types are chosen by capacity and price, as by price-capacity-optimized";
    let text = |field: &str| {
        let text = distribution.get(field).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let buys = |capacity_type: &str| group.capacity_types.contains(&capacity_type);
    let chooses = group.chooses_types;
    let mut lost = Vec::new();
    if let Some(price) = text("SpotMaxPrice") {
        lost.push((format!("SpotMaxPrice {price}"), super::market::ANY_PRICE));
    }
    let on_demand =
        text("OnDemandAllocationStrategy").filter(|strategy| *strategy != "lowest-price");
    if let Some(strategy) = on_demand.filter(|_| buys("on-demand") && chooses) {
        lost.push((format!("OnDemandAllocationStrategy {strategy}"), ON_DEMAND));
    }
    let spot =
        text("SpotAllocationStrategy").filter(|strategy| *strategy != "price-capacity-optimized");
    if let Some(strategy) = spot.filter(|_| buys("spot")) {
        lost.push((format!("SpotAllocationStrategy {strategy}"), SPOT));
    }
    // The number of pools applies to lowest-price only.
    let pools = distribution
        .get("SpotInstancePools")
        .and_then(Value::as_i64);
    if let Some(pools) = pools.filter(|_| buys("spot") && spot == Some("lowest-price")) {
        lost.push((format!("SpotInstancePools {pools}"), SPOT));
    }
    for (what, why) in lost {
        group.not_imported(&what, why);
    }
}
