//! Pods, with the fields that placing, evicting and counting them needs.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    SharedShape,
    devices::PodClaim,
    ids::{NodeName, PodKey, Uid},
    resources::Resources,
    selector::{LabelSelector, NodeSelectorRequirement},
    taint::Toleration,
};

/// A pod: its individual fields, and its [`PodShape`], whose fields are accessible through `Deref`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    pub key: PodKey,
    pub uid: Uid,
    pub resource_version: String,
    pub created_at: Option<Timestamp>,
    pub deletion: Option<Deletion>,
    pub node_name: Option<NodeName>,
    pub nominated_node: Option<NodeName>,
    pub phase: PodPhase,
    pub ready: bool,
    /// Whether the PodScheduled condition has the reason Unschedulable, whatever its status
    /// (docs/spec/scheduling.md#provisionable).
    pub unschedulable: bool,
    pub started_at: Option<Timestamp>,
    #[serde(flatten)]
    pub shape: SharedShape,
}

/// Fields that pods of one owner usually have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodShape {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner: Option<Owner>,
    /// Total requests by Kubernetes' rules, including `pods: 1` (docs/spec/scheduling.md#resources).
    pub requests: Resources,
    pub limits: Resources,
    pub host_ports: Vec<HostPort>,
    pub node_selector: BTreeMap<String, String>,
    pub node_affinity: NodeAffinity,
    pub pod_affinity: PodAffinity,
    pub pod_anti_affinity: PodAffinity,
    pub topology_spread: Vec<TopologySpread>,
    pub tolerations: Vec<Toleration>,
    pub volumes: Vec<PodVolume>,
    /// Whether the pod or one of its containers references resource claims (dynamic resource allocation).
    #[serde(default)]
    pub resource_claims: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_claims: Vec<PodClaim>,
    pub scheduling_gates: Vec<String>,
    pub priority: Option<i32>,
    pub preemption_never: bool,
    /// Whether the priority class is `system-cluster-critical` or `system-node-critical`. Such pods are drained last.
    #[serde(default)]
    pub critical: bool,
    pub scheduler_name: String,
    pub termination_grace_seconds: Option<i64>,
    /// Fields of the pod's spec that cannot be parsed, as messages for the user. A pod with any is reported, not
    /// placed.
    #[serde(default)]
    pub problems: Vec<String>,
}

impl Deref for Pod {
    type Target = PodShape;

    fn deref(&self) -> &PodShape {
        &self.shape
    }
}

/// Mutable access clones a shared shape first (copy on write).
impl DerefMut for Pod {
    fn deref_mut(&mut self) -> &mut PodShape {
        &mut self.shape
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    pub at: Timestamp,
    pub grace_seconds: i64,
}

/// The controlling owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: Uid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    pub ip: String,
    pub port: i32,
    pub protocol: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeAffinity {
    /// Alternatives; empty means no required affinity.
    pub required: Vec<NodeSelectorTerm>,
    pub preferred: Vec<(i32, NodeSelectorTerm)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<NodeSelectorRequirement>,
    pub match_fields: Vec<NodeSelectorRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodAffinity {
    pub required: Vec<PodAffinityTerm>,
    pub preferred: Vec<(i32, PodAffinityTerm)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodAffinityTerm {
    pub topology_key: String,
    pub selector: Option<LabelSelector>,
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<LabelSelector>,
    pub match_label_keys: Vec<String>,
    pub mismatch_label_keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopologySpread {
    pub topology_key: String,
    pub max_skew: i32,
    pub when_unsatisfiable: WhenUnsatisfiable,
    pub selector: Option<LabelSelector>,
    pub min_domains: Option<i32>,
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    pub match_label_keys: Vec<String>,
}

impl TopologySpread {
    /// Whether the constraint may be violated if it cannot be satisfied (`ScheduleAnyway`).
    pub fn is_soft(&self) -> bool {
        self.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeInclusionPolicy {
    Honor,
    Ignore,
}

/// A volume that restricts placement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PodVolume {
    /// A PersistentVolumeClaim of the pod's namespace.
    Claim { claim: String },
    /// A generic ephemeral volume; its claim is named `<pod>-<volume>`.
    Ephemeral {
        volume: String,
        storage_class: Option<String>,
    },
}
