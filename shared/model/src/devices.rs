//! Dynamic resource allocation: devices of nodes, and the claims that pods have on them (docs/spec/v1.15.md#dra).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{NodeName, PodKey, Uid},
    pod::NodeSelectorTerm,
};

/// DRA driver of NVIDIA GPUs.
pub const NVIDIA_GPU: &str = "gpu.nvidia.com";
/// DRA driver of network interfaces (DRANET), among them EFA.
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
    /// Empty for a device of an instance type: the pool is named after a node that does not exist yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    pub name: String,
    /// Keyed by qualified name, such as `gpu.nvidia.com/productName`.
    pub attributes: BTreeMap<String, Attribute>,
    /// Keyed by qualified name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Whether several claims may each use a part of the device (`allowMultipleAllocations`).
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
    /// Value that is not known, except that it equals other unknown values with the same text on the node: constraints
    /// can compare it, selectors cannot.
    Unknown(String),
}

/// An amount that a device has of something, in whole units rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCapacity {
    pub value: i64,
    /// Amounts that a claim may request, for a shared device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RequestPolicy>,
}

/// Amounts that claims may request from a shared device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPolicy {
    /// Amount for claims that request none; `None` is the whole value.
    pub default: Option<i64>,
    pub allowed: Allowed,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Allowed {
    /// From `least` to `most` in steps of `step`; a request in between is rounded up.
    Range {
        least: i64,
        most: Option<i64>,
        step: Option<i64>,
    },
    /// Ascending; a request in between is rounded up. An empty list allows any amount.
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
    /// CEL expressions, all of which a device must satisfy.
    pub selectors: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceClaim {
    pub key: PodKey,
    pub spec: ClaimSpec,
    pub allocation: Option<Allocation>,
    /// Pods that may use the claim once it is allocated.
    pub reserved_for: Vec<Uid>,
    /// The pod that the claim was generated for. The claim is deleted with that pod.
    pub owner: Option<Uid>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceClaimTemplate {
    pub key: PodKey,
    pub spec: ClaimSpec,
}

/// Devices that a claim requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimSpec {
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<MatchAttribute>,
    /// Parts of the claim that are not supported, as messages for the user. A claim with any is not allocated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceRequest {
    pub name: String,
    /// In order of preference: the first satisfiable one counts. An `exactly` request has a single alternative.
    pub alternatives: Vec<DeviceAlternative>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceAlternative {
    /// Empty for an `exactly` request.
    pub name: String,
    pub class: String,
    /// In addition to the selectors of the class.
    pub selectors: Vec<String>,
    pub count: DeviceCount,
    /// Keyed by qualified name, or by the name within the driver's domain; in whole units rounded up.
    pub capacity: BTreeMap<String, i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeviceCount {
    Exactly(u32),
    /// All devices of the node that match the selectors, at least one.
    All,
}

impl Default for DeviceCount {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

/// Constraint that all devices of the listed requests have the same value of an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatchAttribute {
    /// Qualified name.
    pub attribute: String,
    /// Names of requests, or of alternatives as `request/alternative`; empty means all requests.
    pub requests: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    pub devices: Vec<AllocatedDevice>,
    /// Nodes that can access the devices; `None` is all.
    pub nodes: Option<Vec<NodeSelectorTerm>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedDevice {
    pub driver: String,
    pub pool: String,
    pub device: String,
    /// Consumed amounts of a shared device, keyed by qualified name; `None` is the whole device.
    pub consumed: Option<BTreeMap<String, i64>>,
}

/// Part of the devices that a driver publishes for a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSlice {
    pub driver: String,
    pub pool: String,
    pub generation: i64,
    /// Number of slices that the pool has at this generation.
    pub slices: i64,
    /// The node that the devices belong to; `None` for devices that several nodes can access.
    pub node: Option<NodeName>,
    pub devices: Vec<Device>,
}

/// A pod's reference to a resource claim (`spec.resourceClaims`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodClaim {
    /// Unique within the pod.
    pub name: String,
    /// The ResourceClaim in the pod's namespace, named by the pod or generated for it.
    pub claim: Option<String>,
    /// The ResourceClaimTemplate that the pod's claim is generated from.
    pub template: Option<String>,
    /// Whether the claim's generation found that the pod needs no claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_void: bool,
}

/// Returns the qualified name: a name without a domain gets the driver's.
pub fn qualified(name: &str, driver: &str) -> String {
    match name.contains('/') {
        true => name.to_owned(),
        false => format!("{driver}/{name}"),
    }
}

/// Slices by node, of pools that are published completely: all slices that a pool declares for its latest generation
/// exist.
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

    /// Number of slices that count, of a pool with these (generation, declared number of slices).
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
