//! Capacity of a type's nodes, and the part that a node reserves for itself (docs/spec/aws.md#capacity-and-overhead).

use std::collections::BTreeMap;

use api::karpenter::{BlockDeviceMapping, EC2NodeClassSpec, InstanceStorePolicy, InterfaceType};
use api::karpenter::{KubeletSettings, MaxPods};
use model::{
    catalog::Overhead,
    quantity::Quantity,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources},
};

use super::{attachments, facts::InstanceTypeInfo, table};
use crate::{ProviderSettings, families::Family, launch::block_devices, resource};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// Upper bound on the pods of a node without another limit: the kubelet's default.
const PODS_DEFAULT: i64 = 110;
/// Size of the root volume where neither the NodeClass nor the image specifies one.
const EPHEMERAL_STORAGE_DEFAULT: i64 = 20 * GIB;
/// Memory, in MiB, that Arm instances reserve beyond x86 instances of the same size.
const ARM_RESERVED_MIB: i64 = 64;

pub(super) struct Node<'a> {
    pub(super) info: &'a InstanceTypeInfo,
    pub(super) family: Family,
    pub(super) spec: &'a EC2NodeClassSpec,
    pub(super) kubelet: &'a KubeletSettings,
    pub(super) settings: &'a ProviderSettings,
}

impl Node<'_> {
    /// The capacity; resources that the type has none of are left out.
    pub(super) fn capacity(&self) -> Resources {
        let mut capacity = Resources::from([
            (CPU, self.millicores()),
            (MEMORY, self.memory()),
            (PODS, self.pods()),
            (EPHEMERAL_STORAGE, self.ephemeral_storage()),
            (resource::NVIDIA_GPU, self.gpus("NVIDIA")),
            (resource::AMD_GPU, self.gpus("AMD")),
            (resource::GAUDI, self.gpus("Habana")),
            (resource::NEURON, self.neuron_devices()),
            (resource::NEURON_CORE, self.neuron_cores()),
            (resource::EFA, self.efa_interfaces()),
            (resource::POD_ENI, self.branch_interfaces().unwrap_or(0)),
        ]);
        if self.info.os(self.family) == Some("windows") {
            capacity.set(resource::PRIVATE_IPV4, self.private_addresses());
        }
        let always = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];
        capacity
            .0
            .retain(|name, amount| *amount != 0 || always.contains(&name.as_str()));
        capacity
    }

    pub(super) fn overhead(&self) -> Overhead {
        Overhead {
            kube_reserved: self.kube_reserved(),
            system_reserved: quantities(&self.kubelet.system_reserved),
            eviction_threshold: self.eviction_threshold(),
        }
    }

    /// Number of volumes of pods that can be attached besides the node's own volumes.
    pub(super) fn ebs_attach_limit(&self) -> Option<u32> {
        let own = block_devices(self.spec, self.family).map_or(1, |own| own.len());
        let interfaces = self.spec.network_interfaces.as_ref().map_or(0, Vec::len);
        attachments::limit(self.info, own, interfaces)
    }

    fn millicores(&self) -> i64 {
        self.info.vcpu_info.default_vcpus * 1000
    }

    fn memory(&self) -> i64 {
        let arm = match self.info.architecture() {
            Some("arm64") => ARM_RESERVED_MIB,
            _ => 0,
        };
        let mib = self.info.memory_info.size_in_mib - arm;
        (mib - self.settings.vm_memory_overhead.of(mib)) * MIB
    }

    pub(super) fn pods(&self) -> i64 {
        let pods = match self.kubelet.max_pods {
            Some(MaxPods::Count(count)) => i64::from(count),
            _ if self.family.limits_pods_by_interfaces() => {
                self.pods_by_interfaces(self.settings.reserved_enis)
            }
            _ => PODS_DEFAULT,
        };
        match self.kubelet.pods_per_core {
            Some(per_core) if per_core > 0 && self.family.honours_pods_per_core() => {
                pods.min(i64::from(per_core) * self.info.vcpu_info.default_vcpus)
            }
            _ => pods,
        }
    }

    /// Pods by the addresses of the interfaces: the VPC CNI gives every pod a secondary address of an interface; two pods run on the host's
    /// own address.
    fn pods_by_interfaces(&self, reserved: u32) -> i64 {
        let interfaces = self.spec.network_interfaces.as_deref().unwrap_or_default();
        let efa_only = interfaces.iter().filter(|interface| {
            interface.network_card_index == 0 && interface.interface_type == InterfaceType::EfaOnly
        });
        let efa_only = i64::try_from(efa_only.count()).unwrap_or(i64::MAX);
        let usable = self.info.default_interfaces() - i64::from(reserved) - efa_only;
        if usable <= 0 {
            return 0;
        }
        usable * (self.info.network_info.ipv4_addresses_per_interface - 1) + 2
    }

    fn ephemeral_storage(&self) -> i64 {
        let storage = self.info.instance_storage_info.as_ref();
        if self.spec.instance_store_policy == Some(InstanceStorePolicy::Raid0)
            && let Some(gigabytes) = storage.map(|storage| storage.total_size_in_gb)
            && gigabytes > 0
        {
            return gigabytes * 1_000_000_000;
        }
        let mappings = self.spec.block_device_mappings.as_deref();
        self.mapped_storage(mappings.unwrap_or_default())
            .unwrap_or_else(|| self.default_storage())
    }

    fn mapped_storage(&self, mappings: &[BlockDeviceMapping]) -> Option<i64> {
        let size = |mapping: &BlockDeviceMapping| {
            let size = mapping.ebs.as_ref()?.volume_size.as_ref()?;
            Some(size.as_str().parse::<Quantity>().ok()?.ceil())
        };
        if let Some(root) = mappings.iter().find(|m| m.root_volume == Some(true)) {
            return Some(size(root).unwrap_or(EPHEMERAL_STORAGE_DEFAULT));
        }
        if self.family == Family::Custom {
            return mappings
                .last()
                .map(|last| size(last).unwrap_or(EPHEMERAL_STORAGE_DEFAULT));
        }
        let device = self.family.ephemeral_device();
        mappings
            .iter()
            .find(|mapping| mapping.device_name.as_deref() == device)
            .and_then(size)
    }

    fn default_storage(&self) -> i64 {
        let device = self.family.ephemeral_device();
        let devices = self.family.default_block_devices();
        let default = devices
            .iter()
            .find(|volume| Some(volume.device_name.as_str()) == device);
        let gib = default.and_then(|volume| volume.volume_gib);
        gib.map_or(EPHEMERAL_STORAGE_DEFAULT, |gib| gib * GIB)
    }

    fn gpus(&self, manufacturer: &str) -> i64 {
        let gpus = self.info.gpu_info.iter().flat_map(|info| &info.gpus);
        gpus.filter(|gpu| gpu.manufacturer.as_deref() == Some(manufacturer))
            .map(|gpu| gpu.count)
            .sum()
    }

    fn neuron_devices(&self) -> i64 {
        let devices = self.info.neuron_info.iter();
        let devices = devices.flat_map(|info| &info.neuron_devices);
        devices.map(|device| device.count).sum()
    }

    fn neuron_cores(&self) -> i64 {
        let devices = self.info.neuron_info.iter();
        let mut devices = devices.flat_map(|info| &info.neuron_devices);
        devices
            .next()
            .map_or(0, |device| device.count * device.core_info.count)
    }

    fn efa_interfaces(&self) -> i64 {
        match &self.spec.network_interfaces {
            Some(interfaces) => {
                let efa_only = interfaces
                    .iter()
                    .filter(|interface| interface.interface_type == InterfaceType::EfaOnly);
                i64::try_from(efa_only.count()).unwrap_or(i64::MAX)
            }
            None => {
                let efa = self.info.network_info.efa_info.as_ref();
                efa.map_or(0, |efa| efa.maximum_efa_interfaces)
            }
        }
    }

    fn branch_interfaces(&self) -> Option<i64> {
        table::row_of(&self.info.instance_type).branch_interfaces
    }

    /// Number of private addresses; known for the types whose network limits are known.
    fn private_addresses(&self) -> i64 {
        match self.branch_interfaces() {
            Some(_) => self.info.network_info.ipv4_addresses_per_interface - 1,
            None => 0,
        }
    }

    fn kube_reserved(&self) -> Resources {
        // As upstream: on families that reserve by interfaces neither maxPods nor reservedENIs changes the memory.
        let pods = if self.family.reserves_memory_by_interfaces() {
            self.pods_by_interfaces(0)
        } else {
            self.pods()
        };
        let mut reserved = Resources::from([
            (CPU, reserved_millicores(self.millicores())),
            (MEMORY, (11 * pods + 255) * MIB),
            (EPHEMERAL_STORAGE, GIB),
        ]);
        reserved.0.extend(quantities(&self.kubelet.kube_reserved).0);
        reserved
    }

    fn eviction_threshold(&self) -> Resources {
        let storage = self.ephemeral_storage();
        let hard = |signal: &str, capacity: i64| {
            let text = self.kubelet.eviction_hard.get(signal)?;
            threshold(text, capacity)
        };
        Resources::from([
            (
                MEMORY,
                hard("memory.available", self.memory()).unwrap_or(100 * MIB),
            ),
            (
                EPHEMERAL_STORAGE,
                hard("nodefs.available", storage).unwrap_or_else(|| divided_up(storage, 10)),
            ),
        ])
    }
}

/// CPU that the kubelet reserves: 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the rest.
fn reserved_millicores(total: i64) -> i64 {
    const STEPS: [(i64, i64, i64); 4] = [
        (0, 1000, 600),
        (1000, 2000, 100),
        (2000, 4000, 50),
        (4000, i64::MAX, 25),
    ];
    STEPS
        .iter()
        .map(|(from, to, per_ten_thousand)| {
            (total.min(*to) - from).max(0) * per_ten_thousand / 10_000
        })
        .sum()
}

/// The entries that are quantities.
fn quantities(entries: &BTreeMap<String, String>) -> Resources {
    let mut resources = Resources::default();
    for (name, text) in entries {
        // Validation of the NodeClass reports entries that are not quantities.
        let _ = resources.set_quantity(name, text);
    }
    resources
}

/// An eviction threshold: a quantity, or a percentage of the capacity, rounded up. `100%` switches the threshold off.
fn threshold(text: &str, capacity: i64) -> Option<i64> {
    let Some(percent) = text.strip_suffix('%') else {
        return Some(text.parse::<Quantity>().ok()?.ceil());
    };
    const HUNDRED_PERCENT: i128 = 100_000;
    let percent = i128::from(percent.parse::<Quantity>().ok()?.milli());
    if percent == HUNDRED_PERCENT {
        return Some(0);
    }
    let product = i128::from(capacity) * percent;
    i64::try_from(-(-product).div_euclid(HUNDRED_PERCENT)).ok()
}

fn divided_up(amount: i64, divisor: i64) -> i64 {
    -(-amount).div_euclid(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_cpu_follows_the_steps() {
        for (vcpus, millicores) in [
            (1, 60),
            (2, 70),
            (4, 80),
            (8, 90),
            (32, 150),
            (96, 310),
            (192, 550),
        ] {
            assert_eq!(reserved_millicores(vcpus * 1000), millicores, "{vcpus}");
        }
    }

    #[test]
    fn eviction_thresholds_are_quantities_or_percentages() {
        assert_eq!(threshold("5%", 1001), Some(51));
        assert_eq!(threshold("5.5%", 1000), Some(55));
        assert_eq!(threshold("100%", 1000), Some(0));
        assert_eq!(threshold("200Mi", 1000), Some(200 * MIB));
    }
}
