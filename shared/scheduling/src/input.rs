//! Input of a solve: pods to place, and the nodes and NodePools that may take them.

use std::collections::BTreeMap;

use model::{
    InstanceType, NanosPerHour, NodePoolName, Resources,
    devices::{Device, DeviceObjects},
    labels,
    pod::Pod,
    selector::NodeSelectorRequirement,
    snapshot::{MinValuesPolicy, Namespace, Optimize, PreferencePolicy, ReservedOfferingMode},
    taint::Taint,
    volume::Storage,
};

/// One solve request. Everything is borrowed from a snapshot that does not change during the solve.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub options: Options<'a>,
    /// Pods to place, in any order, with distinct keys.
    pub pods: Vec<&'a Pod>,
    /// Per pod, whether it is moved voluntarily, which rules out nodes that are cooling down. Empty if no pod is.
    pub moved: Vec<bool>,
    /// NodePools that may launch nodes, in the order in which they are tried.
    pub pools: Vec<Pool<'a>>,
    /// Nodes that may take pods, in any order.
    pub nodes: Vec<ExistingNode<'a>>,
    /// All Node objects with their pods, including nodes that take no pods. Topology counts these.
    pub hosts: Vec<Host<'a>>,
    /// One pod per DaemonSet.
    pub daemons: Vec<&'a Pod>,
    pub namespaces: &'a [Namespace],
    pub storage: &'a Storage,
    /// Devices and resource claims; `None` if the settings ignore them, so that pods with resource claims are not placed.
    pub devices: Option<&'a DeviceObjects>,
}

/// Settings that affect the result.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub preference_policy: PreferencePolicy,
    pub min_values_policy: MinValuesPolicy,
    /// `None` ignores reservations.
    pub reserved: Option<ReservedOfferingMode>,
    pub optimize: Optimize,
    pub effort: Effort,
    /// Value, in price per hour, of meeting one preference of one pod with weight 100.
    pub preference_worth: NanosPerHour,
    /// Labels that the cloud provider defines, besides those of Kubernetes.
    pub well_known_labels: &'a [String],
    pub reservation_id_label: &'a str,
}

impl Options<'_> {
    /// Label key that a topology key refers to. The cloud provider sets deprecated and current keys alike, so both have the
    /// same domains; upstream has no domains for deprecated keys.
    pub(crate) fn topology_key<'k>(&self, key: &'k str) -> &'k str {
        match self.optimize {
            Optimize::Upstream => key,
            Optimize::Cost => labels::normalized(key),
        }
    }
}

/// Extent of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// First result in which every pod has a place, for the many simulations of one turn. The search is repeated without
    /// preferences if they may cost more than their value.
    First,
    /// Cheapest of several results, with the new nodes packed as a whole, if the options optimize for cost.
    Best,
}

/// Dynamic NodePool that is ready, with its resolved template.
#[derive(Clone, Debug)]
pub struct Pool<'a> {
    pub name: &'a NodePoolName,
    /// A NodePool serves pods only if no NodePool of a higher weight can.
    pub weight: i32,
    /// Labels of new nodes: those of the NodePool's template and of its NodeClass.
    pub labels: BTreeMap<String, String>,
    pub requirements: &'a [NodeSelectorRequirement],
    pub taints: &'a [Taint],
    /// Instance types. NodePools with the same slice and surcharge share one index.
    pub types: &'a [InstanceType],
    /// Price of each node besides its instance.
    pub surcharge: NanosPerHour,
    /// Remaining amounts of the resources that the NodePool limits.
    pub remaining: Resources,
}

/// Node that exists or is in flight.
#[derive(Clone, Debug)]
pub struct ExistingNode<'a> {
    pub name: &'a str,
    pub hostname: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    /// Taints, except those that are removed automatically during startup.
    pub taints: Vec<&'a Taint>,
    pub initialized: bool,
    /// Whether pods of the node changed so recently that no pod is moved there voluntarily
    /// (docs/spec/lifecycle.md#simulation).
    pub cooling_down: bool,
    /// Whether a Node object exists, so that its labels count as topology domains.
    pub registered: bool,
    /// Allocatable amounts minus the requests of the node's pods. A missing resource counts as zero.
    pub available: Resources,
    /// Requests of the daemon pods that are bound to the node.
    pub daemon_requests: Resources,
    /// Pods on the node with host ports or volumes.
    pub pods: Vec<&'a Pod>,
    /// Attach limits per CSI driver.
    pub attach_limits: Option<&'a BTreeMap<String, u32>>,
    /// Devices that drivers have published. Before initialization, the devices that the instance type is expected to have.
    pub devices: Vec<&'a Device>,
}

/// Node object with its pods.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub pods: Vec<&'a Pod>,
}

impl<'a> Host<'a> {
    /// Domain of the hostname topology key: the label, or else the node's name.
    pub fn hostname(&self) -> &'a str {
        self.labels
            .get(model::labels::HOSTNAME)
            .map_or(self.name, String::as_str)
    }
}
