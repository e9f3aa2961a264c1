//! The launch templates of a request: one for each group of types that boot alike (docs/spec/aws.md#launch-templates).

use std::collections::BTreeMap;

use api::karpenter::{Ami, EC2NodeClassSpec, InterfaceType, Switch};
use api::names::label;
use model::{
    CapacityType, InstanceType,
    catalog::{Offering, Overhead},
    launch::{
        ConnectionTracking, FleetOverride, Ipv6, LaunchTemplate, MetadataOptions, NetworkInterface,
        PlacementGroup, ReservationKind, ReservationUse, TemplateOverrides,
    },
    requirement::Requirements,
};
use sha2::{Digest, Sha256};

use super::{
    Claim, LaunchInput, LaunchRefusal,
    block_devices::block_devices,
    filters::{self, Candidate},
    not_ready,
};
use crate::{
    ami, cluster::IpFamily, compatibility::admits, expressions::is_expression, families::Family,
    placement::placement, resource, user_data, user_data::UserDataInput,
};

/// EC2's limit on user data in bytes, before base64.
const USER_DATA_MAX: usize = model::limits::ec2::USER_DATA_BYTES;

/// Properties that two types must share to boot from the same template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    image: String,
    efa_interfaces: i64,
    /// The kubelet's maxPods. Images of the family Custom get no such setting.
    pods: i64,
    /// Values of expressions in the kubelet's settings.
    reserved: Vec<(String, i64)>,
    reservation: Option<(String, ReservationKind)>,
    placement: Option<(String, Option<i32>)>,
}

/// Templates with their overrides, cheapest first within each; templates are in the order of their groups.
pub(super) fn templates(
    input: &LaunchInput<'_>,
    claim: Claim<'_>,
    pinned: &Requirements,
    candidates: &[Candidate<'_>],
    subnets: &BTreeMap<&str, &str>,
    tags: &BTreeMap<String, String>,
) -> Result<Vec<TemplateOverrides>, LaunchRefusal> {
    let class = input.node_class;
    let family = Family::of(&class.spec).map_err(|error| not_ready(error.to_string()))?;
    let status = class.status.as_ref();
    let images = status.and_then(|status| status.amis.as_deref());
    let mut groups: BTreeMap<Group, (&InstanceType, Vec<FleetOverride>)> = BTreeMap::new();
    let mut has_image = false;
    let expressions = if input.settings.node_class_cel {
        reserved_by_expressions(&class.spec)
    } else {
        Vec::new()
    };
    for candidate in candidates {
        let Some(image) = ami::first_that_fits(images.unwrap_or_default(), candidate.instance_type)
        else {
            continue;
        };
        has_image = true;
        for offering in &candidate.offerings {
            let Some(subnet) = subnets.get(offering.zone.as_str()) else {
                continue;
            };
            if !admits(pinned, offering) {
                continue;
            }
            let mut group = group(claim, family, candidate.instance_type, offering, image);
            if family != Family::Custom {
                group.reserved = reserved(&expressions, candidate.instance_type);
            }
            group.placement = placement(pinned, candidate.instance_type)
                .map(|placement| (placement.id, placement.partition));
            let of_group = groups
                .entry(group)
                .or_insert_with(|| (candidate.instance_type, Vec::new()));
            of_group.1.push(FleetOverride {
                instance_type: candidate.instance_type.name.clone(),
                zone: offering.zone.clone(),
                subnet: Some((*subnet).to_owned()),
                image: image.id.clone(),
                priority: offering.price.0,
            });
        }
    }
    if groups.is_empty() {
        return Err(nothing_to_ask_for(input, has_image));
    }
    let capacity_type = pinned
        .get(label::CAPACITY_TYPE)
        .and_then(|pinned| pinned.values.first());
    let capacity_type = capacity_type.map_or("", String::as_str);
    groups
        .into_iter()
        .map(|(group, (instance_type, mut overrides))| {
            overrides.sort_by(|a, b| {
                (a.priority, &a.instance_type, &a.zone).cmp(&(
                    b.priority,
                    &b.instance_type,
                    &b.zone,
                ))
            });
            overrides.dedup_by(|a, b| a.instance_type == b.instance_type && a.zone == b.zone);
            let boot = UserDataInput {
                cluster: input.cluster,
                node_class: class,
                labels: claim.labels,
                taints: &claim.spec.taints,
                startup_taints: &claim.spec.startup_taints,
                capacity_type,
                max_pods: filters::pods(instance_type),
                resolved: resolved(input, instance_type),
            };
            Ok(TemplateOverrides {
                template: template(input, claim, family, &group, &boot, tags)?,
                overrides,
            })
        })
        .collect()
}

/// The template of an on-demand launch of one type.
pub(super) fn of_one(
    input: &LaunchInput<'_>,
    claim: Claim<'_>,
    family: Family,
    instance_type: &InstanceType,
    tags: &BTreeMap<String, String>,
) -> Result<LaunchTemplate, LaunchRefusal> {
    let status = input.node_class.status.as_ref();
    let images = status.and_then(|status| status.amis.as_deref());
    let Some(image) = ami::first_that_fits(images.unwrap_or_default(), instance_type) else {
        return Err(nothing_to_ask_for(input, false));
    };
    let group = Group {
        image: image.id.clone(),
        efa_interfaces: 0,
        pods: filters::pods(instance_type),
        reserved: Vec::new(),
        reservation: None,
        placement: placement(&claim.requirements(), instance_type)
            .map(|placement| (placement.id, placement.partition)),
    };
    let boot = UserDataInput {
        cluster: input.cluster,
        node_class: input.node_class,
        labels: claim.labels,
        taints: &claim.spec.taints,
        startup_taints: &claim.spec.startup_taints,
        capacity_type: CapacityType::OnDemand.as_str(),
        max_pods: filters::pods(instance_type),
        resolved: resolved(input, instance_type),
    };
    template(input, claim, family, &group, &boot, tags)
}

fn resolved<'a>(input: &LaunchInput<'_>, instance_type: &'a InstanceType) -> Option<&'a Overhead> {
    let settings = input.settings;
    settings.node_class_cel.then_some(&instance_type.overhead)
}

/// Reserved resources whose amounts differ by instance type.
fn reserved_by_expressions(spec: &EC2NodeClassSpec) -> Vec<String> {
    let settings = spec.kubelet.as_ref().and_then(|k| k.settings().ok());
    let settings = settings.unwrap_or_default();
    let entries = settings
        .kube_reserved
        .iter()
        .chain(&settings.system_reserved);
    entries
        .filter(|(_, text)| is_expression(text))
        .map(|(resource, _)| resource.clone())
        .collect()
}

fn reserved(resources: &[String], instance_type: &InstanceType) -> Vec<(String, i64)> {
    let overhead = &instance_type.overhead;
    let of_both = |resource: &String| {
        [&overhead.kube_reserved, &overhead.system_reserved]
            .map(|reserved| (resource.clone(), reserved.get(resource)))
    };
    resources.iter().flat_map(of_both).collect()
}

fn nothing_to_ask_for(input: &LaunchInput<'_>, has_image: bool) -> LaunchRefusal {
    let name = &input.node_class.metadata.name;
    let message = if has_image {
        format!("EC2NodeClass {name} has no subnet in a zone where an instance type is available")
    } else {
        format!("no AMI in the status of EC2NodeClass {name} fits any of the instance types")
    };
    failed(message)
}

fn failed(message: String) -> LaunchRefusal {
    LaunchRefusal::Create {
        reason: LAUNCH_FAILED,
        message,
    }
}

pub(super) const LAUNCH_FAILED: &str = "LaunchFailed";

fn group(
    claim: Claim<'_>,
    family: Family,
    instance_type: &InstanceType,
    offering: &Offering,
    image: &Ami,
) -> Group {
    let efa_interfaces = instance_type.capacity.get(resource::EFA);
    let kind = filters::kind(offering).unwrap_or_default();
    Group {
        image: image.id.clone(),
        efa_interfaces: if filters::wants_efa(claim) {
            efa_interfaces
        } else {
            0
        },
        pods: if family == Family::Custom {
            0
        } else {
            filters::pods(instance_type)
        },
        reserved: Vec::new(),
        reservation: offering.reservation.as_ref().map(|r| (r.id.clone(), kind)),
        placement: None,
    }
}

/// The kind of reservation that a request's template launches into.
pub(super) fn reservation_kind(config: &TemplateOverrides) -> ReservationKind {
    match &config.template.reservation {
        ReservationUse::Only { kind, .. } => *kind,
        ReservationUse::Unspecified | ReservationUse::None => ReservationKind::Default,
    }
}

fn template(
    input: &LaunchInput<'_>,
    claim: Claim<'_>,
    family: Family,
    group: &Group,
    boot: &UserDataInput<'_>,
    tags: &BTreeMap<String, String>,
) -> Result<LaunchTemplate, LaunchRefusal> {
    let class = input.node_class;
    let status = class.status.as_ref();
    let groups = status.and_then(|status| status.security_groups.as_deref());
    let groups = groups.unwrap_or_default();
    if groups.is_empty() {
        let name = &class.metadata.name;
        return Err(failed(format!(
            "EC2NodeClass {name} has no security groups in its status"
        )));
    }
    let user_data = user_data::render(family, boot).map_err(|error| match error {
        user_data::UserDataError::NoServiceCidr => not_ready(error.to_string()),
        user_data::UserDataError::Mime(_)
        | user_data::UserDataError::Toml(_)
        | user_data::UserDataError::Kubelet(_) => failed(error.to_string()),
    })?;
    if user_data.len() > USER_DATA_MAX {
        return Err(LaunchRefusal::Create {
            reason: "UserDataSizeLimitExceeded",
            message: format!(
                "the user data, with the part that joins the node to the cluster, has {} bytes: expected at most {USER_DATA_MAX}; shorten spec.userData",
                user_data.len()
            ),
        });
    }
    let profile = status.and_then(|status| status.instance_profile.clone());
    let enclaves = enclaves(&class.spec, claim)?;
    let nested = class.spec.cpu_options.as_ref();
    let nested = nested.and_then(|options| options.nested_virtualization.as_ref());
    let mut template = LaunchTemplate {
        name: String::new(),
        image: group.image.clone(),
        user_data,
        instance_profile: profile.unwrap_or_default(),
        security_groups: groups.iter().map(|group| group.id.clone()).collect(),
        block_devices: block_devices(&class.spec, family)?,
        metadata: metadata(input),
        detailed_monitoring: class.spec.detailed_monitoring.unwrap_or(false),
        network_interfaces: interfaces(input, group.efa_interfaces),
        reservation: match &group.reservation {
            _ if !input.settings.reserved_capacity => ReservationUse::Unspecified,
            None => ReservationUse::None,
            Some((id, kind)) => ReservationUse::Only {
                id: id.clone(),
                kind: *kind,
            },
        },
        tenancy: tenancy(&claim.requirements()).to_owned(),
        placement_group: group
            .placement
            .as_ref()
            .map(|(id, partition)| PlacementGroup {
                id: id.clone(),
                partition: *partition,
            }),
        nested_virtualization: nested.map(|switch| *switch == Switch::Enabled),
        enclaves,
        tags: tags.clone(),
    };
    template.name = name(&template, boot.capacity_type);
    Ok(template)
}

/// Whether instances can run Nitro Enclaves: set by the EC2NodeClass, or else enabled if pods request them
/// (docs/spec/v1.15.md#enclaves).
fn enclaves(spec: &EC2NodeClassSpec, claim: Claim<'_>) -> Result<bool, LaunchRefusal> {
    let is_asked_for = claim.spec.requests.get(resource::ENCLAVES) > 0;
    match spec.enclave_options.as_ref().map(|options| options.enabled) {
        None => Ok(is_asked_for),
        Some(false) if is_asked_for => Err(LaunchRefusal::Create {
            reason: "NitroEnclavesDisabled",
            message: format!(
                "pods request {}, but spec.enclaveOptions.enabled of the EC2NodeClass is false: set it to true, or leave enclaveOptions out",
                resource::ENCLAVES
            ),
        }),
        Some(enabled) => Ok(enabled),
    }
}

/// Prefix of launch template names; the rest of a name is a digest, in decimal.
pub const TEMPLATE_PREFIX: &str = "karpenter.k8s.aws/";

/// The name of a template: a digest of its content. Spot templates tag other resources than the rest, so the capacity type is part of the
/// digest.
fn name(template: &LaunchTemplate, capacity_type: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(serde_json::json!(template).to_string());
    digest.update(capacity_type.as_bytes());
    let digest = digest.finalize();
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or(0));
    format!("{TEMPLATE_PREFIX}{}", u64::from_be_bytes(first))
}

/// The tenancy: `default` where the claim admits it.
pub(super) fn tenancy(requirements: &Requirements) -> &'static str {
    let admits = |value: &str| {
        let requirement = requirements.get(label::INSTANCE_TENANCY);
        requirement.is_none_or(|requirement| requirement.has(value))
    };
    if !admits("default") && admits("dedicated") {
        "dedicated"
    } else {
        "default"
    }
}

fn metadata(input: &LaunchInput<'_>) -> MetadataOptions {
    /// Regions whose EC2 does not know `HttpProtocolIpv6`.
    const REGIONS_WITHOUT_IPV6: [&str; 6] = [
        "us-iso-east-1",
        "us-iso-west-1",
        "us-isob-east-1",
        "us-isob-west-1",
        "us-isof-south-1",
        "us-isof-east-1",
    ];
    let options = &input.node_class.spec.metadata_options;
    let knows_ipv6 = !REGIONS_WITHOUT_IPV6.contains(&input.cluster.region.as_str());
    MetadataOptions {
        http_endpoint: Some(options.http_endpoint.to_string()),
        http_protocol_ipv6: knows_ipv6.then(|| options.http_protocol_ipv6.to_string()),
        http_put_response_hop_limit: Some(options.http_put_response_hop_limit),
        http_tokens: Some(options.http_tokens.to_string()),
    }
}

/// The NodeClass's own interfaces, or one for each EFA device asked for, or a single plain one.
fn interfaces(input: &LaunchInput<'_>, efa_interfaces: i64) -> Vec<NetworkInterface> {
    let spec = &input.node_class.spec;
    let plain = plain_interface(spec, input.cluster.ip_family());
    let own = spec.network_interfaces.as_deref().unwrap_or_default();
    if !own.is_empty() {
        let interface = |interface: &api::karpenter::NetworkInterface| {
            let carries_addresses = interface.interface_type != InterfaceType::EfaOnly;
            NetworkInterface {
                network_card_index: Some(interface.network_card_index),
                device_index: interface.device_index,
                interface_type: Some(interface.interface_type.to_string()),
                ..if carries_addresses {
                    plain.clone()
                } else {
                    NetworkInterface::default()
                }
            }
        };
        return own.iter().map(interface).collect();
    }
    if efa_interfaces > 0 {
        let efa = |card: i32| NetworkInterface {
            network_card_index: Some(card),
            device_index: i32::from(card != 0),
            interface_type: Some("efa".to_owned()),
            ..plain.clone()
        };
        let cards = i32::try_from(efa_interfaces).unwrap_or(i32::MAX);
        return (0..cards).map(efa).collect();
    }
    vec![plain]
}

fn plain_interface(spec: &EC2NodeClassSpec, ip_family: IpFamily) -> NetworkInterface {
    let (ipv4_prefixes, ipv6) = match ip_family {
        IpFamily::V4 => (spec.ip_prefix_count, None),
        IpFamily::V6 => {
            let ipv6 = Ipv6 {
                primary: true,
                addresses: 1,
                prefixes: spec.ip_prefix_count,
            };
            (None, Some(ipv6))
        }
    };
    let tracking = spec.connection_tracking.as_ref();
    NetworkInterface {
        associate_public_ip: spec.associate_public_ip_address,
        ipv4_prefixes,
        ipv6,
        connection_tracking: tracking.map(|tracking| ConnectionTracking {
            tcp_established: tracking.tcp_established_timeout,
            udp_stream: tracking.udp_stream_timeout,
            udp: tracking.udp_timeout,
        }),
        ..NetworkInterface::default()
    }
}
