//! Devices that drivers of dynamic resource allocation publish on nodes of a type (docs/spec/v1.15.md#dra-devices), from the bundled table
//! `data/devices.tsv`. A type that is missing in the table has no known devices.

use std::{collections::BTreeMap, sync::LazyLock};

use model::{
    InstanceType,
    devices::{
        Allowed, Attribute, DRANET, Device, DeviceCapacity, NVIDIA_GPU, RequestPolicy, qualified,
    },
    quantity::Quantity,
};

use super::sharing::Sharing;
use crate::ProviderSettings;

const TABLE: &str = include_str!("../../data/devices.tsv");
const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
const MIB: i64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    gpus: u32,
    efa_interfaces: u32,
    product: &'static str,
    brand: &'static str,
    architecture: &'static str,
    compute: &'static str,
    memory: i64,
    /// Number of GPUs that share a PCIe root; `None` if the number is unknown.
    gpus_per_root: Option<u32>,
    /// Number of EFA interfaces at each PCIe root that has GPUs.
    efa_per_root: u32,
}

static ROWS: LazyLock<BTreeMap<&'static str, Row>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(row).collect()
});

fn row(line: &'static str) -> Option<(&'static str, Row)> {
    let mut columns = line.split('\t');
    let mut next = || columns.next();
    let name = next()?;
    let row = Row {
        gpus: next()?.parse().ok()?,
        efa_interfaces: next()?.parse().ok()?,
        product: next()?,
        brand: next()?,
        architecture: next()?,
        compute: next()?,
        memory: next()?.parse::<Quantity>().ok()?.ceil(),
        gpus_per_root: next()?.parse().ok(),
        efa_per_root: next()?.parse().unwrap_or(0),
    };
    Some((name, row))
}

/// `types` with the devices of drivers whose feature gates are on, shared as the NodeClass specifies.
pub fn with_devices(
    mut types: Vec<InstanceType>,
    sharing: Sharing,
    settings: &ProviderSettings,
) -> Vec<InstanceType> {
    for known in &mut types {
        known.devices = of_type(&known.name, sharing, settings);
    }
    types
}

pub(super) fn of_type(
    instance_type: &str,
    sharing: Sharing,
    settings: &ProviderSettings,
) -> Vec<Device> {
    let gates = settings.devices;
    let Some(row) = ROWS.get(instance_type).filter(|_| gates.claims) else {
        return Vec::new();
    };
    let gpus = (0..row.gpus).filter(|_| gates.nvidia_gpu);
    let interfaces = (0..row.efa_interfaces).filter(|_| gates.efa);
    gpus.map(|at| row.gpu(at, sharing))
        .chain(interfaces.map(|at| row.interface(at)))
        .collect()
}

impl Row {
    fn gpu(&self, at: u32, sharing: Sharing) -> Device {
        let text = |text: &str| Attribute::Text(text.to_owned());
        let unknown = |name: &str| Attribute::Unknown(name.to_owned());
        // A GPU whose root is unknown gets a separate root, so that no two GPUs count as neighbours.
        let root = at / self.gpus_per_root.unwrap_or(1).max(1);
        let own = [
            ("productName", text(self.product)),
            ("brand", text(self.brand)),
            ("architecture", text(self.architecture)),
            ("type", text("gpu")),
            (
                "cudaComputeCapability",
                Attribute::Version(self.compute.to_owned()),
            ),
            ("driverVersion", unknown("driver")),
            ("cudaDriverVersion", unknown("driver")),
        ];
        let own = own.map(|(name, value)| (qualified(name, NVIDIA_GPU), value));
        let pcie_root = (PCIE_ROOT.to_owned(), unknown(&format!("gpu-{root}")));
        Device {
            driver: NVIDIA_GPU.to_owned(),
            pool: String::new(),
            name: format!("gpu-{at}"),
            attributes: own.into_iter().chain([pcie_root]).collect(),
            capacity: self.gpu_capacity(sharing),
            is_shared: sharing != Sharing::None,
        }
    }

    fn gpu_capacity(&self, sharing: Sharing) -> BTreeMap<String, DeviceCapacity> {
        let range = |default, least, most| {
            let step = Some(MIB);
            Some(RequestPolicy {
                default: Some(default),
                allowed: Allowed::Range { least, most, step },
            })
        };
        let policy = match sharing {
            Sharing::None => None,
            Sharing::Memory => range(self.memory, MIB, Some(self.memory)),
            Sharing::Unlimited | Sharing::Shares(_) => range(0, 0, None),
        };
        let value = self.memory;
        let memory = ("memory", DeviceCapacity { value, policy });
        let shares = match sharing {
            Sharing::Shares(shares) => Some(("shares", of_shares(i64::from(shares)))),
            Sharing::None | Sharing::Memory | Sharing::Unlimited => None,
        };
        let all = [memory].into_iter().chain(shares);
        all.map(|(name, capacity)| (qualified(name, NVIDIA_GPU), capacity))
            .collect()
    }

    fn interface(&self, at: u32) -> Device {
        let root = at
            .checked_div(self.efa_per_root)
            .map_or_else(|| format!("efa-{at}"), |root| format!("gpu-{root}"));
        let text = |text: &str| Attribute::Text(text.to_owned());
        let own = [
            ("pciDevice", text("Elastic Fabric Adapter (EFA)")),
            ("pciVendor", text("Amazon.com, Inc.")),
            ("rdma", Attribute::Flag(true)),
        ];
        let own = own.map(|(name, value)| (qualified(name, DRANET), value));
        let pcie_root = (PCIE_ROOT.to_owned(), Attribute::Unknown(root));
        Device {
            driver: DRANET.to_owned(),
            pool: String::new(),
            name: format!("efa-{at}"),
            attributes: own.into_iter().chain([pcie_root]).collect(),
            capacity: BTreeMap::new(),
            is_shared: false,
        }
    }
}

fn of_shares(shares: i64) -> DeviceCapacity {
    let allowed = Allowed::Range {
        least: 1,
        most: Some(shares),
        step: Some(1),
    };
    DeviceCapacity {
        value: shares,
        policy: Some(RequestPolicy {
            default: Some(1),
            allowed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api::DeviceSettings;

    use super::*;

    fn settings(nvidia_gpu: bool, efa: bool) -> ProviderSettings {
        let devices = DeviceSettings {
            claims: true,
            nvidia_gpu,
            efa,
        };
        ProviderSettings {
            devices,
            ..ProviderSettings::default()
        }
    }

    fn devices(instance_type: &str, nvidia_gpu: bool, efa: bool) -> Vec<Device> {
        of_type(instance_type, Sharing::None, &settings(nvidia_gpu, efa))
    }

    fn counts(instance_type: &str) -> [usize; 2] {
        let all = devices(instance_type, true, true);
        [NVIDIA_GPU, DRANET]
            .map(|driver| all.iter().filter(|device| device.driver == driver).count())
    }

    #[test]
    fn every_line_of_the_table_parses() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(ROWS.len(), lines.count());
        assert_eq!(counts("g5.8xlarge"), [1, 1]);
        assert_eq!(counts("p5en.48xlarge"), [8, 16]);
        assert_eq!(counts("m5.large"), [0, 0]);
    }

    #[test]
    fn each_driver_has_its_own_gate() {
        let drivers = |nvidia, efa| {
            let all = devices("p5.48xlarge", nvidia, efa);
            let drivers = all.into_iter().map(|device| device.driver);
            let drivers: BTreeSet<String> = drivers.collect();
            Vec::from_iter(drivers)
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(drivers(false, false), none);
        assert_eq!(drivers(true, false), [NVIDIA_GPU]);
        assert_eq!(drivers(false, true), [DRANET]);
        let ignored = ProviderSettings::default();
        assert_eq!(of_type("p5.48xlarge", Sharing::None, &ignored), []);
    }

    #[test]
    fn gpus_have_the_capacity_of_their_model() {
        let all = devices("p5e.48xlarge", true, false);
        let gpu = all.first().unwrap();
        let attribute = |name: &str| gpu.attributes.get(&qualified(name, NVIDIA_GPU)).cloned();
        let text = |text: &str| Some(Attribute::Text(text.to_owned()));
        assert_eq!(attribute("productName"), text("NVIDIA H200"));
        assert_eq!(attribute("architecture"), text("Hopper"));
        assert_eq!(
            attribute("cudaComputeCapability"),
            Some(Attribute::Version("9.0.0".to_owned()))
        );
        let memory = DeviceCapacity {
            value: 140 << 30,
            policy: None,
        };
        let capacity = gpu.capacity.get("gpu.nvidia.com/memory");
        assert_eq!(capacity, Some(&memory));
    }

    /// Number of GPUs and of interfaces at the PCIe root of the first GPU.
    fn at_first_root(instance_type: &str) -> [usize; 2] {
        let all = devices(instance_type, true, true);
        let root = |device: &Device| device.attributes.get(PCIE_ROOT).cloned();
        let first = all.first().and_then(root);
        [NVIDIA_GPU, DRANET].map(|driver| {
            let own = all.iter().filter(|device| device.driver == driver);
            own.filter(|device| root(device) == first).count()
        })
    }

    #[test]
    fn gpus_and_interfaces_share_known_pcie_roots() {
        assert_eq!(at_first_root("p5.48xlarge"), [1, 4]);
        assert_eq!(at_first_root("p4d.24xlarge"), [2, 1]);
        assert_eq!(at_first_root("g5.12xlarge"), [4, 0]);
        assert_eq!(at_first_root("g6.48xlarge"), [1, 0]);
    }

    #[test]
    fn shared_gpus_offer_shares_and_memory() {
        let policy = |sharing, name: &str| {
            let all = of_type("g6.xlarge", sharing, &settings(true, false));
            let gpu = all.into_iter().next().unwrap();
            assert_eq!(gpu.is_shared, sharing != Sharing::None);
            let capacity = gpu.capacity.get(&qualified(name, NVIDIA_GPU))?;
            capacity.policy.as_ref()?.default
        };
        assert_eq!(policy(Sharing::None, "memory"), None);
        assert_eq!(policy(Sharing::Memory, "memory"), Some(23_034 * MIB));
        assert_eq!(policy(Sharing::Unlimited, "memory"), Some(0));
        assert_eq!(policy(Sharing::Shares(4), "memory"), Some(0));
        assert_eq!(policy(Sharing::Shares(4), "shares"), Some(1));
    }
}
