//! The `given` block of a scenario: a cluster in short form.

use std::collections::BTreeMap;

use model::{
    Snapshot,
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode},
};
use planner::Share;
use serde::Deserialize;
use serde_json::Value;

use crate::{cluster, pod::Pod};

/// A cluster in short form. Every field has a default; the default cluster is empty except for the NodePool `default`, which allows
/// all instance types.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Given {
    /// Name of a file in `tests/catalogs`, without its extension.
    pub(crate) catalog: String,
    pub(crate) settings: Settings,
    /// Bounds of one turn.
    pub(crate) turn: Turn,
    /// Unavailable offerings: `<type> <capacity type> <zone>`, where `*` matches any value.
    pub(crate) unavailable: Vec<String>,
    pub(crate) node_pools: Vec<NodePool>,
    pub(crate) nodes: Vec<Node>,
    /// Launches of an earlier turn that have no node yet.
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) daemon_sets: Vec<Pod>,
    pub(crate) pods: Vec<Pod>,
    /// PersistentVolumeClaims by name, each bound to a volume in this zone.
    pub(crate) volumes: BTreeMap<String, String>,
    /// Kubernetes manifests, for objects without a short form.
    pub(crate) manifests: String,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            catalog: "small".to_owned(),
            settings: Settings::default(),
            turn: Turn::default(),
            unavailable: Vec::new(),
            node_pools: vec![NodePool {
                name: "default".to_owned(),
                ..NodePool::default()
            }],
            nodes: Vec::new(),
            in_flight: Vec::new(),
            daemon_sets: Vec::new(),
            pods: Vec::new(),
            volumes: BTreeMap::new(),
            manifests: String::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Settings {
    pub(crate) optimize: Optimize,
    pub(crate) preference_policy: PreferencePolicy,
    pub(crate) min_values_policy: MinValuesPolicy,
    pub(crate) reserved_offering_mode: ReservedOfferingMode,
    pub(crate) feature_gates: BTreeMap<String, bool>,
    /// `enableDRA`, `ignoreDRARequests` and `awsFeatureGates`, as in Karpenter's chart.
    pub(crate) devices: Value,
    /// The EC2NodeClass' annotation `karpenter.k8s.aws/nvidia-consumable-capacity`.
    pub(crate) sharing: String,
}

impl Default for Settings {
    /// Settings that plan as upstream does, so that scenarios show rules rather than cost optimization.
    fn default() -> Self {
        Self {
            optimize: Optimize::Upstream,
            preference_policy: PreferencePolicy::default(),
            min_values_policy: MinValuesPolicy::default(),
            reserved_offering_mode: ReservedOfferingMode::default(),
            feature_gates: BTreeMap::new(),
            devices: Value::Null,
            sharing: String::new(),
        }
    }
}

/// Upper bounds on the pods and launches of one turn. The defaults are the provisioner's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Turn {
    pods: usize,
    launches: usize,
}

impl Default for Turn {
    fn default() -> Self {
        let Share { pods, launches, .. } = Share::TURN;
        Self { pods, launches }
    }
}

impl Turn {
    pub(crate) fn share(&self) -> Share {
        Share {
            pods: self.pods,
            launches: self.launches,
            ..Share::TURN
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct NodePool {
    pub(crate) name: String,
    pub(crate) weight: Option<i32>,
    pub(crate) replicas: Option<i64>,
    pub(crate) limits: BTreeMap<String, Value>,
    pub(crate) requirements: Vec<String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<String>,
    pub(crate) startup_taints: Vec<String>,
    /// Reason why the NodePool's EC2NodeClass is not ready.
    pub(crate) not_ready: Option<String>,
    pub(crate) deleting: bool,
}

/// A managed node, initialized and ready by default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) r#type: String,
    #[serde(default = "zone_a")]
    pub(crate) zone: String,
    #[serde(default = "on_demand")]
    pub(crate) capacity_type: String,
    #[serde(default = "default_pool")]
    pub(crate) node_pool: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) taints: Vec<String>,
    /// Whether the node is only launched: its NodeClaim exists, but the kubelet has not registered.
    #[serde(default)]
    pub(crate) launched: bool,
    #[serde(default)]
    pub(crate) deleting: bool,
    /// Numbers of volumes that the node can attach, by CSI driver.
    #[serde(default)]
    pub(crate) attach_limits: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct InFlight {
    pub(crate) name: String,
    pub(crate) r#type: String,
    #[serde(default = "zone_a")]
    pub(crate) zone: String,
    #[serde(default = "on_demand")]
    pub(crate) capacity_type: String,
    #[serde(default = "default_pool")]
    pub(crate) node_pool: String,
}

fn zone_a() -> String {
    "a".to_owned()
}

fn on_demand() -> String {
    "on-demand".to_owned()
}

fn default_pool() -> String {
    "default".to_owned()
}

impl Given {
    pub(crate) fn snapshot(&self) -> Result<Snapshot, String> {
        cluster::snapshot(self)
    }
}
