//! EC2's description of instance types, in the form that DescribeInstanceTypes returns and `aws ec2 describe-instance-types` prints: the
//! fields that decisions need, all others ignored.

use std::collections::{BTreeMap, BTreeSet};

use model::NanosPerHour;
use serde::{Deserialize, Serialize};

use crate::families::Family;

/// The instance types that EC2 sells in a Region, with zones and prices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionCatalog {
    pub region: String,
    pub instance_types: Vec<InstanceTypeInfo>,
    /// Instance type → zones that offer it (DescribeInstanceTypeOfferings).
    pub zones: BTreeMap<String, BTreeSet<String>>,
    /// Instance type → price of an on-demand instance.
    pub on_demand: BTreeMap<String, NanosPerHour>,
    /// Instance type → zone → price of a spot instance. `None` until it is first read: on-demand prices are used instead.
    pub spot: Option<BTreeMap<String, BTreeMap<String, NanosPerHour>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceTypeInfo {
    pub instance_type: String,
    pub bare_metal: bool,
    /// `nitro` or `xen`; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// `on-demand`, `spot`, `capacity-block`.
    pub supported_usage_classes: Vec<String>,
    #[serde(rename = "VCpuInfo")]
    pub vcpu_info: VCpuInfo,
    pub processor_info: ProcessorInfo,
    pub memory_info: MemoryInfo,
    pub ebs_info: EbsInfo,
    pub network_info: NetworkInfo,
    pub gpu_info: Option<GpuInfo>,
    pub neuron_info: Option<NeuronInfo>,
    pub inference_accelerator_info: Option<InferenceAcceleratorInfo>,
    pub instance_storage_info: Option<InstanceStorageInfo>,
    /// `supported` or `unsupported`.
    pub nitro_enclaves_support: Option<String>,
    pub placement_group_info: PlacementGroupInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VCpuInfo {
    #[serde(rename = "DefaultVCpus")]
    pub default_vcpus: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProcessorInfo {
    /// `x86_64`, `arm64`, `i386` …
    pub supported_architectures: Vec<String>,
    pub sustained_clock_speed_in_ghz: Option<f64>,
    pub manufacturer: Option<String>,
    pub supported_features: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryInfo {
    #[serde(rename = "SizeInMiB")]
    pub size_in_mib: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EbsInfo {
    /// `default`, `supported` or `unsupported`.
    pub ebs_optimized_support: Option<String>,
    pub ebs_optimized_info: Option<EbsOptimizedInfo>,
    pub maximum_ebs_attachments: Option<u32>,
    /// `shared` with network interfaces and disks, or `dedicated`.
    pub attachment_limit_type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EbsOptimizedInfo {
    pub maximum_bandwidth_in_mbps: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkInfo {
    pub network_cards: Vec<NetworkCard>,
    pub default_network_card_index: i64,
    pub ipv4_addresses_per_interface: i64,
    pub efa_info: Option<EfaInfo>,
    /// `required`, `supported` or `unsupported`.
    pub ena_support: Option<String>,
    pub encryption_in_transit_supported: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkCard {
    pub network_card_index: i64,
    pub maximum_network_interfaces: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EfaInfo {
    pub maximum_efa_interfaces: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GpuInfo {
    pub gpus: Vec<Gpu>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Gpu {
    pub name: Option<String>,
    pub manufacturer: Option<String>,
    pub count: i64,
    pub memory_info: MemoryInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NeuronInfo {
    pub neuron_devices: Vec<NeuronDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NeuronDevice {
    pub name: Option<String>,
    pub count: i64,
    pub core_info: CoreInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CoreInfo {
    pub count: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InferenceAcceleratorInfo {
    pub accelerators: Vec<InferenceAccelerator>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InferenceAccelerator {
    pub name: Option<String>,
    pub manufacturer: Option<String>,
    pub count: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceStorageInfo {
    #[serde(rename = "TotalSizeInGB")]
    pub total_size_in_gb: i64,
    /// `required`, `supported` or `unsupported`.
    pub nvme_support: Option<String>,
    pub disks: Vec<Disks>,
}

/// A group of identical disks of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Disks {
    pub count: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlacementGroupInfo {
    /// Any of `cluster`, `partition` and `spread`.
    pub supported_strategies: Vec<String>,
}

impl InstanceTypeInfo {
    /// The architecture as Kubernetes names it: the first that nodes can run on.
    pub fn architecture(&self) -> Option<&'static str> {
        let supported = self.processor_info.supported_architectures.iter();
        supported
            .filter_map(|name| match name.as_str() {
                "x86_64" => Some("amd64"),
                "arm64" => Some("arm64"),
                _ => None,
            })
            .next()
    }

    /// The operating system as Kubernetes names it; there is no Windows for Arm.
    pub(crate) fn os(&self, family: Family) -> Option<&'static str> {
        match (family.is_windows(), self.architecture()) {
            (false, _) => Some("linux"),
            (true, Some("amd64")) => Some("windows"),
            (true, _) => None,
        }
    }

    /// Number of interfaces on the network card of the instance's primary address: the only card whose addresses pods get.
    pub(crate) fn default_interfaces(&self) -> i64 {
        let network = &self.network_info;
        let default = network
            .network_cards
            .iter()
            .find(|card| card.network_card_index == network.default_network_card_index);
        default.map_or(0, |card| card.maximum_network_interfaces)
    }
}
