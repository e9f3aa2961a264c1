//! Storage objects, with the fields that restrict where a pod may run (docs/spec/scheduling.md#volumes).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ids::NodeName, pod::NodeSelectorTerm};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    pub claims: Vec<VolumeClaim>,
    pub volumes: Vec<Volume>,
    pub classes: Vec<StorageClass>,
    /// Upper bound on attached volumes, per node and CSI driver.
    pub attach_limits: BTreeMap<NodeName, BTreeMap<String, u32>>,
    pub attachments: Vec<Attachment>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeClaim {
    pub namespace: String,
    pub name: String,
    pub storage_class: Option<String>,
    /// Name of the bound PersistentVolume.
    pub volume: Option<String>,
    /// Whether the binding is complete (`pv.kubernetes.io/bind-completed`).
    #[serde(default)]
    pub bind_completed: bool,
    /// Whether the claim's phase is Lost.
    #[serde(default)]
    pub lost: bool,
    #[serde(default)]
    pub deleting: bool,
    /// Whether only one pod may use the claim at a time (`ReadWriteOncePod`).
    #[serde(default)]
    pub one_pod: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub name: String,
    pub driver: Option<String>,
    /// The in-tree plugin, if the volume uses one.
    pub in_tree: Option<String>,
    pub storage_class: Option<String>,
    /// Whether the volume is `local` or `hostPath`, which tie it to a node by name.
    pub local: bool,
    #[serde(default)]
    pub deleting: bool,
    pub node_affinity: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClass {
    pub name: String,
    pub provisioner: String,
    pub is_default: bool,
    pub wait_for_first_consumer: bool,
    pub allowed_topologies: Vec<BTreeMap<String, Vec<String>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    pub node: NodeName,
    pub volume: Option<String>,
    pub attached: bool,
}
