//! What the scheduler is asked: pods to place, and what they could be placed on.

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

/// One question. Everything is borrowed from a snapshot and must not change while it is answered.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub options: Options<'a>,
    /// Those to place, in any order, each with its own key.
    pub pods: Vec<&'a Pod>,
    /// Per pod, whether it is moved by choice: then it may not go to a node that is settling. Empty where none is.
    pub moved: Vec<bool>,
    /// Those that may make nodes for pods, in the order in which they are tried.
    pub pools: Vec<Pool<'a>>,
    /// Those that may take pods, in any order.
    pub nodes: Vec<ExistingNode<'a>>,
    /// Every Node object with its pods, also those that may not take any: what topology counts.
    pub hosts: Vec<Host<'a>>,
    /// One pod per DaemonSet.
    pub daemons: Vec<&'a Pod>,
    pub namespaces: &'a [Namespace],
    pub storage: &'a Storage,
    /// Devices that claims are allocated from; `None` where such claims do not count, and pods that have any get no place.
    pub devices: Option<&'a DeviceObjects>,
}

#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub preference_policy: PreferencePolicy,
    pub min_values_policy: MinValuesPolicy,
    /// `None` does not count reservations at all.
    pub reserved: Option<ReservedOfferingMode>,
    pub optimize: Optimize,
    pub effort: Effort,
    /// Per hour, what honouring one preference of one pod is worth, at the weight of 100.
    pub preference_worth: NanosPerHour,
    /// Well-known labels of the provider, besides Kubernetes' own.
    pub well_known_labels: &'a [String],
    pub reservation_id_label: &'a str,
}

impl Options<'_> {
    /// The label that a topology key is about. The cloud provider gives nodes old and new spellings alike, so that they have the
    /// same domains; upstream knows none of the old ones here.
    pub(crate) fn topology_key<'k>(&self, key: &'k str) -> &'k str {
        match self.optimize {
            Optimize::Upstream => key,
            Optimize::Cost => labels::normalized(key),
        }
    }
}

/// How far the search for an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The first answer in which every pod has a place, as for the many simulations of one turn; it is searched again without
    /// preferences where these may cost more than they are worth.
    First,
    /// The cheapest of several answers, with new nodes planned as a whole, where the question is optimized for cost.
    Best,
}

/// A dynamic NodePool that is ready, with its template resolved.
#[derive(Clone, Debug)]
pub struct Pool<'a> {
    pub name: &'a NodePoolName,
    /// Pods go to NodePools of less weight only where others cannot serve them.
    pub weight: i32,
    /// Of the template, with the NodePool's and the NodeClass' own.
    pub labels: BTreeMap<String, String>,
    pub requirements: &'a [NodeSelectorRequirement],
    pub taints: &'a [Taint],
    /// Pools that share a list and a surcharge share the work on it.
    pub types: &'a [InstanceType],
    /// What each node costs besides its instance.
    pub surcharge: NanosPerHour,
    /// What the limits leave, for the resources that are limited.
    pub remaining: Resources,
}

/// A node that exists or is on its way, as pods would find it.
#[derive(Clone, Debug)]
pub struct ExistingNode<'a> {
    pub name: &'a str,
    pub hostname: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    /// Without those that will go away by themselves.
    pub taints: Vec<&'a Taint>,
    pub initialized: bool,
    /// Pods of the node changed so recently that none is to be moved there by choice (docs/spec/lifecycle.md#simulation).
    pub cooling_down: bool,
    /// A Node object exists, so its labels count as topology domains.
    pub registered: bool,
    /// Allocatable minus what its pods request; a missing resource means none.
    pub available: Resources,
    /// What its daemon pods request already.
    pub daemon_requests: Resources,
    /// Of those bound to it, the ones that hold host ports or volumes.
    pub pods: Vec<&'a Pod>,
    /// How many volumes of a CSI driver it can attach.
    pub attach_limits: Option<&'a BTreeMap<String, u32>>,
    /// Devices that drivers have published, or that its type is known to have until it is initialized.
    pub devices: Vec<&'a Device>,
}

/// A Node object and the pods on it.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub pods: Vec<&'a Pod>,
}

impl<'a> Host<'a> {
    /// The domain of the hostname key: the label, else the name.
    pub fn hostname(&self) -> &'a str {
        self.labels
            .get(model::labels::HOSTNAME)
            .map_or(self.name, String::as_str)
    }
}
