//! Compatibility of an instance type with a NodeClass (docs/spec/aws.md#compatibility).

use api::karpenter::{EC2NodeClassSpec, InterfaceType, NetworkInterface, Switch};

use super::facts::InstanceTypeInfo;
use crate::{families::Family, placement::PlacementGroupFact};

/// Whether the NodeClass cannot launch this type.
pub fn incompatible(
    info: &InstanceTypeInfo,
    family: Family,
    spec: &EC2NodeClassSpec,
    placement_group: Option<&PlacementGroupFact>,
) -> bool {
    let interfaces = spec.network_interfaces.as_deref();
    let lacks_interfaces = interfaces.is_some_and(|wanted| !has_interfaces(info, wanted));
    // The first Graviton generation lacks instructions that AL2023 needs.
    let cannot_boot = family == Family::Al2023 && info.instance_type.starts_with("a1.");
    let options = spec.cpu_options.as_ref();
    let nested = options.and_then(|options| options.nested_virtualization.as_ref());
    let mut features = info.processor_info.supported_features.iter();
    let cannot_nest = nested == Some(&Switch::Enabled)
        && !features.any(|feature| feature == "nested-virtualization");
    let is_nitro = info.hypervisor.as_deref() == Some("nitro");
    let cannot_track = spec.connection_tracking.is_some() && !is_nitro;
    let enclaves = spec.enclave_options.as_ref();
    let cannot_isolate = enclaves.is_some_and(|enclaves| enclaves.enabled)
        && info.nitro_enclaves_support.as_deref() != Some("supported");
    let strategies = &info.placement_group_info.supported_strategies;
    let cannot_be_placed =
        placement_group.is_some_and(|group| !strategies.contains(&group.strategy));
    lacks_interfaces
        || cannot_boot
        || cannot_nest
        || cannot_track
        || cannot_isolate
        || cannot_be_placed
}

fn has_interfaces(info: &InstanceTypeInfo, interfaces: &[NetworkInterface]) -> bool {
    let network = &info.network_info;
    let on_its_card = |interface: &NetworkInterface| {
        let card = network
            .network_cards
            .iter()
            .find(|card| card.network_card_index == i64::from(interface.network_card_index));
        card.is_some_and(|card| i64::from(interface.device_index) < card.maximum_network_interfaces)
    };
    let efa_only = interfaces
        .iter()
        .filter(|interface| interface.interface_type == InterfaceType::EfaOnly)
        .count();
    let efa_max = network.efa_info.as_ref();
    let efa_max = efa_max.map_or(0, |efa| efa.maximum_efa_interfaces);
    let ena = network.ena_support.as_deref();
    ena.is_some_and(|ena| ena != "unsupported")
        && !network.network_cards.is_empty()
        && interfaces.iter().all(on_its_card)
        && i64::try_from(efa_only).is_ok_and(|efa_only| efa_only <= efa_max)
}
