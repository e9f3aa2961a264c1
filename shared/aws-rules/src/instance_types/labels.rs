//! The labels of a type's nodes, one requirement for each (docs/spec/aws.md#label-values).

use std::collections::BTreeSet;

use api::{karpenter::CapacityReservation, names::label};
use model::{
    CapacityType,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use super::{facts::InstanceTypeInfo, offerings::LaunchLocations, table};
use crate::families::Family;

/// Label → values. A label that the type does not have gets no values, which means DoesNotExist.
pub(super) fn requirements(
    info: &InstanceTypeInfo,
    family: Family,
    place: &LaunchLocations<'_>,
) -> Requirements {
    let mut labels = Labels::default();
    identity(&mut labels, info, family);
    location(&mut labels, info, place);
    processor_and_memory(&mut labels, info);
    network_and_storage(&mut labels, info);
    accelerators(&mut labels, info);
    labels.0
}

#[derive(Default)]
struct Labels(Requirements);

impl Labels {
    fn set(&mut self, key: &str, values: impl IntoIterator<Item = impl Into<String>>) {
        let values: BTreeSet<String> = values.into_iter().map(Into::into).collect();
        self.0.add(Requirement::new(key, Operator::In, values));
    }

    fn set_if(&mut self, key: &str, value: Option<impl ToString>) {
        self.set(key, value.map(|value| value.to_string()));
    }
}

fn identity(labels: &mut Labels, info: &InstanceTypeInfo, family: Family) {
    let name = info.instance_type.as_str();
    let architecture = info.architecture();
    labels.set(label::INSTANCE_TYPE, [name]);
    labels.set_if(label::ARCH, architecture);
    labels.set_if(label::OS, info.os(family));
    labels.set_if(label::WINDOWS_BUILD, family.windows_build());
    let (category, generation) = category_and_generation(name).unzip();
    labels.set_if(label::INSTANCE_CATEGORY, category);
    labels.set_if(label::INSTANCE_GENERATION, generation);
    let (family, size) = name
        .split_once('.')
        .filter(|(_, size)| !size.contains('.'))
        .unzip();
    labels.set_if(label::INSTANCE_FAMILY, family);
    labels.set_if(label::INSTANCE_SIZE, size);
    let is_flex = name.split('.').next().is_some_and(|f| f.contains("-flex"));
    labels.set_if(label::INSTANCE_CAPABILITY_FLEX, Some(is_flex));
    labels.set(label::INSTANCE_TENANCY, ["default", "dedicated"]);
}

fn location(labels: &mut Labels, info: &InstanceTypeInfo, place: &LaunchLocations<'_>) {
    labels.set(label::ZONE, place.common_zones().map(|(zone, _)| zone));
    let ids = place.common_zones().map(|(_, id)| id);
    let ids: Vec<_> = ids.filter(|id| !id.is_empty()).collect();
    if !ids.is_empty() {
        labels.set(label::ZONE_ID, ids);
    }
    labels.set(label::REGION, [place.region]);
    let classes = info.supported_usage_classes.iter().map(String::as_str);
    let bought = classes.filter(|class| {
        [CapacityType::OnDemand, CapacityType::Spot]
            .iter()
            .any(|capacity_type| capacity_type.as_str() == *class)
    });
    let reservations = place.reservations.as_slice();
    let reserved = (!reservations.is_empty()).then(|| CapacityType::Reserved.as_str());
    labels.set(label::CAPACITY_TYPE, bought.chain(reserved));
    labels.set(
        label::CAPACITY_RESERVATION_ID,
        reservations
            .iter()
            .map(|reservation| reservation.id.as_str()),
    );
    labels.set(
        label::CAPACITY_RESERVATION_TYPE,
        reservations
            .iter()
            .map(|reservation| reservation.reservation_type.to_string()),
    );
    labels.set(
        label::CAPACITY_RESERVATION_INTERRUPTIBLE,
        reservations
            .iter()
            .map(|reservation| is_interruptible(reservation).to_string()),
    );
    if let Some(group) = place.group {
        labels.set(label::PLACEMENT_GROUP_ID, [group.group_id.as_str()]);
        let partitions: Vec<_> = group
            .partitions()
            .map(|number| number.to_string())
            .collect();
        if !partitions.is_empty() {
            labels.set(label::PLACEMENT_GROUP_PARTITION, partitions);
        }
    }
}

pub(super) fn is_interruptible(reservation: &CapacityReservation) -> bool {
    reservation.interruptible.unwrap_or(false)
}

fn processor_and_memory(labels: &mut Labels, info: &InstanceTypeInfo) {
    let processor = &info.processor_info;
    labels.set_if(label::INSTANCE_CPU, Some(info.vcpu_info.default_vcpus));
    labels.set_if(
        label::INSTANCE_CPU_MANUFACTURER,
        processor.manufacturer.as_deref().map(lower_kebab),
    );
    labels.set_if(
        label::INSTANCE_CPU_CLOCK_SPEED,
        Some(megahertz(
            processor.sustained_clock_speed_in_ghz.unwrap_or_default(),
        )),
    );
    labels.set_if(label::INSTANCE_MEMORY, Some(info.memory_info.size_in_mib));
    let hypervisor = info.hypervisor.as_deref().unwrap_or("");
    labels.set(label::INSTANCE_HYPERVISOR, [hypervisor]);
    let enclaves = info.nitro_enclaves_support.as_deref() == Some("supported");
    labels.set_if(label::NITRO_SANDBOX, Some(enclaves));
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "clock speeds are a few thousand megahertz; a label, not a decision"
)]
fn megahertz(gigahertz: f64) -> i64 {
    (gigahertz * 1000.0).round() as i64
}

fn network_and_storage(labels: &mut Labels, info: &InstanceTypeInfo) {
    let ebs = &info.ebs_info;
    let optimized = ebs.ebs_optimized_info.as_ref();
    let optimized = optimized.filter(|_| ebs.ebs_optimized_support.as_deref() == Some("default"));
    labels.set_if(
        label::INSTANCE_EBS_BANDWIDTH,
        optimized.and_then(|optimized| optimized.maximum_bandwidth_in_mbps),
    );
    labels.set_if(
        label::INSTANCE_NETWORK_BANDWIDTH,
        table::row_of(&info.instance_type).network_bandwidth_mbps,
    );
    labels.set_if(
        label::INSTANCE_ENCRYPTION_IN_TRANSIT,
        Some(info.network_info.encryption_in_transit_supported),
    );
    let storage = info.instance_storage_info.as_ref();
    let nvme = storage.filter(|storage| {
        let support = storage.nvme_support.as_deref();
        support.is_some_and(|support| support != "unsupported")
    });
    labels.set_if(
        label::INSTANCE_LOCAL_NVME,
        nvme.map(|nvme| nvme.total_size_in_gb),
    );
}

fn accelerators(labels: &mut Labels, info: &InstanceTypeInfo) {
    let gpu = match info.gpu_info.as_ref().map(|info| info.gpus.as_slice()) {
        Some([gpu]) => Some(gpu),
        _ => None,
    };
    labels.set_if(
        label::INSTANCE_GPU_NAME,
        gpu.and_then(|gpu| gpu.name.as_deref()).map(lower_kebab),
    );
    labels.set_if(
        label::INSTANCE_GPU_MANUFACTURER,
        gpu.and_then(|gpu| gpu.manufacturer.as_deref())
            .map(lower_kebab),
    );
    labels.set_if(label::INSTANCE_GPU_COUNT, gpu.map(|gpu| gpu.count));
    labels.set_if(
        label::INSTANCE_GPU_MEMORY,
        gpu.map(|gpu| gpu.memory_info.size_in_mib),
    );

    let neuron = info.neuron_info.as_ref();
    let accelerator: Option<(Option<&str>, Option<&str>, i64)> = match (
        neuron.map(|info| info.neuron_devices.as_slice()),
        info.inference_accelerator_info.as_ref(),
    ) {
        (Some([device]), _) => Some((device.name.as_deref(), Some("aws"), device.count)),
        (Some(_), _) => None,
        (None, Some(info)) => match info.accelerators.as_slice() {
            [accelerator] => Some((
                accelerator.name.as_deref(),
                accelerator.manufacturer.as_deref(),
                accelerator.count,
            )),
            _ => None,
        },
        (None, None) => None,
    };
    labels.set_if(
        label::INSTANCE_ACCELERATOR_NAME,
        accelerator.and_then(|(name, ..)| name).map(lower_kebab),
    );
    labels.set_if(
        label::INSTANCE_ACCELERATOR_MANUFACTURER,
        accelerator
            .and_then(|(_, manufacturer, _)| manufacturer)
            .map(lower_kebab),
    );
    labels.set_if(
        label::INSTANCE_ACCELERATOR_COUNT,
        accelerator.map(|(.., count)| count),
    );
}

fn lower_kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

/// Category and generation in an instance type's name: `m7i-flex.large` → m and 7; `u-6tb1.metal` → u and 1; `u7i-12tb.224xlarge` → u and
/// 7.
fn category_and_generation(name: &str) -> Option<(&str, &str)> {
    let (family, _) = name.split_once('.')?;
    let (category, rest) = split_at_first(family, |c| !c.is_ascii_lowercase());
    let rest = without_terabytes(rest).unwrap_or(rest);
    let (generation, _) = split_at_first(rest, |c| !c.is_ascii_digit());
    (!category.is_empty() && !generation.is_empty()).then_some((category, generation))
}

/// The text after a size in terabytes: `-6tb1` → `1`.
fn without_terabytes(text: &str) -> Option<&str> {
    let (terabytes, rest) = split_at_first(text.strip_prefix('-')?, |c| !c.is_ascii_digit());
    (!terabytes.is_empty())
        .then(|| rest.strip_prefix("tb"))
        .flatten()
}

fn split_at_first(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn category_and_generation_are_parsed_from_the_name() {
        for (name, expected) in [
            ("m5.large", Some(("m", "5"))),
            ("u-6tb1.metal", Some(("u", "1"))),
            ("u7i-12tb.224xlarge", Some(("u", "7"))),
            ("m7i-flex.large", Some(("m", "7"))),
            ("trn1.2xlarge", Some(("trn", "1"))),
            ("mac2-m2.metal", Some(("mac", "2"))),
            ("nonsense", None),
            ("5m.large", None),
        ] {
            assert_eq!(category_and_generation(name), expected, "{name}");
        }
    }
}
