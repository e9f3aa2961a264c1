//! Dynamic resource allocation: devices of nodes, and the claims of pods for them (docs/spec/v1.15.md#dra).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{NodeName, PodKey, Uid},
    pod::NodeSelectorTerm,
};

/// Driver of NVIDIA's GPUs.
pub const NVIDIA_GPU: &str = "gpu.nvidia.com";
/// Driver of network interfaces (DRANET), among them those of EFA.
pub const DRANET: &str = "dra.net";

/// A cluster's objects of dynamic resource allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceObjects {
    pub classes: Vec<DeviceClass>,
    pub claims: Vec<ResourceClaim>,
    pub templates: Vec<ResourceClaimTemplate>,
    pub slices: Vec<ResourceSlice>,
}

impl DeviceObjects {
    pub fn is_empty(&self) -> bool {
        let Self {
            classes,
            claims,
            templates,
            slices,
        } = self;
        classes.is_empty() && claims.is_empty() && templates.is_empty() && slices.is_empty()
    }
}

/// A device as its driver publishes it, or as nodes of an instance type are known to have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub driver: String,
    /// Empty for a device of an instance type: its pool is that of a node that does not exist yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    pub name: String,
    /// By qualified name, such as `gpu.nvidia.com/productName`.
    pub attributes: BTreeMap<String, Attribute>,
    /// By qualified name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Several claims may each have a part of it (`allowMultipleAllocations`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shared: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    Text(String),
    Number(i64),
    Flag(bool),
    /// A semantic version.
    Version(String),
    /// Equal to the others of its node with the same text, and otherwise unknown: constraints can go by it, selectors cannot.
    Unknown(String),
}

/// An amount of something that a device has, in whole units rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCapacity {
    pub value: i64,
    /// Amounts that a claim may have of it, where the device is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RequestPolicy>,
}

/// Amounts that claims may have of a shared device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPolicy {
    /// Of claims that do not say; `None` is all.
    pub default: Option<i64>,
    pub allowed: Allowed,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Allowed {
    /// From `least` in steps to `most`: what lies between is rounded up.
    Range {
        least: i64,
        most: Option<i64>,
        step: Option<i64>,
    },
    /// Ascending: what lies between is rounded up. None at all allows any amount.
    Values(Vec<i64>),
}

impl Default for Allowed {
    fn default() -> Self {
        Self::Values(Vec::new())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClass {
    pub name: String,
    /// Expressions of CEL that a device has to meet, all of them.
    pub selectors: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceClaim {
    pub key: PodKey,
    pub spec: ClaimSpec,
    pub allocation: Option<Allocation>,
    /// Pods that may use it, once it is allocated.
    pub reserved_for: Vec<Uid>,
    /// The pod that it was generated for, and is deleted with.
    pub owner: Option<Uid>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceClaimTemplate {
    pub key: PodKey,
    pub spec: ClaimSpec,
}

/// The devices that a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimSpec {
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<MatchAttribute>,
    /// Parts of it that are not supported, in the user's words; such a claim is not allocated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceRequest {
    pub name: String,
    /// The first that can be satisfied counts. `exactly` is the only one.
    pub alternatives: Vec<DeviceAlternative>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceAlternative {
    /// Empty for `exactly`.
    pub name: String,
    pub class: String,
    /// Besides those of the class.
    pub selectors: Vec<String>,
    pub count: DeviceCount,
    /// By qualified name, or by the name in the driver's domain; in whole units rounded up.
    pub capacity: BTreeMap<String, i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeviceCount {
    Exactly(u32),
    /// Every device of the node that the selectors leave, and at least one.
    All,
}

impl Default for DeviceCount {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

/// All devices of some requests have the same value of an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatchAttribute {
    /// A qualified name.
    pub attribute: String,
    /// A request, or one of its alternatives as `request/alternative`; none is all.
    pub requests: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    pub devices: Vec<AllocatedDevice>,
    /// Nodes that can reach the devices; `None` is all.
    pub nodes: Option<Vec<NodeSelectorTerm>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedDevice {
    pub driver: String,
    pub pool: String,
    pub device: String,
    /// Of a shared device, by qualified name; `None` is all of it.
    pub consumed: Option<BTreeMap<String, i64>>,
}

/// A part of what a driver publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSlice {
    pub driver: String,
    pub pool: String,
    pub generation: i64,
    /// How many slices the pool has at this generation.
    pub slices: i64,
    /// The node whose devices these are; `None` for devices that several nodes reach.
    pub node: Option<NodeName>,
    pub devices: Vec<Device>,
}

/// A claim of a pod, as its spec names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodClaim {
    /// Within the pod.
    pub name: String,
    /// The ResourceClaim in the pod's namespace: named by the pod, or generated for it.
    pub claim: Option<String>,
    /// The ResourceClaimTemplate from which one is generated for the pod.
    pub template: Option<String>,
    /// The generation was found to need no claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_void: bool,
}

/// A qualified name: what has no domain of its own has the driver's.
pub fn qualified(name: &str, driver: &str) -> String {
    match name.contains('/') {
        true => name.to_owned(),
        false => format!("{driver}/{name}"),
    }
}

/// Slices of pools that are published completely, by node: all that the latest generation of a pool says there are.
pub fn slices_by_node(slices: &[ResourceSlice]) -> BTreeMap<&NodeName, Vec<&ResourceSlice>> {
    let mut latest: BTreeMap<(&NodeName, &str, &str), Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices {
        let Some(node) = &slice.node else { continue };
        let known = latest
            .entry((node, &slice.driver, &slice.pool))
            .or_default();
        let generation = known.first().map(|first| first.generation);
        if generation.is_some_and(|latest| latest < slice.generation) {
            known.clear();
        }
        if generation.is_none_or(|latest| latest <= slice.generation) {
            known.push(slice);
        }
    }
    let mut by_node: BTreeMap<&NodeName, Vec<&ResourceSlice>> = BTreeMap::new();
    for ((node, ..), slices) in latest {
        let declared = slices.first().map(|slice| slice.slices);
        if declared == i64::try_from(slices.len()).ok() {
            by_node.entry(node).or_default().extend(slices);
        }
    }
    by_node
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many slices count of a pool with these generations and declared numbers of slices.
    fn counted(published: &[(i64, i64)]) -> usize {
        let slices = published.iter().map(|(generation, slices)| ResourceSlice {
            driver: NVIDIA_GPU.to_owned(),
            pool: "n".to_owned(),
            generation: *generation,
            slices: *slices,
            node: Some("n".into()),
            devices: Vec::new(),
        });
        let slices: Vec<ResourceSlice> = slices.collect();
        slices_by_node(&slices).values().map(Vec::len).sum()
    }

    #[test]
    fn pool_counts_once_its_latest_generation_is_complete() {
        assert_eq!(counted(&[(1, 1)]), 1);
        assert_eq!(counted(&[(1, 2)]), 0);
        assert_eq!(counted(&[(1, 2), (1, 2)]), 2);
        assert_eq!(counted(&[(1, 1), (2, 2)]), 0);
        assert_eq!(counted(&[(2, 1), (1, 1)]), 1);
    }
}
