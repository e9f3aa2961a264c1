//! What one turn saw: immutable, self-contained, and enough to plan again later.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    NanosPerHour,
    caps::{AccountSpending, Caps},
    catalog::InstanceType,
    devices::DeviceObjects,
    evidence::Evidence,
    ids::{ClusterName, NodeClaimName, NodeName, NodePoolName, PodKey, Uid},
    ledger::{Command, Cursor, Intent, Notice, Pause, PauseLevel, Paused},
    node::Node,
    node_claim::NodeClaim,
    node_pool::NodePool,
    pod::{Pod, TopologySpread},
    resources::Resources,
    selector::{LabelSelector, NodeSelectorRequirement},
    volume::Storage,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The one reading of the clock in a turn.
    pub now: Timestamp,
    pub cluster: ClusterName,
    /// META's generation, read before everything else (docs/protocol.md#o1); a plan commits only if it still holds.
    pub generation: u64,
    pub settings: Settings,
    pub node_pools: Vec<NodePool>,
    /// Types each NodePool may use, resolved through its NodeClass, with offerings known to lack capacity marked.
    pub instance_types: BTreeMap<NodePoolName, Arc<Vec<InstanceType>>>,
    pub node_claims: Vec<NodeClaim>,
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub namespaces: Vec<Namespace>,
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    pub storage: Storage,
    /// Selectors from which default spread constraints are derived (docs/spec/scheduling.md#default-spread).
    #[serde(default)]
    pub services: Vec<Service>,
    #[serde(default)]
    pub workloads: Vec<Workload>,
    #[serde(default)]
    pub node_overlays: Vec<NodeOverlay>,
    #[serde(default)]
    pub capacity_buffers: Vec<CapacityBuffer>,
    /// Read only where claims for devices count and pods have any.
    #[serde(default, skip_serializing_if = "DeviceObjects::is_empty")]
    pub devices: DeviceObjects,
    /// Launches under way, also those whose NodeClaim is not in the API yet (docs/protocol.md#o2).
    pub intents: Vec<Intent>,
    pub commands: Vec<Command>,
    pub notices: Vec<Notice>,
    /// Nodes that pending pods are expected on, until when.
    pub nominated: BTreeMap<NodeName, Timestamp>,
    /// NodeClaims that had no registered Node when pending pods were expected on them, until when they are.
    #[serde(default)]
    pub nominated_claims: BTreeMap<NodeClaimName, Timestamp>,
    /// NodeClaims that were compared with their NodeClass: how their node differs, if at all.
    #[serde(default)]
    pub drift: BTreeMap<NodeClaimName, Option<String>>,
    /// The cluster's; those of NodePools are in their annotations.
    #[serde(default, skip_serializing_if = "Caps::is_unlimited")]
    pub caps: Caps,
    /// What all clusters of the account may come to, and do.
    #[serde(default, skip_serializing_if = "AccountSpending::is_empty")]
    pub account: AccountSpending,
    /// What people hold back, of the cluster, its NodePools and its account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pause>,
    /// Failures of the account's other clusters that have not lapsed. Read only where nodes are repaired by choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Where a look for disruptions goes on that an earlier one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl Snapshot {
    /// A cluster in which nothing was seen.
    pub fn empty(cluster: ClusterName, now: Timestamp, settings: Settings) -> Self {
        Self {
            now,
            cluster,
            generation: 0,
            settings,
            node_pools: Vec::new(),
            instance_types: BTreeMap::new(),
            node_claims: Vec::new(),
            nodes: Vec::new(),
            pods: Vec::new(),
            daemon_sets: Vec::new(),
            namespaces: Vec::new(),
            disruption_budgets: Vec::new(),
            storage: Storage::default(),
            services: Vec::new(),
            workloads: Vec::new(),
            node_overlays: Vec::new(),
            capacity_buffers: Vec::new(),
            devices: DeviceObjects::default(),
            intents: Vec::new(),
            commands: Vec::new(),
            notices: Vec::new(),
            nominated: BTreeMap::new(),
            nominated_claims: BTreeMap::new(),
            drift: BTreeMap::new(),
            caps: Caps::default(),
            account: AccountSpending::default(),
            pauses: Vec::new(),
            evidence: Vec::new(),
            cursor: None,
        }
    }

    /// The pauses that hold back what `level` stands for at `now`, for nodes of this NodePool.
    pub fn paused(
        &self,
        pool: Option<&NodePoolName>,
        level: PauseLevel,
        now: Timestamp,
    ) -> Option<Paused<'_>> {
        Pause::of_pool(&self.pauses, pool, level, now)
    }
}

/// A cluster's settings as far as decisions depend on them (the keys of Karpenter's chart `settings`, and ours).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub preference_policy: PreferencePolicy,
    pub min_values_policy: MinValuesPolicy,
    pub reserved_offering_mode: ReservedOfferingMode,
    pub optimize: Optimize,
    /// Dollars per hour that one preference of one pod is worth when it is honoured, at the weight of 100.
    #[serde(default = "Settings::preference_worth")]
    pub preference_worth: NanosPerHour,
    /// What each node costs besides its instance and its volumes, unless its NodePool says otherwise.
    #[serde(default, skip_serializing_if = "NanosPerHour::is_nothing")]
    pub node_price: NanosPerHour,
    pub feature_gates: BTreeMap<String, bool>,
    /// Labels the provider knows besides Kubernetes' and Karpenter's own (docs/spec/scheduling.md#well-known-labels).
    pub well_known_labels: Vec<String>,
    /// Provider domains in which only well-known keys may be used (docs/spec/scheduling.md#restricted-keys).
    pub restricted_domains: Vec<String>,
    pub reservation_id_label: String,
    /// For pods without spread constraints of their own (`schedulerConfig`).
    #[serde(default)]
    pub default_topology_spread: Vec<TopologySpread>,
    /// The time from the launch of a NodeClaim after which nothing is expected of it unless its node has registered. Without it a
    /// NodeClaim is counted on until it is deleted, as upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_timeout: Option<SignedDuration>,
    /// `legacyNodeRepair`: with gate `NodeRepair`, unhealthy nodes are deleted by force and without a replacement first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub legacy_node_repair: bool,
    /// Claims of pods for devices count (`ignoreDRARequests: false`); without it pods that have any are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub device_claims: bool,
}

impl Settings {
    /// Half a cent: more than 2 % of what a pod of two cores costs in an hour, and less than a node for each pod.
    pub const fn preference_worth() -> NanosPerHour {
        NanosPerHour(5_000_000)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreferencePolicy {
    #[default]
    Respect,
    Ignore,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinValuesPolicy {
    #[default]
    Strict,
    BestEffort,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservedOfferingMode {
    #[default]
    Strict,
    Fallback,
}

/// `Upstream` gives Karpenter's own answer; `Cost` may pack and consolidate better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimize {
    Upstream,
    #[default]
    Cost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonSet {
    pub key: PodKey,
    /// The pod it would run on a node.
    pub pod: Pod,
}

/// A Service with a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    pub key: PodKey,
    pub selector: BTreeMap<String, String>,
}

/// A ReplicationController, ReplicaSet, StatefulSet or Deployment, as far as decisions need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub kind: String,
    pub key: PodKey,
    pub uid: Uid,
    pub selector: Option<LabelSelector>,
    pub replicas: Option<i64>,
    /// The pod it would make.
    pub pod: Option<Box<Pod>>,
}

/// Changes the price or the extended resources of the instance types it matches (docs/spec/scheduling.md#node-overlay).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOverlay {
    pub name: String,
    pub weight: i32,
    pub requirements: Vec<NodeSelectorRequirement>,
    /// In dollars per hour, as written.
    pub price: Option<String>,
    /// `+0.1`, `-5%` …, as written.
    pub price_adjustment: Option<String>,
    pub capacity: Resources,
}

/// Room to keep free, as pods that do not exist yet (docs/spec/scheduling.md#capacity-buffer).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityBuffer {
    pub key: PodKey,
    pub uid: Uid,
    pub replicas: Option<i64>,
    pub percentage: Option<i64>,
    pub limits: Resources,
    /// The replicas of the workload it scales with.
    pub scalable_replicas: Option<i64>,
    /// What one unit of the buffer looks like; `None` while it cannot be resolved.
    pub pod: Option<Box<Pod>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodDisruptionBudget {
    pub key: PodKey,
    pub selector: Option<LabelSelector>,
    pub disruptions_allowed: i64,
    /// `maxUnavailable` and `minAvailable` as written: an integer or a percentage.
    #[serde(default)]
    pub max_unavailable: Option<String>,
    #[serde(default)]
    pub min_available: Option<String>,
    pub always_allow_unhealthy: bool,
    /// As many pods are healthy as have to be: those that are not may be evicted though no disruption is allowed.
    #[serde(default)]
    pub is_met: bool,
}
