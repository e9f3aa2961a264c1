use serde::{Deserialize, Serialize};

use super::affinity::NodeSelector;
use crate::meta::{ObjectMeta, resource};
use crate::wire::{null_as_default, string_enum};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentVolumeClaim {
    pub metadata: ObjectMeta,
    pub spec: PersistentVolumeClaimSpec,
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: PersistentVolumeClaimStatus,
}

resource!(
    PersistentVolumeClaim,
    "v1",
    "persistentvolumeclaims",
    Namespaced
);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// Absent: the default class. Empty: no class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Name of the bound PersistentVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_name: Option<String>,
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub access_modes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClaimPhase>,
}

string_enum! {
    /// Whether a claim is bound.
    ClaimPhase { Pending, Bound, Lost }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersistentVolume {
    pub metadata: ObjectMeta,
    pub spec: PersistentVolumeSpec,
}

resource!(PersistentVolume, "v1", "persistentvolumes", Cluster);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimReference>,
    /// Nodes that can access the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiSource>,
    /// Volume of the in-tree EBS plugin, which is treated like one of the EBS CSI driver.
    #[serde(
        rename = "awsElasticBlockStore",
        skip_serializing_if = "Option::is_none"
    )]
    pub aws_elastic_block_store: Option<EbsSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<NodeDisk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<NodeDisk>,
}

impl PersistentVolumeSpec {
    /// Whether the volume is on a disk of one node, so that a pod that moves loses access to it
    /// (docs/spec/scheduling.md#volume-topology).
    pub fn is_node_disk(&self) -> bool {
        self.local.is_some() || self.host_path.is_some()
    }
}

/// Presence of a volume on a node's disk; the path is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDisk {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiSource {
    pub driver: String,
    #[serde(default)]
    pub volume_handle: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EbsSource {
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    pub metadata: ObjectMeta,
    pub provisioner: String,
    /// `Immediate` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_binding_mode: Option<VolumeBindingMode>,
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

resource!(StorageClass, "storage.k8s.io/v1", "storageclasses", Cluster);

string_enum! {
    /// Time at which a volume is provisioned for a claim.
    VolumeBindingMode { Immediate, WaitForFirstConsumer }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorTerm {
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_label_expressions: Vec<TopologySelectorRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologySelectorRequirement {
    pub key: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

/// Attach limits of a node, by CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CSINode {
    pub metadata: ObjectMeta,
    pub spec: CSINodeSpec,
}

resource!(CSINode, "storage.k8s.io/v1", "csinodes", Cluster);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CSINodeSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub drivers: Vec<CSINodeDriver>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CSINodeDriver {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeNodeResources {
    /// Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAttachment {
    pub metadata: ObjectMeta,
    pub spec: VolumeAttachmentSpec,
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: VolumeAttachmentStatus,
}

resource!(
    VolumeAttachment,
    "storage.k8s.io/v1",
    "volumeattachments",
    Cluster
);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    pub attacher: String,
    pub node_name: String,
    pub source: AttachedVolume,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachedVolume {
    /// Absent for inline volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeAttachmentStatus {
    pub attached: bool,
}
