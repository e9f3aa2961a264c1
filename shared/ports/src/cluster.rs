use std::{collections::BTreeMap, fmt};

use api::{convert::Scalable, kubernetes::PodTemplate};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Lane, NodeClaimName, NodeName, NodePoolName, PodKey, Uid,
    devices::{DeviceObjects, ResourceSlice},
    node::Node,
    node_claim::NodeClaim,
    plan::{Launch, NodeClaimUpdate, NodeUpdate, Target},
    pod::Pod,
    snapshot::{DaemonSet, Namespace, PodDisruptionBudget, Service, Workload},
    volume::Storage,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Requests of turns to one cluster's API server. Lists are quorum reads and complete, or an error
/// (docs/protocol.md#o1).
///
/// An object that is stored but cannot be parsed must not make the cluster look emptier than it is. A pod or node is
/// returned with its readable fields, as one that must not be disrupted, so that its node is neither empty nor drained.
/// A NodeClaim is listed with a NodeClass that does not exist, so that it is neither launched nor terminated; a read of
/// it alone fails with `Invalid`. NodePools and EC2NodeClasses are reported as unreadable in [`Listed`]. Other objects
/// are omitted.
#[async_trait]
pub trait Cluster: Send + Sync {
    async fn node_pools(&self) -> Result<Listed<api::NodePool>, ClusterError>;
    async fn node_classes(&self) -> Result<Listed<api::EC2NodeClass>, ClusterError>;
    async fn node_claims(&self) -> Result<Vec<NodeClaim>, ClusterError>;
    async fn nodes(&self) -> Result<Vec<Node>, ClusterError>;
    async fn pods(&self) -> Result<Vec<Pod>, ClusterError>;
    /// Pods without a node: few compared to all pods.
    async fn unassigned_pods(&self) -> Result<Vec<Pod>, ClusterError>;
    async fn daemon_sets(&self) -> Result<Vec<DaemonSet>, ClusterError>;
    async fn namespaces(&self) -> Result<Vec<Namespace>, ClusterError>;
    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError>;
    async fn storage(&self) -> Result<Storage, ClusterError>;
    /// Only called if a cluster's settings have default spread constraints.
    async fn pod_selectors(&self) -> Result<PodSelectors, ClusterError>;
    /// Only called if device claims are enabled and pods with claims may need a node.
    async fn device_objects(&self) -> Result<DeviceObjects, ClusterError>;
    /// Only called while a NodeClaim waits for drivers to publish devices.
    async fn resource_slices(&self) -> Result<Vec<ResourceSlice>, ClusterError>;

    /// Only called if their feature gate is on, like `capacity_buffers`. `KindMissing` if the CRD is not installed.
    async fn node_overlays(&self) -> Result<Vec<api::NodeOverlay>, ClusterError>;
    async fn capacity_buffers(&self) -> Result<Vec<api::CapacityBuffer>, ClusterError>;
    /// A PodTemplate that a CapacityBuffer refers to.
    async fn pod_template(&self, key: &PodKey) -> Result<Option<PodTemplate>, ClusterError>;
    async fn workload(
        &self,
        kind: Scalable,
        key: &PodKey,
    ) -> Result<Option<Workload>, ClusterError>;

    async fn pod(&self, key: &PodKey) -> Result<Option<Pod>, ClusterError>;
    async fn node(&self, name: &NodeName) -> Result<Option<Node>, ClusterError>;
    async fn node_claim(&self, name: &NodeClaimName) -> Result<Option<NodeClaim>, ClusterError>;

    /// Creates the NodeClaim with Whittle's finalizer. Returns an existing one of the same name unchanged.
    async fn create_node_claim(&self, launch: &Launch) -> Result<NodeClaim, ClusterError>;
    /// Updates metadata and status. Conflicts and missing objects are distinct errors.
    async fn update_node_claim(&self, update: &NodeClaimUpdate) -> Result<NodeClaim, ClusterError>;
    /// Deletes with uid and resourceVersion as preconditions (docs/protocol.md#d2).
    async fn delete_node_claim(&self, target: &Target) -> Result<(), ClusterError>;
    async fn update_node(&self, update: &NodeUpdate) -> Result<(), ClusterError>;
    /// Evicts through the eviction API, with the uid as precondition. `Refused` if a PodDisruptionBudget does not allow
    /// it.
    async fn evict(
        &self,
        pod: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
    ) -> Result<(), ClusterError>;
    async fn delete_pod(
        &self,
        pod: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
    ) -> Result<(), ClusterError>;

    /// Sets annotations with a value and removes those without, with the uid as precondition.
    async fn annotate_pod(
        &self,
        pod: &PodKey,
        uid: &Uid,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> Result<(), ClusterError>;

    async fn update_node_pool_status(
        &self,
        name: &NodePoolName,
        status: &api::karpenter::NodePoolStatus,
    ) -> Result<(), ClusterError>;
    async fn update_node_class_status(
        &self,
        name: &str,
        status: &api::karpenter::EC2NodeClassStatus,
    ) -> Result<(), ClusterError>;
    async fn update_node_overlay_status(
        &self,
        name: &str,
        status: &api::karpenter::NodeOverlayStatus,
    ) -> Result<(), ClusterError>;
    /// Requires this resourceVersion.
    async fn update_capacity_buffer_status(
        &self,
        key: &PodKey,
        version: &str,
        status: &api::karpenter::CapacityBufferStatus,
    ) -> Result<(), ClusterError>;
    /// Sets these annotations and keeps all others.
    async fn annotate_node_pool(
        &self,
        name: &NodePoolName,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError>;
    async fn annotate_node_class(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError>;
    /// Adds or removes Whittle's finalizer.
    async fn set_node_class_finalizer(&self, name: &str, present: bool)
    -> Result<(), ClusterError>;

    /// Uid of the namespace `kube-system`, which identifies a cluster during its whole life.
    async fn identity(&self) -> Result<Uid, ClusterError>;

    async fn post_event(&self, event: &Event) -> Result<(), ClusterError>;

    /// Karpenter's leader-election Lease (docs/protocol.md#leading).
    async fn leader_lease(&self) -> Result<Option<LeaderLease>, ClusterError>;
    /// Takes or renews the Lease if it has this resourceVersion (`None`: if it does not exist).
    async fn hold_leader_lease(&self, lease: &LeaderLease) -> Result<LeaderLease, ClusterError>;

    /// The lane's last metrics document for the relay's `/metrics`; `None` if the cluster does not collect them, as
    /// without a relay.
    async fn status_document(&self, lane: Lane) -> Result<Option<StatusDocument>, ClusterError>;
    /// Replaces the lane's metrics document, if the ConfigMap has the document's resourceVersion. Other lanes'
    /// documents are kept.
    async fn store_status_document(
        &self,
        lane: Lane,
        document: &StatusDocument,
    ) -> Result<(), ClusterError>;

    /// Traffic of all calls so far; zero for implementations without network traffic.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Owners of pods, whose selectors define default spread constraints (docs/spec/v1.15.md#default-spread-selector).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSelectors {
    pub services: Vec<Service>,
    /// ReplicaSets, StatefulSets and ReplicationControllers.
    pub workloads: Vec<Workload>,
}

/// Number of requests, and amount of data read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Traffic {
    pub requests: u64,
    /// Bytes of responses after decompression.
    pub bytes: u64,
    /// Number of large kinds that were listed completely, and of those that were updated by a watch (`followed`).
    pub listed: u64,
    pub followed: u64,
}

impl Traffic {
    /// Traffic since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            bytes: self.bytes.saturating_sub(before.bytes),
            listed: self.listed.saturating_sub(before.listed),
            followed: self.followed.saturating_sub(before.followed),
        }
    }
}

/// One lane's metrics document in the ConfigMap [`model::status::CONFIG_MAP`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusDocument {
    /// JSON of a [`model::status::Status`]; empty if the lane has not published any.
    pub text: String,
    /// ResourceVersion of the whole ConfigMap.
    pub resource_version: String,
}

/// A list that may omit objects in a form that this version cannot parse; those are in `unreadable`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub unreadable: Vec<Unreadable>,
}

impl<T> Listed<T> {
    /// All objects, or an error if some are unreadable. For callers that must not mistake an unreadable object for a
    /// missing one.
    pub fn complete(self, kind: &str) -> Result<Vec<T>, ClusterError> {
        match self.unreadable.first() {
            None => Ok(self.items),
            Some(Unreadable { name, message, .. }) => Err(ClusterError::Unavailable {
                action: format!("list all objects of kind {kind}"),
                message: format!("{name} cannot be read: {message}"),
            }),
        }
    }
}

/// An object that is stored but cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub name: String,
    pub uid: Uid,
    /// Parse error.
    pub message: String,
}

/// A Kubernetes Event about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: EventTarget,
    pub kind: EventKind,
    /// A reason that Karpenter's users know, such as `FailedScheduling`.
    pub reason: String,
    pub message: String,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventTarget {
    Pod(PodKey, Uid),
    Node(NodeName, Uid),
    NodeClaim(NodeClaimName, Uid),
    NodePool(NodePoolName, Uid),
    NodeClass(String, Uid),
    CapacityBuffer(PodKey, Uid),
}

impl fmt::Display for EventTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key, _) => write!(f, "Pod {key}"),
            Self::Node(name, _) => write!(f, "Node {name}"),
            Self::NodeClaim(name, _) => write!(f, "NodeClaim {name}"),
            Self::NodePool(name, _) => write!(f, "NodePool {name}"),
            Self::NodeClass(name, _) => write!(f, "EC2NodeClass {name}"),
            Self::CapacityBuffer(key, _) => write!(f, "CapacityBuffer {key}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderLease {
    pub holder: String,
    pub renewed_at: Option<Timestamp>,
    pub duration_seconds: i64,
    pub resource_version: Option<String>,
}

/// A failed API server call, by how the caller should react.
#[derive(Clone, Debug, Error)]
pub enum ClusterError {
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// The caller reads the object again.
    #[error("{what} was changed by another client at the same time")]
    Conflict { what: String },
    /// The caller retries later: a PodDisruptionBudget or admission refuses for now.
    #[error("{what} refused for now: {message}")]
    Refused { what: String, message: String },
    /// The caller backs off. `after_seconds` is the server's Retry-After.
    #[error("the API server throttles {action}")]
    Throttled {
        action: String,
        after_seconds: Option<u64>,
    },
    /// Credentials are wrong, expired or lack a permission.
    #[error(
        "the API server denied {action}: {message}; check that the credentials of the cluster's registry entry are valid and have the permissions of the chart's role"
    )]
    Denied { action: String, message: String },
    /// The API server rejects the object; retrying cannot help.
    #[error("the API server rejected {what}: {message}")]
    Invalid { what: String, message: String },
    /// An admission webhook for this kind failed. Other kinds may not be affected.
    #[error("an admission webhook failed for {what}: {message}")]
    Admission { what: String, message: String },
    /// No response, or an inconclusive one.
    #[error("the API server did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
    /// The cluster does not exist any more, according to EKS.
    #[error("there is no cluster {cluster}")]
    NoCluster { cluster: ClusterName },
    /// The API server does not serve this kind, because its CRD is missing.
    #[error("{kind} is not known to the API server: its CRD is not installed")]
    KindMissing { kind: String },
}

impl ClusterError {
    /// Whether the error concerns only the object in the call, so that it implies nothing about other objects.
    pub fn is_about_one_object(&self) -> bool {
        match self {
            Self::NotFound { .. }
            | Self::Conflict { .. }
            | Self::Refused { .. }
            | Self::Denied { .. }
            | Self::Admission { .. }
            | Self::Invalid { .. } => true,
            Self::Throttled { .. }
            | Self::Unavailable { .. }
            | Self::NoCluster { .. }
            | Self::KindMissing { .. } => false,
        }
    }
}
