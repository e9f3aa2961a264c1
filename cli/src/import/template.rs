//! Settings of a launch template, as fields of an EC2NodeClass.

use api::names::label;
use serde_json::{Map, Value, json};

use super::{group::Group, market, requirements, user_data};
use crate::launch_template::Version;

/// Fields without an effect that matters.
const COSMETIC: &[(&str, &str)] = &[
    (
        "CreditSpecification",
        "burstable instances have the account's default credits",
    ),
    (
        "DisableApiStop",
        "Whittle terminates the instances that it launches",
    ),
    (
        "DisableApiTermination",
        "Whittle terminates the instances that it launches",
    ),
    (
        "EbsOptimized",
        "current types are optimized for EBS without it",
    ),
    (
        "InstanceInitiatedShutdownBehavior",
        "an instance that shuts down is replaced",
    ),
    (
        "KeyName",
        "v1 has no SSH keys: use SSM Session Manager, or write the key in userData",
    ),
    ("MaintenanceOptions", "an impaired instance is replaced"),
    (
        "PrivateDnsNameOptions",
        "nodes are known by their provider id",
    ),
];

pub(super) fn read(group: &mut Group, version: &Version) {
    let data = version.data.as_object().cloned().unwrap_or_default();
    let has_family = group.class.contains_key("amiSelectorTerms");
    for (field, value) in &data {
        match field.as_str() {
            "ImageId" => image(group, value.as_str().unwrap_or_default()),
            "BlockDeviceMappings" => mappings(group, value),
            "SecurityGroupIds" => security_groups(group, value),
            "NetworkInterfaces" => interfaces(group, value),
            "IamInstanceProfile" => profile(group, value),
            "MetadataOptions" => metadata_options(group, value),
            "Monitoring" => {
                let enabled = value.get("Enabled") == Some(&Value::Bool(true));
                group.class.insert("detailedMonitoring".to_owned(), enabled.into());
            }
            "TagSpecifications" => tags(group, value),
            "Placement" => placement(group, value),
            "CapacityReservationSpecification" => market::reservation(group, value),
            "InstanceMarketOptions" => market::options(group, value),
            "InstanceType" | "InstanceRequirements" if group.chooses_types => {}
            "InstanceType" => {
                let named = |requirement: &Value| requirement.get("key").and_then(Value::as_str) == Some("node.kubernetes.io/instance-type");
                if !group.requirements.iter().any(named) {
                    let kind = value.as_str().unwrap_or_default().to_owned();
                    group.about_pool(
                        "/spec/template/spec/requirements",
                        "the one instance type of the launch template: more of them find more capacity",
                    );
                    group.require("node.kubernetes.io/instance-type", "In", [kind]);
                }
            }
            "InstanceRequirements" => requirements::read(group, value),
            "UserData" => {}
            _ if is_empty(value) => {}
            "HibernationOptions" if value.get("Configured") != Some(&Value::Bool(true)) => {}
            "EnclaveOptions" => {
                if value.get("Enabled") == Some(&Value::Bool(true)) {
                    let options = json!({ "enabled": true });
                    group.class.insert("enclaveOptions".to_owned(), options);
                }
            }
            _ => match COSMETIC.iter().find(|(cosmetic, _)| cosmetic == field) {
                Some((_, why)) => group.about_class("/spec", format!("{field} is left out: {why}")),
                None => group.refuse(
                    &format!("LaunchTemplateData.{field}"),
                    &value.to_string(),
                    "v1 has no such field: make a version of the launch template without it, and import that",
                ),
            },
        }
    }
    user_data::read(
        group,
        version.user_data.as_deref().unwrap_or_default(),
        has_family && !data.contains_key("ImageId"),
    );
}

fn image(group: &mut Group, image: &str) {
    let term = match image.strip_prefix("resolve:ssm:") {
        Some(parameter) => json!({ "ssmParameter": parameter }),
        None => json!({ "id": image }),
    };
    group
        .class
        .insert("amiSelectorTerms".to_owned(), json!([term]));
}

fn mappings(group: &mut Group, value: &Value) {
    const FIELDS: &[(&str, &str)] = &[
        ("DeleteOnTermination", "deleteOnTermination"),
        ("Encrypted", "encrypted"),
        ("Iops", "iops"),
        ("KmsKeyId", "kmsKeyID"),
        ("SnapshotId", "snapshotID"),
        ("Throughput", "throughput"),
        ("VolumeInitializationRate", "volumeInitializationRate"),
        ("VolumeType", "volumeType"),
    ];
    let mut mappings = Vec::new();
    for (number, mapping) in value.as_array().into_iter().flatten().enumerate() {
        let Some(ebs) = mapping.get("Ebs").and_then(Value::as_object) else {
            group.refuse(
                &format!("LaunchTemplateData.BlockDeviceMappings.{number}"),
                &mapping.to_string(),
                "only volumes of EBS have a counterpart: instance stores are used with instanceStorePolicy",
            );
            continue;
        };
        let mut volume = Map::new();
        for (old, new) in FIELDS {
            if let Some(value) = ebs.get(*old) {
                volume.insert((*new).to_owned(), value.clone());
            }
        }
        if let Some(size) = ebs.get("VolumeSize").and_then(Value::as_i64) {
            volume.insert("volumeSize".to_owned(), format!("{size}Gi").into());
        }
        let is_read =
            |field: &str| field == "VolumeSize" || FIELDS.iter().any(|(read, _)| *read == field);
        left_out(group, "BlockDeviceMappings.Ebs", ebs, is_read);
        mappings.push(json!({ "deviceName": mapping.get("DeviceName"), "ebs": volume }));
    }
    group
        .class
        .insert("blockDeviceMappings".to_owned(), mappings.into());
}

/// Whether a value is that of an unset field.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(true) => false,
    }
}

/// Reports fields without a counterpart.
pub(super) fn left_out(
    group: &mut Group,
    place: &str,
    fields: &Map<String, Value>,
    is_read: impl Fn(&str) -> bool,
) {
    for (field, value) in fields {
        if !is_read(field) && !is_empty(value) {
            group.warnings.push(format!(
                "{place}.{field}: {value} of the launch template is not imported: v1 has no such field"
            ));
        }
    }
}

fn security_groups(group: &mut Group, ids: &Value) {
    let terms: Vec<Value> = ids
        .as_array()
        .into_iter()
        .flatten()
        .map(|id| json!({ "id": id }))
        .collect();
    if !terms.is_empty() {
        group
            .class
            .insert("securityGroupSelectorTerms".to_owned(), terms.into());
    }
}

fn interfaces(group: &mut Group, value: &Value) {
    let interfaces: Vec<&Value> = value.as_array().into_iter().flatten().collect();
    let has_kind = |interface: &&Value| {
        let kind = interface.get("InterfaceType").and_then(Value::as_str);
        !["", "interface"].contains(&kind.unwrap_or_default())
    };
    if let Some(interface) = interfaces.iter().find(|interface| has_kind(interface)) {
        group.refuse(
            "LaunchTemplateData.NetworkInterfaces",
            &interface.to_string(),
            "only plain network interfaces are imported: write spec.networkInterfaces of the EC2NodeClass by hand",
        );
    } else if let [interface] = interfaces.as_slice() {
        // The only interface of each group is created with these fields.
        let is_read = |field: &str| {
            [
                "AssociatePublicIpAddress",
                "DeleteOnTermination",
                "DeviceIndex",
                "Groups",
                "InterfaceType",
                "NetworkCardIndex",
            ]
            .contains(&field)
        };
        if let Some(fields) = interface.as_object() {
            left_out(group, "NetworkInterfaces", fields, is_read);
        }
        security_groups(group, interface.get("Groups").unwrap_or(&Value::Null));
        if let Some(public) = interface.get("AssociatePublicIpAddress") {
            group
                .class
                .insert("associatePublicIPAddress".to_owned(), public.clone());
        }
    } else {
        let remedy = "only one network interface is imported: write spec.networkInterfaces of the EC2NodeClass by hand";
        group.refuse(
            "LaunchTemplateData.NetworkInterfaces",
            &interfaces.len().to_string(),
            remedy,
        );
    }
}

fn profile(group: &mut Group, value: &Value) {
    let part = |field: &str| value.get(field).and_then(Value::as_str);
    let name = part("Name").or_else(|| part("Arn")?.rsplit('/').next());
    if let Some(name) = name {
        group
            .class
            .insert("instanceProfile".to_owned(), name.into());
        group.about_class(
            "/spec/instanceProfile",
            "a role instead lets Whittle keep the profile itself: --role <name>",
        );
    }
}

fn metadata_options(group: &mut Group, value: &Value) {
    const FIELDS: &[(&str, &str)] = &[
        ("HttpEndpoint", "httpEndpoint"),
        ("HttpProtocolIpv6", "httpProtocolIPv6"),
        ("HttpPutResponseHopLimit", "httpPutResponseHopLimit"),
        ("HttpTokens", "httpTokens"),
    ];
    let mut options = Map::new();
    for (old, new) in FIELDS {
        if let Some(value) = value.get(*old) {
            options.insert((*new).to_owned(), value.clone());
        }
    }
    if value.get("InstanceMetadataTags").and_then(Value::as_str) == Some("enabled") {
        group.warnings.push(
            "InstanceMetadataTags enabled is not imported: v1 has no such field, and the metadata of instances will not hold their \
             tags"
                .to_owned(),
        );
    }
    group
        .class
        .insert("metadataOptions".to_owned(), Value::Object(options));
}

fn tags(group: &mut Group, value: &Value) {
    let specifications = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let of_instances = specifications.iter().filter(|specification| {
        specification.get("ResourceType").and_then(Value::as_str) == Some("instance")
    });
    let mut tags = Vec::new();
    for tag in of_instances
        .filter_map(|specification| specification.get("Tags")?.as_array())
        .flatten()
    {
        let part = |field: &str| tag.get(field).and_then(Value::as_str).unwrap_or_default();
        tags.push((part("Key").to_owned(), part("Value").to_owned()));
    }
    let is_of_instances =
        |key: &str, value: &str| tags.iter().any(|(own, text)| own == key && text == value);
    let others = specifications.iter().filter(|specification| {
        specification.get("ResourceType").and_then(Value::as_str) != Some("instance")
    });
    for specification in others {
        let kind = specification
            .get("ResourceType")
            .and_then(Value::as_str)
            .unwrap_or_default();
        for tag in specification
            .get("Tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let part = |field: &str| tag.get(field).and_then(Value::as_str).unwrap_or_default();
            let (key, value) = (part("Key"), part("Value"));
            if !is_of_instances(key, value) {
                group.warnings.push(format!(
                    "tag {key}: {value} of resource type {kind} is not imported: spec.tags are on instances and all that belongs to them"
                ));
            }
        }
    }
    for (key, value) in tags {
        group.tag_instances(&key, &value);
    }
}

fn placement(group: &mut Group, value: &Value) {
    for (field, value) in value.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        match (field.as_str(), text) {
            ("GroupName" | "GroupId" | "AvailabilityZone", "") => {}
            ("AvailabilityZone", zone) => group.require(label::ZONE, "In", [zone.to_owned()]),
            ("GroupName", name) => {
                group.class.insert("placementGroupSelector".to_owned(), json!({ "name": name }));
            }
            ("GroupId", id) => {
                group.class.insert("placementGroupSelector".to_owned(), json!({ "id": id }));
            }
            ("Tenancy", "default") => {}
            ("Tenancy", "dedicated") => group.require("karpenter.k8s.aws/instance-tenancy", "In", ["dedicated".to_owned()]),
            _ => group.refuse(
                &format!("LaunchTemplateData.Placement.{field}"),
                &value.to_string(),
                "only placement groups, zones and dedicated tenancy have a counterpart: keep this group as it is",
            ),
        }
    }
}
