use std::{collections::BTreeMap, sync::Arc};

use api::{
    CapacityBuffer, EC2NodeClass, NodeOverlay, NodePool, Resource,
    convert::{NodeClaimPatch, NodePatch, Scalable, StorageObjects},
    kubernetes,
};
use async_trait::async_trait;
use kube::Client;
use model::{
    Lane, NodeClaimName, NodeName, NodePoolName, PodKey, Uid,
    devices::{DeviceObjects, ResourceSlice},
    node::Node,
    node_claim::NodeClaim,
    plan::{Launch, NodeClaimUpdate, NodeUpdate, Target},
    pod::Pod,
    snapshot::{DaemonSet, Namespace, PodDisruptionBudget, Service, Workload},
    volume::Storage,
};
use ports::{
    Cluster, ClusterError,
    cluster::{Event, LeaderLease, Listed, PodSelectors, StatusDocument, Traffic},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    events, lease, status,
    transport::{Path, Transport},
    watch_cache::WatchCache,
};

/// One cluster, through its API server.
pub struct KubeCluster {
    transport: Transport,
    /// Namespace of Karpenter's leader-election Lease and of the relay's status document.
    lease_namespace: String,
    caches: Arc<WatchCaches>,
    /// UID of the namespace that identifies the cluster, as first read.
    uid: OnceCell<Uid>,
}

/// The namespace whose UID identifies a cluster: Kubernetes does not allow deleting it.
const IDENTITY_NAMESPACE: &str = "kube-system";
const IDENTITY_TEXT: &str = "namespace kube-system";

/// Caches of the kinds that are large in large clusters.
#[derive(Default)]
struct WatchCaches {
    pods: WatchCache<view::Pods>,
    nodes: WatchCache<BTreeMap<(String, String), Node>>,
    node_claims: WatchCache<BTreeMap<(String, String), NodeClaim>>,
}

impl KubeCluster {
    pub fn new(client: Client, lease_namespace: impl Into<String>) -> Self {
        Self {
            transport: Transport::new(client),
            lease_namespace: lease_namespace.into(),
            caches: Arc::default(),
            uid: OnceCell::new(),
        }
    }

    /// Caches kinds with more than this number of objects, instead of those with more than a page. Tests set it, to watch with few
    /// objects.
    #[must_use]
    pub fn caching_above(self, objects: usize) -> Self {
        let caches = WatchCaches {
            pods: WatchCache::above(objects),
            nodes: WatchCache::above(objects),
            node_claims: WatchCache::above(objects),
        };
        Self {
            caches: Arc::new(caches),
            ..self
        }
    }

    /// Uses another client, with the same caches.
    pub fn through(&self, client: Client) -> Self {
        Self {
            transport: Transport::new(client),
            lease_namespace: self.lease_namespace.clone(),
            caches: self.caches.clone(),
            uid: OnceCell::new(),
        }
    }

    /// Returns whether both share their caches.
    pub fn remembers_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.caches, &other.caches)
    }

    /// Number of cached objects, which need not be listed.
    pub async fn remembered(&self) -> usize {
        let WatchCaches {
            pods,
            nodes,
            node_claims,
        } = &*self.caches;
        pods.len().await + nodes.len().await + node_claims.len().await
    }

    /// Drops the caches, to free memory for other clusters.
    pub async fn forget(&self) {
        self.caches.pods.forget().await;
        self.caches.nodes.forget().await;
        self.caches.node_claims.forget().await;
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn node_pools(&self) -> Result<Listed<NodePool>, ClusterError> {
        self.transport.listed::<NodePool>().await
    }

    async fn node_classes(&self) -> Result<Listed<EC2NodeClass>, ClusterError> {
        self.transport.listed::<EC2NodeClass>().await
    }

    async fn node_claims(&self) -> Result<Vec<NodeClaim>, ClusterError> {
        self.caches
            .node_claims
            .read::<api::NodeClaim>(&self.transport)
            .await
    }

    async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
        self.caches
            .nodes
            .read::<kubernetes::Node>(&self.transport)
            .await
    }

    async fn pods(&self) -> Result<Vec<Pod>, ClusterError> {
        self.caches
            .pods
            .read::<kubernetes::Pod>(&self.transport)
            .await
    }

    async fn unassigned_pods(&self) -> Result<Vec<Pod>, ClusterError> {
        if self.caches.pods.is_warm().await {
            let mut pods = self.pods().await?;
            pods.retain(|pod| pod.node_name.is_none());
            return Ok(pods);
        }
        self.transport
            .list_where::<kubernetes::Pod, _>("spec.nodeName=")
            .await
    }

    async fn daemon_sets(&self) -> Result<Vec<DaemonSet>, ClusterError> {
        self.transport.list::<kubernetes::DaemonSet, _>().await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, ClusterError> {
        self.transport.list::<kubernetes::Namespace, _>().await
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
        self.transport
            .list::<kubernetes::PodDisruptionBudget, _>()
            .await
    }

    async fn storage(&self) -> Result<Storage, ClusterError> {
        let (claims, volumes, classes, csi_nodes, attachments) = tokio::try_join!(
            self.transport
                .list::<kubernetes::PersistentVolumeClaim, _>(),
            self.transport.list::<kubernetes::PersistentVolume, _>(),
            self.transport.list::<kubernetes::StorageClass, _>(),
            self.transport.list::<kubernetes::CSINode, _>(),
            self.transport.list::<kubernetes::VolumeAttachment, _>(),
        )?;
        Ok(StorageObjects {
            claims,
            volumes,
            classes,
            csi_nodes,
            attachments,
        }
        .into())
    }

    async fn device_objects(&self) -> Result<DeviceObjects, ClusterError> {
        let (classes, claims, templates, slices) = tokio::try_join!(
            self.transport.list::<kubernetes::DeviceClass, _>(),
            self.transport.list::<kubernetes::ResourceClaim, _>(),
            self.transport
                .list::<kubernetes::ResourceClaimTemplate, _>(),
            self.resource_slices(),
        )?;
        Ok(DeviceObjects {
            classes,
            claims,
            templates,
            slices,
        })
    }

    async fn resource_slices(&self) -> Result<Vec<ResourceSlice>, ClusterError> {
        self.transport.list::<kubernetes::ResourceSlice, _>().await
    }

    async fn pod_selectors(&self) -> Result<PodSelectors, ClusterError> {
        let (services, replica_sets, stateful_sets, controllers) = tokio::try_join!(
            self.transport.list::<kubernetes::Service, Service>(),
            self.transport.list::<kubernetes::ReplicaSet, Workload>(),
            self.transport.list::<kubernetes::StatefulSet, Workload>(),
            self.transport
                .list::<kubernetes::ReplicationController, Workload>(),
        )?;
        let workloads = replica_sets.into_iter().chain(stateful_sets);
        Ok(PodSelectors {
            services,
            workloads: workloads.chain(controllers).collect(),
        })
    }

    async fn node_overlays(&self) -> Result<Vec<NodeOverlay>, ClusterError> {
        self.transport.list::<NodeOverlay, _>().await
    }

    async fn capacity_buffers(&self) -> Result<Vec<CapacityBuffer>, ClusterError> {
        self.transport.list::<CapacityBuffer, _>().await
    }

    async fn pod_template(
        &self,
        key: &PodKey,
    ) -> Result<Option<kubernetes::PodTemplate>, ClusterError> {
        let path = Path::one::<kubernetes::PodTemplate>(&key.namespace, &key.name);
        self.transport
            .get(path, &format!("PodTemplate {key}"))
            .await
    }

    async fn workload(
        &self,
        kind: Scalable,
        key: &PodKey,
    ) -> Result<Option<Workload>, ClusterError> {
        match kind {
            Scalable::Deployment => self.read_workload::<kubernetes::Deployment>(key).await,
            Scalable::ReplicaSet => self.read_workload::<kubernetes::ReplicaSet>(key).await,
            Scalable::StatefulSet => self.read_workload::<kubernetes::StatefulSet>(key).await,
        }
    }

    async fn pod(&self, key: &PodKey) -> Result<Option<Pod>, ClusterError> {
        let pod: Option<kubernetes::Pod> = self
            .transport
            .get(pod_path(key), &format!("pod {key}"))
            .await?;
        Ok(pod.map(Into::into))
    }

    async fn node(&self, name: &NodeName) -> Result<Option<Node>, ClusterError> {
        let path = Path::one::<kubernetes::Node>("", name.as_str());
        let node: Option<kubernetes::Node> =
            self.transport.get(path, &format!("node {name}")).await?;
        Ok(node.map(Into::into))
    }

    async fn node_claim(&self, name: &NodeClaimName) -> Result<Option<NodeClaim>, ClusterError> {
        let claim: Option<api::NodeClaim> = self
            .transport
            .get(claim_path(name), &claim_text(name))
            .await?;
        Ok(claim.map(Into::into))
    }

    async fn create_node_claim(&self, launch: &Launch) -> Result<NodeClaim, ClusterError> {
        let invalid = |error: serde_json::Error| ClusterError::Invalid {
            what: claim_text(&launch.name),
            message: error.to_string(),
        };
        let manifest =
            api::Resource::to_manifest(&api::NodeClaim::from(launch)).map_err(invalid)?;
        let created: Result<api::NodeClaim, _> = self
            .transport
            .create(
                Path::all::<api::NodeClaim>(),
                &manifest,
                &claim_text(&launch.name),
            )
            .await;
        match created {
            Ok(claim) => Ok(claim.into()),
            Err(ClusterError::Conflict { what }) => self
                .node_claim(&launch.name)
                .await?
                .ok_or(ClusterError::NotFound { what }),
            Err(error) => Err(error),
        }
    }

    async fn update_node_claim(&self, update: &NodeClaimUpdate) -> Result<NodeClaim, ClusterError> {
        let what = claim_text(&update.name);
        let current = self
            .node_claim(&update.name)
            .await?
            .ok_or_else(|| ClusterError::NotFound { what: what.clone() })?;
        let NodeClaimPatch { metadata, status } = NodeClaimPatch::new(update, &current);
        let path = || claim_path(&update.name);
        let metadata = metadata.map(|body| (path(), body));
        let status = status.map(|body| (path().sub("status"), body));
        // A client that sees status condition Launched must find the labels that go with it, so metadata is written first.
        // Removing the last finalizer ends the object, so it is written last. So is the digest of the node's pods: without the
        // time of the pod event, it would claim that the pods have not changed.
        let is_status_first =
            !update.remove_finalizers.is_empty() || update.last_pod_event.is_some();
        let writes = match is_status_first {
            true => [status, metadata],
            false => [metadata, status],
        };
        let expected = Some(&update.resource_version).filter(|version| !version.is_empty());
        let mut version = expected.unwrap_or(&current.resource_version).clone();
        let mut written = current;
        for (path, body) in writes.into_iter().flatten() {
            written = self
                .transport
                .merge::<api::NodeClaim>(path, &with_precondition(body, &version), &what)
                .await?
                .into();
            version.clone_from(&written.resource_version);
        }
        Ok(written)
    }

    async fn delete_node_claim(&self, target: &Target) -> Result<(), ClusterError> {
        let options = json!({"preconditions": {"uid": target.uid, "resourceVersion": target.resource_version}});
        self.transport
            .delete(
                claim_path(&target.name),
                &options,
                &claim_text(&target.name),
            )
            .await
    }

    async fn update_node(&self, update: &NodeUpdate) -> Result<(), ClusterError> {
        let what = format!("node {}", update.name);
        let path = || Path::one::<kubernetes::Node>("", update.name.as_str());
        let current: Option<kubernetes::Node> = self.transport.get(path(), &what).await?;
        let current = current.ok_or_else(|| ClusterError::NotFound { what: what.clone() })?;
        let owners = current.metadata.owner_references.clone();
        if let Some(body) = NodePatch::new(update, &current.into(), &owners).0 {
            self.transport.merge::<Value>(path(), &body, &what).await?;
        }
        if update.delete {
            self.transport
                .delete(
                    path(),
                    &json!({"preconditions": {"uid": update.uid}}),
                    &what,
                )
                .await?;
        }
        Ok(())
    }

    async fn evict(
        &self,
        pod: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
    ) -> Result<(), ClusterError> {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": delete_options(uid, grace_seconds),
        });
        self.transport
            .post(
                pod_path(pod).sub("eviction"),
                &body,
                &format!("eviction of pod {pod}"),
            )
            .await
    }

    async fn delete_pod(
        &self,
        pod: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
    ) -> Result<(), ClusterError> {
        self.transport
            .delete(
                pod_path(pod),
                &delete_options(uid, grace_seconds),
                &format!("pod {pod}"),
            )
            .await
    }

    async fn annotate_pod(
        &self,
        pod: &PodKey,
        uid: &Uid,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> Result<(), ClusterError> {
        let body = json!({"metadata": {"uid": uid, "annotations": annotations}});
        let what = format!("pod {pod}");
        let patched = self.transport.merge::<Value>(pod_path(pod), &body, &what);
        patched.await.map(drop)
    }

    async fn update_node_pool_status(
        &self,
        name: &NodePoolName,
        status: &api::karpenter::NodePoolStatus,
    ) -> Result<(), ClusterError> {
        let path = Path::one::<NodePool>("", name.as_str()).sub("status");
        self.write_status(
            path,
            serde_json::to_value(status),
            &format!("NodePool {name}"),
        )
        .await
    }

    async fn update_node_class_status(
        &self,
        name: &str,
        status: &api::karpenter::EC2NodeClassStatus,
    ) -> Result<(), ClusterError> {
        let path = Path::one::<EC2NodeClass>("", name).sub("status");
        self.write_status(
            path,
            serde_json::to_value(status),
            &format!("EC2NodeClass {name}"),
        )
        .await
    }

    async fn update_node_overlay_status(
        &self,
        name: &str,
        status: &api::karpenter::NodeOverlayStatus,
    ) -> Result<(), ClusterError> {
        let path = Path::one::<NodeOverlay>("", name).sub("status");
        self.write_status(
            path,
            serde_json::to_value(status),
            &format!("NodeOverlay {name}"),
        )
        .await
    }

    async fn update_capacity_buffer_status(
        &self,
        key: &PodKey,
        version: &str,
        status: &api::karpenter::CapacityBufferStatus,
    ) -> Result<(), ClusterError> {
        let path = Path::one::<CapacityBuffer>(&key.namespace, &key.name).sub("status");
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        self.transport
            .merge::<Value>(path, &patch, &format!("CapacityBuffer {key}"))
            .await
            .map(drop)
    }

    async fn annotate_node_pool(
        &self,
        name: &NodePoolName,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError> {
        let path = Path::one::<NodePool>("", name.as_str());
        let what = format!("NodePool {name}");
        self.annotate(path, annotations, &what).await
    }

    async fn annotate_node_class(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError> {
        let path = Path::one::<EC2NodeClass>("", name);
        let what = format!("EC2NodeClass {name}");
        self.annotate(path, annotations, &what).await
    }

    async fn set_node_class_finalizer(
        &self,
        name: &str,
        present: bool,
    ) -> Result<(), ClusterError> {
        let what = format!("EC2NodeClass {name}");
        let path = || Path::one::<EC2NodeClass>("", name);
        let Some(current) = self.transport.get::<EC2NodeClass>(path(), &what).await? else {
            return Err(ClusterError::NotFound { what });
        };
        let mut finalizers = current.metadata.finalizers;
        let held = finalizers
            .iter()
            .any(|finalizer| finalizer == api::names::finalizer::EC2_NODE_CLASS);
        if held == present {
            return Ok(());
        }
        if present {
            finalizers.push(api::names::finalizer::EC2_NODE_CLASS.to_owned());
        } else {
            finalizers.retain(|finalizer| finalizer != api::names::finalizer::EC2_NODE_CLASS);
        }
        let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": current.metadata.resource_version}});
        self.transport
            .merge::<Value>(path(), &patch, &what)
            .await
            .map(drop)
    }

    async fn identity(&self) -> Result<Uid, ClusterError> {
        let read = async {
            let path = Path::one::<kubernetes::Namespace>("", IDENTITY_NAMESPACE);
            let namespace = self
                .transport
                .get::<kubernetes::Namespace>(path, IDENTITY_TEXT)
                .await?;
            let uid = namespace.map(|namespace| namespace.metadata.uid);
            uid.filter(|uid| !uid.is_empty())
                .map(Uid::from)
                .ok_or_else(|| ClusterError::NotFound {
                    what: IDENTITY_TEXT.to_owned(),
                })
        };
        self.uid.get_or_try_init(|| read).await.cloned()
    }

    async fn post_event(&self, event: &Event) -> Result<(), ClusterError> {
        events::post(&self.transport, event).await
    }

    async fn leader_lease(&self) -> Result<Option<LeaderLease>, ClusterError> {
        lease::read(&self.transport, &self.lease_namespace).await
    }

    async fn hold_leader_lease(&self, lease: &LeaderLease) -> Result<LeaderLease, ClusterError> {
        lease::hold(&self.transport, &self.lease_namespace, lease).await
    }

    async fn status_document(&self, lane: Lane) -> Result<Option<StatusDocument>, ClusterError> {
        status::read(&self.transport, &self.lease_namespace, lane).await
    }

    async fn store_status_document(
        &self,
        lane: Lane,
        document: &StatusDocument,
    ) -> Result<(), ClusterError> {
        status::store(&self.transport, &self.lease_namespace, lane, document).await
    }

    fn traffic(&self) -> Traffic {
        self.transport.traffic()
    }
}

impl KubeCluster {
    async fn annotate(
        &self,
        path: Path,
        annotations: &BTreeMap<String, String>,
        what: &str,
    ) -> Result<(), ClusterError> {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.transport
            .merge::<Value>(path, &patch, what)
            .await
            .map(drop)
    }

    async fn read_workload<T>(&self, key: &PodKey) -> Result<Option<Workload>, ClusterError>
    where
        T: Resource + DeserializeOwned,
        Workload: From<T>,
    {
        let path = Path::one::<T>(&key.namespace, &key.name);
        let what = format!("{} {key}", T::KIND);
        let found: Option<T> = self.transport.get(path, &what).await?;
        Ok(found.map(Into::into))
    }

    async fn write_status(
        &self,
        path: Path,
        status: serde_json::Result<Value>,
        what: &str,
    ) -> Result<(), ClusterError> {
        let status = status.map_err(|error| ClusterError::Invalid {
            what: what.to_owned(),
            message: error.to_string(),
        })?;
        self.transport
            .merge::<Value>(path, &json!({ "status": status }), what)
            .await
            .map(drop)
    }
}

fn claim_path(name: &NodeClaimName) -> Path {
    Path::one::<api::NodeClaim>("", name.as_str())
}

fn claim_text(name: &NodeClaimName) -> String {
    format!("NodeClaim {name}")
}

fn pod_path(key: &PodKey) -> Path {
    Path::one::<kubernetes::Pod>(&key.namespace, &key.name)
}

fn delete_options(uid: &Uid, grace_seconds: Option<i64>) -> Value {
    match grace_seconds {
        None => json!({"preconditions": {"uid": uid}}),
        Some(seconds) => json!({"preconditions": {"uid": uid}, "gracePeriodSeconds": seconds}),
    }
}

/// Adds a resource version to a patch as its precondition.
fn with_precondition(mut patch: Value, resource_version: &str) -> Value {
    if let Some(Value::Object(metadata)) = patch.get_mut("metadata") {
        metadata.insert("resourceVersion".to_owned(), resource_version.into());
    }
    patch
}
