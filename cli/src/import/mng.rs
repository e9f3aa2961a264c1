//! Managed node groups, as `aws eks describe-nodegroup` prints them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    asg,
    group::{Group, Source},
    objects::gate_remedy,
    tags::{self, Origin},
};

pub(super) fn read(answer: &Value, file: &str) -> Result<Vec<Group>> {
    let group = answer.get("nodegroup").with_context(|| {
        format!("{file} holds no nodegroup: give what `aws eks describe-nodegroup` prints")
    })?;
    Ok(vec![read_group(group, file)])
}

fn read_group(mng: &Value, file: &str) -> Group {
    let text = |field: &str| mng.get(field).and_then(Value::as_str).unwrap_or_default();
    let texts = |field: &str| -> Vec<String> {
        let texts = mng
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let size = |field: &str| {
        let size = mng
            .pointer(&format!("/scalingConfig/{field}"))
            .and_then(Value::as_i64);
        size.unwrap_or(0)
    };
    let sizes = (size("minSize"), size("desiredSize"), size("maxSize"));
    let mut group = Group::new(Source::Mng, file, text("nodegroupName"), sizes);
    let cluster = text("clusterName").to_owned();
    group.clusters.insert(cluster.clone());
    group.subnets = texts("subnets").into_iter().collect();
    match text("capacityType") {
        "" | "ON_DEMAND" => {}
        "SPOT" => group.capacity_types = vec!["spot"],
        "CAPACITY_BLOCK" => {
            group.capacity_types = vec!["reserved"];
            group.refuse(
                "capacityType",
                "CAPACITY_BLOCK",
                "write an EC2NodeClass with capacityReservationSelectorTerms of the block's id by hand",
            );
        }
        other => {
            let other = other.to_owned();
            group.refuse(
                "capacityType",
                &other,
                "expected ON_DEMAND, SPOT or CAPACITY_BLOCK",
            );
        }
    }
    let types = texts("instanceTypes");
    if !types.is_empty() {
        group.require("node.kubernetes.io/instance-type", "In", types);
    }
    image(&mut group, text("amiType"), text("releaseVersion"));
    let role = text("nodeRole").rsplit('/').next().unwrap_or_default();
    group.class.insert("role".to_owned(), role.into());
    for (key, value) in mng
        .get("labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let value = value.as_str().unwrap_or_default();
        tags::label(&mut group, key, value, Origin::Group);
    }
    for taint in mng
        .get("taints")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let part = |field: &str| taint.get(field).and_then(Value::as_str).unwrap_or_default();
        let effect = match part("effect") {
            "NO_EXECUTE" => "NoExecute",
            "PREFER_NO_SCHEDULE" => "PreferNoSchedule",
            _ => "NoSchedule",
        };
        let (key, value) = (part("key"), part("value"));
        tags::add_taint(&mut group, key, value, effect, Origin::Group);
    }
    group.template = mng
        .get("launchTemplate")
        .filter(|value| !value.is_null())
        .map(asg::template_ref);
    if let Some(size) = mng.get("diskSize").and_then(Value::as_i64) {
        group.class.insert(
            "blockDeviceMappings".to_owned(),
            root(text("amiType"), size),
        );
    }
    if group.template.is_none() {
        // EKS gives a cluster's own security group this tag, and attaches the group to managed nodes.
        let term = json!([{ "tags": { "aws:eks:cluster-name": cluster } }]);
        group
            .class
            .insert("securityGroupSelectorTerms".to_owned(), term);
        group.about_class(
            "/spec/securityGroupSelectorTerms",
            "the cluster's security group, which EKS tags so",
        );
    }
    update(&mut group, mng.get("updateConfig"));
    if text("amiType").starts_with("AL2_") && !has_al2(text("version")) {
        group.warnings.push(crate::convert::NO_AL2.to_owned());
    }
    remarks(&mut group, mng);
    group
}

/// Whether EKS publishes AL2 images for a version of Kubernetes; an unknown version counts as having none.
fn has_al2(version: &str) -> bool {
    const LAST_MINOR: u32 = 32;
    let minor = version
        .strip_prefix("1.")
        .and_then(|minor| minor.parse().ok());
    minor.is_some_and(|minor: u32| minor <= LAST_MINOR)
}

/// Reports fields of a node group without a counterpart, and their replacements.
fn remarks(group: &mut Group, mng: &Value) {
    if let Some(key) = mng
        .pointer("/remoteAccess/ec2SshKey")
        .and_then(Value::as_str)
    {
        group.warnings.push(format!(
            "remoteAccess: the SSH key {key} and its security groups are not imported: use SSM Session Manager, or write the key in userData"
        ));
    }
    if let Some(config) = mng.get("nodeRepairConfig") {
        node_repair(group, config);
    }
    if let Some(strategy) = mng
        .pointer("/updateConfig/updateStrategy")
        .and_then(Value::as_str)
        .filter(|strategy| *strategy != "DEFAULT")
    {
        group.not_imported(
            &format!("updateConfig.updateStrategy {strategy}"),
            "a node goes when its replacement is ready; the feature gate terminateFirstDrift deletes drifted nodes first which cannot be \
             replaced first",
        );
    }
    if let Some(Value::Object(tags)) = mng.get("tags") {
        let own: Vec<&str> = tags
            .keys()
            .map(String::as_str)
            .filter(|key| {
                ![
                    "aws:",
                    "eks:",
                    "kubernetes.io/cluster",
                    "k8s.io/cluster-autoscaler/",
                ]
                .iter()
                .any(|prefix| key.starts_with(prefix))
            })
            .collect();
        if !own.is_empty() {
            group.warnings.push(format!(
                "tags {} of the node group are not imported: EKS does not hand them on to instances; spec.tags of the EC2NodeClass does",
                own.join(", ")
            ));
        }
    }
    let is_set = |value: &&Value| !value.is_null() && **value != json!({});
    if let Some(pool) = mng.get("warmPoolConfig").filter(is_set) {
        group.warnings.push(format!(
            "warmPoolConfig: {pool} is not imported: Whittle keeps no stopped instances; a CapacityBuffer reserves capacity"
        ));
    }
}

/// Reports repair settings: repair, and its limits, are settings of the cluster.
fn node_repair(group: &mut Group, config: &Value) {
    if config.get("enabled") != Some(&Value::Bool(true)) {
        return;
    }
    let cluster = group.clusters.first().map_or("<cluster>", String::as_str);
    let gate = gate_remedy("NodeRepair", "nodeRepair", cluster);
    group
        .warnings
        .push(format!("nodeRepairConfig: nodes are repaired where {gate}"));
    const FIXED: &str =
        "a NodePool of which more than a fifth of the nodes is unhealthy is not repaired";
    const BUDGET: &str = "a budget of the NodePool bounds how many are repaired at once";
    const TIMES: &str = "how long a condition is tolerated before a node is replaced is fixed";
    for (field, why) in [
        ("maxUnhealthyNodeThresholdCount", FIXED),
        ("maxUnhealthyNodeThresholdPercentage", FIXED),
        ("maxParallelNodesRepairedCount", BUDGET),
        ("maxParallelNodesRepairedPercentage", BUDGET),
        ("nodeRepairConfigOverrides", TIMES),
    ] {
        let value = config.get(field).unwrap_or(&Value::Null);
        if value.is_null() || *value == json!([]) {
            continue;
        }
        let example = match (why, field.ends_with("Percentage")) {
            (BUDGET, true) => format!(": {{nodes: {value}%, reasons: [Unhealthy]}}"),
            (BUDGET, false) => format!(": {{nodes: \"{value}\", reasons: [Unhealthy]}}"),
            _ => String::new(),
        };
        group.not_imported(
            &format!("nodeRepairConfig.{field} {value}"),
            &format!("{why}{example}"),
        );
    }
}

/// The family and the architecture of an AMI type.
fn image(group: &mut Group, kind: &str, release: &str) {
    let arch = match kind.contains("ARM_64") {
        true => "arm64",
        false => "amd64",
    };
    let family = match kind {
        "CUSTOM" | "" => {
            // The launch template determines the image.
            return;
        }
        _ if kind.contains("FIPS") || kind.contains("WINDOWS_FULL") => {
            let remedy = "no alias selects this image: write amiSelectorTerms with its ssmParameter or name by hand";
            group.refuse("amiType", kind, remedy);
            return;
        }
        _ if kind.starts_with("AL2023_") => "al2023",
        _ if kind.starts_with("AL2_") => "al2",
        _ if kind.starts_with("BOTTLEROCKET_") => "bottlerocket",
        _ if kind.starts_with("WINDOWS_") && kind.contains("2019") => "windows2019",
        _ if kind.starts_with("WINDOWS_") && kind.contains("2022") => "windows2022",
        _ if kind.starts_with("WINDOWS_") && kind.contains("2025") => "windows2025",
        _ => {
            let remedy = "expected an AMI type of AL2, AL2023, Bottlerocket or Windows, or CUSTOM";
            group.refuse("amiType", kind, remedy);
            return;
        }
    };
    group.class.insert(
        "amiSelectorTerms".to_owned(),
        json!([{ "alias": format!("{family}@latest") }]),
    );
    group.about_class("/spec/amiSelectorTerms", format!("was amiType: {kind}"));
    if let Some(version) = pinned(family, release) {
        group.release = Some(format!("{family}@{version}"));
    }
    let os = match family.starts_with("windows") {
        true => "windows",
        false => "linux",
    };
    group.require("kubernetes.io/os", "In", [os.to_owned()]);
    group.require("kubernetes.io/arch", "In", [arch.to_owned()]);
}

/// The pinned version: `v20240807` of `1.30.0-20240807`, `v1.20.4` of Bottlerocket's `1.20.4-fb4a2e3d`.
fn pinned(family: &str, release: &str) -> Option<String> {
    let (version, build) = release.split_once('-')?;
    match family {
        "al2" | "al2023" => Some(format!("v{build}")),
        "bottlerocket" => Some(format!("v{version}")),
        _ => None,
    }
}

fn root(kind: &str, size: i64) -> Value {
    let device = match kind {
        _ if kind.starts_with("BOTTLEROCKET_") => "/dev/xvdb",
        _ if kind.starts_with("WINDOWS_") => "/dev/sda1",
        _ => "/dev/xvda",
    };
    json!([{
        "deviceName": device, "ebs": { "volumeSize": format!("{size}Gi"), "volumeType": "gp3" }, "rootVolume": true,
    }])
}

fn update(group: &mut Group, config: Option<&Value>) {
    let number = |field: &str| config?.get(field)?.as_i64();
    let nodes = match (number("maxUnavailable"), number("maxUnavailablePercentage")) {
        (Some(nodes), _) => nodes.to_string(),
        (None, Some(percent)) => format!("{percent}%"),
        (None, None) => return,
    };
    group
        .disruption
        .insert("budgets".to_owned(), json!([{ "nodes": nodes }]));
    group.about_pool("/spec/disruption/budgets", "was updateConfig");
}
