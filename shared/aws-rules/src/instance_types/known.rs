//! Instance types of a catalog file, which were resolved for one NodeClass, converted to another NodeClass.

use api::{
    karpenter::{EC2NodeClass, EC2NodeClassSpec},
    names::label,
};
use model::{
    InstanceType,
    requirement::{Requirement, Requirements},
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS},
    selector::Operator,
};

use super::{
    EbsInfo, InstanceStorageInfo, InstanceTypeInfo, MemoryInfo, NetworkCard, NetworkInfo,
    ProcessorInfo, ResolveError, Sharing, VCpuInfo, attachments, capacity, default_pods, devices,
    fit,
};
use crate::{ProviderSettings, expressions::Expressions, families::Family, resource};

/// `types` with the pods, ephemeral storage, overhead and operating system of nodes of `class`. A catalog file contains how many pods a
/// type's interfaces have addresses for, but not the interfaces themselves: the interfaces that `class` lays out count as present.
///
/// # Errors
///
/// As [`super::instance_types`].
pub fn of_node_class(
    types: &[InstanceType],
    class: &EC2NodeClass,
    settings: &ProviderSettings,
) -> Result<Vec<InstanceType>, ResolveError> {
    let family = Family::of(&class.spec)?;
    let kubelet = class.spec.kubelet.as_ref().and_then(|k| k.settings().ok());
    let kubelet = Expressions::of(kubelet.unwrap_or_default(), settings.node_class_cel);
    let sharing = Sharing::of(class).unwrap_or_default();
    let spec = EC2NodeClassSpec {
        network_interfaces: None,
        cpu_options: None,
        ..class.spec.clone()
    };
    types
        .iter()
        .map(|known| (known, info(known)))
        // There is no Windows for arm64.
        .filter(|(_, info)| info.os(family).is_some())
        .map(|(known, info)| {
            let pods = default_pods(&info, family, &spec, settings);
            let resolved = kubelet.resolve(&info, pods);
            resolved.max_pods?;
            let node = capacity::Node {
                info: &info,
                family,
                spec: &spec,
                kubelet: &resolved.settings,
                settings,
            };
            let own = node.capacity();
            let mut found = known.clone();
            for name in [PODS, EPHEMERAL_STORAGE, resource::PRIVATE_IPV4] {
                if own.0.contains_key(name) {
                    found.capacity.set(name, own.get(name));
                }
            }
            found.overhead = node.overhead();
            found.ebs_attach_limit = node.ebs_attach_limit();
            let devices = devices::of_type(&found.name, sharing, settings);
            if !devices.is_empty() {
                found.devices = devices;
            }
            set(&mut found.requirements, label::OS, info.os(family));
            set(
                &mut found.requirements,
                label::WINDOWS_BUILD,
                family.windows_build(),
            );
            if fit::incompatible(&info, family, &spec, None) {
                for offering in &mut found.offerings {
                    offering.available = false;
                    offering.unpriced = false;
                }
            }
            Ok(found)
        })
        .collect()
}

/// `types` with the attachment limits of nodes with one volume, if the catalog file does not contain limits.
pub fn with_attach_limits(mut types: Vec<InstanceType>) -> Vec<InstanceType> {
    for known in &mut types {
        let limit = attachments::limit(&info(known), 1, 1);
        known.ebs_attach_limit = known.ebs_attach_limit.or(limit);
    }
    types
}

/// Replaces a label's value; `None` becomes DoesNotExist.
fn set(requirements: &mut Requirements, key: &str, value: Option<&str>) {
    let values = value.map(str::to_owned);
    let requirement = Requirement::new(key, Operator::In, values);
    requirements.0.insert(key.to_owned(), requirement);
}

/// EC2's description of a type, reconstructed from its labels and capacity.
fn info(known: &InstanceType) -> InstanceTypeInfo {
    let label = |key: &str| {
        let requirement = known.requirements.get(key)?;
        requirement.values.first().map(String::as_str)
    };
    let number = |key: &str| label(key).and_then(|text| text.parse::<i64>().ok());
    let memory = known.capacity.get(MEMORY) / (1 << 20);
    let architecture = label(label::ARCH).map(|name| match name {
        "amd64" => "x86_64",
        other => other,
    });
    InstanceTypeInfo {
        instance_type: known.name.clone(),
        hypervisor: label(label::INSTANCE_HYPERVISOR)
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        vcpu_info: VCpuInfo {
            default_vcpus: known.capacity.get(CPU) / 1000,
        },
        processor_info: ProcessorInfo {
            supported_architectures: architecture.into_iter().map(str::to_owned).collect(),
            ..ProcessorInfo::default()
        },
        memory_info: MemoryInfo {
            size_in_mib: number(label::INSTANCE_MEMORY).unwrap_or(memory),
        },
        // One interface with the addresses of all interfaces: two pods run on the node's own address.
        network_info: NetworkInfo {
            network_cards: vec![NetworkCard {
                network_card_index: 0,
                maximum_network_interfaces: 1,
            }],
            ipv4_addresses_per_interface: known.capacity.get(PODS) - 1,
            ..NetworkInfo::default()
        },
        ebs_info: ebs_info(label(label::INSTANCE_HYPERVISOR)),
        instance_storage_info: number(label::INSTANCE_LOCAL_NVME).map(|gigabytes| {
            InstanceStorageInfo {
                total_size_in_gb: gigabytes,
                nvme_support: Some("supported".to_owned()),
                disks: Vec::new(),
            }
        }),
        ..InstanceTypeInfo::default()
    }
}

/// Attachment limits by hypervisor, as AWS documents them: a catalog file does not contain them.
fn ebs_info(hypervisor: Option<&str>) -> EbsInfo {
    let (most, kind) = match hypervisor {
        Some("nitro") => (28, "shared"),
        Some("xen") => (39, "dedicated"),
        _ => (31, "dedicated"),
    };
    EbsInfo {
        maximum_ebs_attachments: Some(most),
        attachment_limit_type: Some(kind.to_owned()),
        ..EbsInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use model::{Resources, catalog::Overhead};

    use super::*;

    #[test]
    fn types_without_a_limit_get_the_documented_one() {
        let limits = [
            ("nitro", None),
            ("xen", None),
            ("", None),
            ("nitro", Some(7)),
        ];
        let types = limits.map(|(hypervisor, ebs_attach_limit)| {
            let mut requirements = Requirements::default();
            set(
                &mut requirements,
                label::INSTANCE_HYPERVISOR,
                Some(hypervisor),
            );
            InstanceType {
                name: "m5.large".to_owned(),
                requirements,
                capacity: Resources::default(),
                overhead: Overhead::default(),
                offerings: Vec::new(),
                ebs_attach_limit,
                devices: Vec::new(),
            }
        });
        let types = with_attach_limits(types.into()).into_iter();
        let limits: Vec<Option<u32>> = types.map(|known| known.ebs_attach_limit).collect();
        assert_eq!(limits, [Some(25), Some(38), Some(30), Some(7)]);
    }
}
