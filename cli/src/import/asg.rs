//! Auto Scaling groups, as `aws autoscaling describe-auto-scaling-groups` prints them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    group::{Group, Source, TemplateRef},
    requirements, tags,
};

pub(super) fn read(answer: &Value, file: &str) -> Result<Vec<Group>> {
    let groups = answer.get("AutoScalingGroups").and_then(Value::as_array).with_context(|| {
        format!("{file} holds no AutoScalingGroups: give what `aws autoscaling describe-auto-scaling-groups` prints")
    })?;
    Ok(groups.iter().map(|group| one(group, file)).collect())
}

fn one(asg: &Value, file: &str) -> Group {
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
    for field in ["SuspendedProcesses", "LifecycleHooks"] {
        let is_set = asg
            .get(field)
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty());
        if is_set {
            group
                .warnings
                .push(format!("{field} of the group end with it"));
        }
    }
    group
}

/// The version that a group, a policy or a managed node group names.
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
            false => name,
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
        .filter_map(|one| Some(one.get("InstanceType")?.as_str()?.to_owned()))
        .collect();
    if !types.is_empty() {
        group.about_pool(
            "/spec/template/spec/requirements",
            "the instance types of the group: more of them find more capacity, such as a whole instance-category",
        );
        group.require("node.kubernetes.io/instance-type", "In", types);
    }
    if overrides
        .iter()
        .any(|one| one.get("WeightedCapacity").is_some())
    {
        group.warnings.push(
            "WeightedCapacity is not imported: nodes are counted by what pods ask of them"
                .to_owned(),
        );
    }
    if let Some(attributes) = overrides
        .iter()
        .find_map(|one| one.get("InstanceRequirements"))
    {
        requirements::read(group, attributes);
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
    for field in [
        "SpotMaxPrice",
        "SpotAllocationStrategy",
        "OnDemandAllocationStrategy",
    ] {
        let value = distribution
            .and_then(|one| one.get(field)?.as_str())
            .unwrap_or_default()
            .to_owned();
        if field == "SpotMaxPrice" && !value.is_empty() {
            group.warnings.push(format!("SpotMaxPrice {value} is not imported: spot costs what it costs, at most the on-demand price"));
        }
    }
}
