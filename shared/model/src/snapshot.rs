//! The state that one turn read: immutable, self-contained, and enough to plan again later.

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
    /// The turn's only reading of the clock.
    pub now: Timestamp,
    pub cluster: ClusterName,
    /// META's generation, read before everything else (docs/protocol.md#o1). A plan commits only if it is unchanged.
    pub generation: u64,
    pub settings: Settings,
    pub node_pools: Vec<NodePool>,
    /// Instance types of each NodePool, resolved through its NodeClass, with offerings known to lack capacity marked as
    /// unavailable.
    pub instance_types: BTreeMap<NodePoolName, Arc<Vec<InstanceType>>>,
    pub node_claims: Vec<NodeClaim>,
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub namespaces: Vec<Namespace>,
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    pub storage: Storage,
    /// Services, from whose selectors default spread constraints are derived (docs/spec/scheduling.md#default-spread).
    #[serde(default)]
    pub services: Vec<Service>,
    #[serde(default)]
    pub workloads: Vec<Workload>,
    #[serde(default)]
    pub node_overlays: Vec<NodeOverlay>,
    #[serde(default)]
    pub capacity_buffers: Vec<CapacityBuffer>,
    /// Read only if device claims are enabled and some pods have claims.
    #[serde(default, skip_serializing_if = "DeviceObjects::is_empty")]
    pub devices: DeviceObjects,
    /// Launches under way, including those whose NodeClaim is not in the API yet (docs/protocol.md#o2).
    pub intents: Vec<Intent>,
    pub commands: Vec<Command>,
    pub notices: Vec<Notice>,
    /// Nodes that pending pods are nominated to, and until when.
    pub nominated: BTreeMap<NodeName, Timestamp>,
    /// NodeClaims without a registered Node that pending pods are nominated to, and until when.
    #[serde(default)]
    pub nominated_claims: BTreeMap<NodeClaimName, Timestamp>,
    /// NodeClaims that were compared with their NodeClass, with a description of the drift if there is any.
    #[serde(default)]
    pub drift: BTreeMap<NodeClaimName, Option<String>>,
    /// Caps of the cluster. Those of NodePools are in their annotations.
    #[serde(default, skip_serializing_if = "Caps::is_unlimited")]
    pub caps: Caps,
    /// Caps and spending of all clusters of the account.
    #[serde(default, skip_serializing_if = "AccountSpending::is_empty")]
    pub account: AccountSpending,
    /// Pauses of the cluster, its NodePools and its account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pause>,
    /// Failures reported by the account's other clusters that have not lapsed. Read only if voluntary node repair is
    /// enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Position at which to continue a disruption evaluation that an earlier turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl Snapshot {
    /// A cluster without objects.
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

    /// The pauses that apply to actions of `level` at `now`, on nodes of this NodePool.
    pub fn paused(
        &self,
        pool: Option<&NodePoolName>,
        level: PauseLevel,
        now: Timestamp,
    ) -> Option<Paused<'_>> {
        Pause::of_pool(&self.pauses, pool, level, now)
    }
}

/// A cluster's settings as far as decisions depend on them: keys of Karpenter's chart `settings`, and Whittle's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub preference_policy: PreferencePolicy,
    pub min_values_policy: MinValuesPolicy,
    pub reserved_offering_mode: ReservedOfferingMode,
    pub optimize: Optimize,
    /// Value in dollars per hour of honoring one preference of one pod, at the weight of 100.
    #[serde(default = "Settings::preference_worth")]
    pub preference_worth: NanosPerHour,
    /// Cost of each node besides its instance and its volumes, unless its NodePool overrides it.
    #[serde(default, skip_serializing_if = "NanosPerHour::is_zero")]
    pub node_price: NanosPerHour,
    pub feature_gates: BTreeMap<String, bool>,
    /// The provider's well-known labels, in addition to those of Kubernetes and Karpenter
    /// (docs/spec/scheduling.md#well-known-labels).
    pub well_known_labels: Vec<String>,
    /// Provider domains in which only well-known keys may be used (docs/spec/scheduling.md#restricted-keys).
    pub restricted_domains: Vec<String>,
    pub reservation_id_label: String,
    /// Default constraints for pods without spread constraints (`schedulerConfig`).
    #[serde(default)]
    pub default_topology_spread: Vec<TopologySpread>,
    /// Time after the launch of a NodeClaim when pods are no longer planned onto it unless its node has registered. If
    /// `None`, pods are planned onto a NodeClaim until it is deleted, as in Karpenter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_timeout: Option<SignedDuration>,
    /// `legacyNodeRepair`: with the feature gate `NodeRepair`, unhealthy nodes are deleted forcefully, without
    /// launching a replacement first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub legacy_node_repair: bool,
    /// Whether device claims of pods are supported (`ignoreDRARequests: false`). If not, pods with claims are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub device_claims: bool,
}

impl Settings {
    /// Default of `preference_worth`: half a cent. More than 2 % of the hourly price of a pod with two cores, and less
    /// than a node per pod.
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

/// `Upstream` makes Karpenter's decisions; `Cost` may pack and consolidate better.
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
    /// The pod that the DaemonSet runs on a node.
    pub pod: Pod,
}

/// A Service with a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    pub key: PodKey,
    pub selector: BTreeMap<String, String>,
}

/// A ReplicationController, ReplicaSet, StatefulSet or Deployment, with the fields that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub kind: String,
    pub key: PodKey,
    pub uid: Uid,
    pub selector: Option<LabelSelector>,
    pub replicas: Option<i64>,
    /// The pod that the workload creates.
    pub pod: Option<Box<Pod>>,
}

/// An override of the price or the extended resources of matching instance types
/// (docs/spec/scheduling.md#node-overlay).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOverlay {
    pub name: String,
    pub weight: i32,
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Price in dollars per hour, as the user wrote it.
    pub price: Option<String>,
    /// `+0.1`, `-5%` …, as the user wrote it.
    pub price_adjustment: Option<String>,
    pub capacity: Resources,
}

/// Spare capacity, planned for as pods that do not exist (docs/spec/scheduling.md#capacity-buffer).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityBuffer {
    pub key: PodKey,
    pub uid: Uid,
    pub replicas: Option<i64>,
    pub percentage: Option<i64>,
    pub limits: Resources,
    /// Replicas of the workload that the buffer scales with.
    pub scalable_replicas: Option<i64>,
    /// The pod of one unit of the buffer; `None` while it cannot be resolved.
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
    /// `maxUnavailable` and `minAvailable` as the user wrote them: an integer or a percentage.
    #[serde(default)]
    pub max_unavailable: Option<String>,
    #[serde(default)]
    pub min_available: Option<String>,
    pub always_allow_unhealthy: bool,
    /// Whether as many pods are healthy as the budget requires. Unhealthy pods may be evicted then, even if no
    /// disruption is allowed.
    #[serde(default)]
    pub is_met: bool,
}
