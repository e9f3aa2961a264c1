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

/// Requests of turns to one cluster's API server. Lists are quorum reads and complete, or an error (docs/protocol.md#o1).
///
/// An object that is stored but cannot be read never makes its surroundings look emptier than they are: a pod or node is shown by
/// what of it can be read, as one that must not be disrupted, so that its node is neither empty nor drained; a NodeClaim is
/// listed as one of a NodeClass of nobody, which is neither launched nor ended, and read alone it is `Invalid`; NodePools and
/// EC2NodeClasses are told apart by [`Listed`]. Others are left out.
#[async_trait]
pub trait Cluster: Send + Sync {
    async fn node_pools(&self) -> Result<Listed<api::NodePool>, ClusterError>;
    async fn node_classes(&self) -> Result<Listed<api::EC2NodeClass>, ClusterError>;
    async fn node_claims(&self) -> Result<Vec<NodeClaim>, ClusterError>;
    async fn nodes(&self) -> Result<Vec<Node>, ClusterError>;
    async fn pods(&self) -> Result<Vec<Pod>, ClusterError>;
    /// Those that no node has: few, where all pods are many.
    async fn unassigned_pods(&self) -> Result<Vec<Pod>, ClusterError>;
    async fn daemon_sets(&self) -> Result<Vec<DaemonSet>, ClusterError>;
    async fn namespaces(&self) -> Result<Vec<Namespace>, ClusterError>;
    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError>;
    async fn storage(&self) -> Result<Storage, ClusterError>;
    /// Read only where a cluster's settings have default spread constraints.
    async fn pod_selectors(&self) -> Result<PodSelectors, ClusterError>;
    /// Read only where claims for devices count, and pods that have any may need a place.
    async fn device_objects(&self) -> Result<DeviceObjects, ClusterError>;
    /// Read only where a NodeClaim waits for drivers to publish devices.
    async fn resource_slices(&self) -> Result<Vec<ResourceSlice>, ClusterError>;

    /// Read only where its feature gate is on, as CapacityBuffers are: `KindMissing` where the CRD is not installed.
    async fn node_overlays(&self) -> Result<Vec<api::NodeOverlay>, ClusterError>;
    async fn capacity_buffers(&self) -> Result<Vec<api::CapacityBuffer>, ClusterError>;
    /// What a CapacityBuffer may refer to.
    async fn pod_template(&self, key: &PodKey) -> Result<Option<PodTemplate>, ClusterError>;
    async fn workload(
        &self,
        kind: Scalable,
        key: &PodKey,
    ) -> Result<Option<Workload>, ClusterError>;

    async fn pod(&self, key: &PodKey) -> Result<Option<Pod>, ClusterError>;
    async fn node(&self, name: &NodeName) -> Result<Option<Node>, ClusterError>;
    async fn node_claim(&self, name: &NodeClaimName) -> Result<Option<NodeClaim>, ClusterError>;

    /// Creates the NodeClaim with our finalizer; one of that name that exists already is returned as it is.
    async fn create_node_claim(&self, launch: &Launch) -> Result<NodeClaim, ClusterError>;
    /// Metadata and status; conflicts and vanished objects are errors the caller tells apart.
    async fn update_node_claim(&self, update: &NodeClaimUpdate) -> Result<NodeClaim, ClusterError>;
    /// Deletes with uid and resourceVersion as preconditions (docs/protocol.md#d2).
    async fn delete_node_claim(&self, target: &Target) -> Result<(), ClusterError>;
    async fn update_node(&self, update: &NodeUpdate) -> Result<(), ClusterError>;
    /// Through the eviction API, with the uid as precondition; a budget that refuses is `Refused`.
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

    /// Sets annotations, and removes those without a value, with the uid as precondition.
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
    /// On condition of this resourceVersion.
    async fn update_capacity_buffer_status(
        &self,
        key: &PodKey,
        version: &str,
        status: &api::karpenter::CapacityBufferStatus,
    ) -> Result<(), ClusterError>;
    /// Sets annotations and leaves the others.
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
    /// Adds or removes our finalizer.
    async fn set_node_class_finalizer(&self, name: &str, present: bool)
    -> Result<(), ClusterError>;

    /// The uid of the namespace `kube-system`: each cluster has its own, from its first minute to its last.
    async fn identity(&self) -> Result<Uid, ClusterError>;

    async fn post_event(&self, event: &Event) -> Result<(), ClusterError>;

    /// Karpenter's leader-election Lease (docs/protocol.md#leading).
    async fn leader_lease(&self) -> Result<Option<LeaderLease>, ClusterError>;
    /// Takes or renews it on condition of this resourceVersion (`None`: it must not exist).
    async fn hold_leader_lease(&self, lease: &LeaderLease) -> Result<LeaderLease, ClusterError>;

    /// What this function told last for the relay's `/metrics`; `None` where nobody wants to know, as without a relay.
    async fn status_document(&self, lane: Lane) -> Result<Option<StatusDocument>, ClusterError>;
    /// Replaces it, on condition of its resourceVersion; what others told stays.
    async fn store_status_document(
        &self,
        lane: Lane,
        document: &StatusDocument,
    ) -> Result<(), ClusterError>;

    /// What all calls so far came to; nothing where calls cost nothing.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Labels that tell the pods of one application from others (docs/spec/v1.15.md#default-spread-selector).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSelectors {
    pub services: Vec<Service>,
    /// ReplicaSets, StatefulSets and ReplicationControllers.
    pub workloads: Vec<Workload>,
}

/// Requests that were sent, and what was read for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Traffic {
    pub requests: u64,
    /// Of answers, after decompression.
    pub bytes: u64,
    /// Large kinds that were listed, and those of which it was enough to follow what had changed.
    pub listed: u64,
    pub followed: u64,
}

impl Traffic {
    /// What has come since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            bytes: self.bytes.saturating_sub(before.bytes),
            listed: self.listed.saturating_sub(before.listed),
            followed: self.followed.saturating_sub(before.followed),
        }
    }
}

/// One function's document in the ConfigMap [`model::status::CONFIG_MAP`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusDocument {
    /// As [`model::status::Status`] writes it; empty where the function has told nothing yet.
    pub text: String,
    /// Of the ConfigMap as a whole.
    pub resource_version: String,
}

/// A list whose objects may have been stored in a form that this version cannot read. Those are left out of it, and told of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub unreadable: Vec<Unreadable>,
}

impl<T> Listed<T> {
    /// All objects, for those who must not take one that cannot be read for one that is not there.
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

/// An object that is stored but cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub name: String,
    pub uid: Uid,
    /// What is wrong with it.
    pub message: String,
}

/// A Kubernetes Event about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: EventTarget,
    pub kind: EventKind,
    /// A reason users know, such as `FailedScheduling`.
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

/// What the caller can do about a refused API server call.
#[derive(Clone, Debug, Error)]
pub enum ClusterError {
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// Read the object again.
    #[error("{what} has changed meanwhile")]
    Conflict { what: String },
    /// Try later: a disruption budget or admission refuses for now.
    #[error("{what} refused for now: {message}")]
    Refused { what: String, message: String },
    /// Back off; `after_seconds` is the server's own wish.
    #[error("the API server throttles {action}")]
    Throttled {
        action: String,
        after_seconds: Option<u64>,
    },
    /// Credentials are wrong, expired or lack a permission.
    #[error(
        "the API server denied {action}: {message}; see that the credentials of the cluster's registry entry are valid and have the rights of the chart's role"
    )]
    Denied { action: String, message: String },
    /// The object is not acceptable; repeating it cannot help.
    #[error("the API server rejected {what}: {message}")]
    Invalid { what: String, message: String },
    /// A webhook that objects of this kind pass does not work: others may have none.
    #[error("an admission webhook failed for {what}: {message}")]
    Admission { what: String, message: String },
    /// No answer, or one that proves nothing.
    #[error("the API server did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
    /// The cluster itself is gone: whoever keeps clusters says that there is none of this name.
    #[error("there is no cluster {cluster}")]
    NoCluster { cluster: ClusterName },
    /// The kind is not served: its CRD is missing.
    #[error("{kind} is not known to the API server: its CRD is not installed")]
    KindMissing { kind: String },
}

impl ClusterError {
    /// Whether the error is about the one object that was asked for or acted on, so that it says nothing about any other.
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
