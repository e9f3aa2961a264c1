use std::collections::BTreeMap;

use api::{
    CapacityBuffer, EC2NodeClass, NodeOverlay, NodePool,
    convert::Scalable,
    karpenter::{CapacityBufferStatus, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus},
    kubernetes::PodTemplate,
};
use async_trait::async_trait;
use model::{
    Lane, NodeClaimName, NodeName, NodePoolName, PodKey, Uid,
    devices::{DeviceObjects, ResourceSlice},
    node::Node,
    node_claim::NodeClaim,
    plan::{Launch, NodeClaimUpdate, NodeUpdate, Target},
    pod::Pod,
    snapshot::{DaemonSet, Namespace, PodDisruptionBudget, Workload},
    status::CONFIG_MAP,
    volume::Storage,
};
use ports::{
    Cluster, ClusterError,
    cluster::{Event, LeaderLease, Listed, PodSelectors, StatusDocument},
};

use crate::{
    api_server::{absent, conflict},
    refusal::Protected,
    sim::Sim,
};

#[async_trait]
impl Cluster for Sim {
    async fn node_pools(&self) -> Result<Listed<NodePool>, ClusterError> {
        self.neutral_call("node_pools", |world| {
            Ok(Listed {
                items: world.api.node_pools.values().cloned().collect(),
                unreadable: world.api.unreadable_node_pools.clone(),
            })
        })
        .await
    }

    async fn node_classes(&self) -> Result<Listed<EC2NodeClass>, ClusterError> {
        self.neutral_call("node_classes", |world| {
            Ok(Listed {
                items: world.api.node_classes.values().cloned().collect(),
                unreadable: world.api.unreadable_node_classes.clone(),
            })
        })
        .await
    }

    async fn node_claims(&self) -> Result<Vec<NodeClaim>, ClusterError> {
        self.neutral_call("node_claims", |world| {
            Ok(world.api.node_claims.values().cloned().collect())
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
        self.neutral_call("nodes", |world| {
            let unlisted = &world.api.unlisted_nodes;
            let nodes = world.api.nodes.values();
            let listed = nodes.filter(|node| !unlisted.contains(&node.name));
            Ok(listed.cloned().collect())
        })
        .await
    }

    async fn pods(&self) -> Result<Vec<Pod>, ClusterError> {
        self.neutral_call("pods", |world| {
            Ok(world.api.pods.values().cloned().collect())
        })
        .await
    }

    async fn unassigned_pods(&self) -> Result<Vec<Pod>, ClusterError> {
        self.neutral_call("unassigned_pods", |world| {
            let pods = world.api.pods.values();
            let unassigned = pods.filter(|pod| pod.node_name.is_none());
            Ok(unassigned.cloned().collect())
        })
        .await
    }

    async fn daemon_sets(&self) -> Result<Vec<DaemonSet>, ClusterError> {
        self.neutral_call("daemon_sets", |world| Ok(world.api.daemon_sets.clone()))
            .await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, ClusterError> {
        self.neutral_call("namespaces", |_| {
            Ok(vec![Namespace {
                name: "default".into(),
                ..Namespace::default()
            }])
        })
        .await
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
        self.neutral_call("disruption_budgets", |world| {
            Ok(world.api.disruption_budgets.clone())
        })
        .await
    }

    async fn pod_selectors(&self) -> Result<PodSelectors, ClusterError> {
        self.neutral_call("pod_selectors", |world| Ok(world.api.pod_selectors.clone()))
            .await
    }

    async fn device_objects(&self) -> Result<DeviceObjects, ClusterError> {
        self.neutral_call("device_objects", |world| Ok(world.api.devices.clone()))
            .await
    }

    async fn resource_slices(&self) -> Result<Vec<ResourceSlice>, ClusterError> {
        self.neutral_call("resource_slices", |world| {
            Ok(world.api.devices.slices.clone())
        })
        .await
    }

    async fn storage(&self) -> Result<Storage, ClusterError> {
        self.neutral_call("storage", |world| Ok(world.api.storage.clone()))
            .await
    }

    async fn node_overlays(&self) -> Result<Vec<NodeOverlay>, ClusterError> {
        self.neutral_call("node_overlays", |world| {
            world.api.served("NodeOverlay")?;
            Ok(world.api.node_overlays.values().cloned().collect())
        })
        .await
    }

    async fn capacity_buffers(&self) -> Result<Vec<CapacityBuffer>, ClusterError> {
        self.neutral_call("capacity_buffers", |world| {
            world.api.served("CapacityBuffer")?;
            Ok(world.api.capacity_buffers.values().cloned().collect())
        })
        .await
    }

    async fn pod_template(&self, key: &PodKey) -> Result<Option<PodTemplate>, ClusterError> {
        self.neutral_call("pod_template", |world| {
            Ok(world.api.pod_templates.get(key).cloned())
        })
        .await
    }

    /// Only Deployments have workloads here.
    async fn workload(
        &self,
        kind: Scalable,
        key: &PodKey,
    ) -> Result<Option<Workload>, ClusterError> {
        self.neutral_call("workload", |world| {
            let found = world.api.deployments.get(&key.name);
            Ok(found
                .filter(|_| kind == Scalable::Deployment)
                .map(|deployment| deployment.as_workload(key)))
        })
        .await
    }

    async fn pod(&self, key: &PodKey) -> Result<Option<Pod>, ClusterError> {
        self.neutral_call("pod", |world| Ok(world.api.pods.get(key).cloned()))
            .await
    }

    async fn node(&self, name: &NodeName) -> Result<Option<Node>, ClusterError> {
        self.neutral_call("node", |world| Ok(world.api.nodes.get(name).cloned()))
            .await
    }

    async fn node_claim(&self, name: &NodeClaimName) -> Result<Option<NodeClaim>, ClusterError> {
        self.neutral_call("node_claim", |world| {
            Ok(world.api.node_claims.get(name).cloned())
        })
        .await
    }

    async fn create_node_claim(&self, launch: &Launch) -> Result<NodeClaim, ClusterError> {
        self.changing_call("create_node_claim", |world| {
            let pool = Protected::NodeClaimsOf(launch.node_pool.clone());
            world.api.check_admission(&pool)?;
            Ok(world.api.create_claim(launch, world.now))
        })
        .await
    }

    async fn update_node_claim(&self, update: &NodeClaimUpdate) -> Result<NodeClaim, ClusterError> {
        self.changing_call("update_node_claim", |world| {
            let claim = Protected::NodeClaim(update.name.clone());
            world.api.check_admission(&claim)?;
            world.api.update_claim(update)
        })
        .await
    }

    async fn delete_node_claim(&self, target: &Target) -> Result<(), ClusterError> {
        self.changing_call("delete_node_claim", |world| {
            let claim = Protected::NodeClaim(target.name.clone());
            world.api.check_admission(&claim)?;
            world.api.delete_claim(target, world.now)
        })
        .await
    }

    async fn update_node(&self, update: &NodeUpdate) -> Result<(), ClusterError> {
        self.changing_call("update_node", |world| {
            world
                .api
                .check_admission(&Protected::Node(update.name.clone()))?;
            world.api.update_node(update, world.now)
        })
        .await
    }

    async fn evict(
        &self,
        pod: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
    ) -> Result<(), ClusterError> {
        self.changing_call("evict", |world| {
            world.api.check_admission(&Protected::Pod(pod.clone()))?;
            world.api.evict(pod, uid, grace_seconds, world.now)
        })
        .await
    }

    async fn delete_pod(
        &self,
        pod: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
    ) -> Result<(), ClusterError> {
        self.changing_call("delete_pod", |world| {
            world.api.check_admission(&Protected::Pod(pod.clone()))?;
            world.api.delete_pod(pod, uid, grace_seconds, world.now)
        })
        .await
    }

    async fn annotate_pod(
        &self,
        pod: &PodKey,
        uid: &Uid,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> Result<(), ClusterError> {
        self.changing_call("annotate_pod", |world| {
            world.api.check_admission(&Protected::Pod(pod.clone()))?;
            world.api.annotate_pod(pod, uid, annotations)
        })
        .await
    }

    async fn update_node_pool_status(
        &self,
        name: &NodePoolName,
        status: &NodePoolStatus,
    ) -> Result<(), ClusterError> {
        self.changing_call("update_node_pool_status", |world| {
            world
                .api
                .check_admission(&Protected::NodePool(name.clone()))?;
            let pool = world.api.node_pools.get_mut(name.as_str());
            pool.ok_or_else(|| absent("NodePool", name.as_str()))?
                .status = Some(status.clone());
            Ok(())
        })
        .await
    }

    async fn update_node_class_status(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
    ) -> Result<(), ClusterError> {
        self.changing_call("update_node_class_status", |world| {
            world
                .api
                .check_admission(&Protected::NodeClass(name.to_owned()))?;
            let class = world.api.node_classes.get_mut(name);
            class.ok_or_else(|| absent("EC2NodeClass", name))?.status = Some(status.clone());
            Ok(())
        })
        .await
    }

    async fn update_node_overlay_status(
        &self,
        name: &str,
        status: &NodeOverlayStatus,
    ) -> Result<(), ClusterError> {
        self.changing_call("update_node_overlay_status", |world| {
            let overlay = world.api.node_overlays.get_mut(name);
            let overlay = overlay.ok_or_else(|| absent("NodeOverlay", name))?;
            overlay.status = Some(status.clone());
            Ok(())
        })
        .await
    }

    async fn update_capacity_buffer_status(
        &self,
        key: &PodKey,
        version: &str,
        status: &CapacityBufferStatus,
    ) -> Result<(), ClusterError> {
        self.changing_call("update_capacity_buffer_status", |world| {
            let next = world.api.next_version();
            let buffer = world.api.capacity_buffers.get_mut(key);
            let buffer = buffer.ok_or_else(|| absent("CapacityBuffer", &key.to_string()))?;
            if buffer.metadata.resource_version.as_deref() != Some(version) {
                return Err(conflict("CapacityBuffer", &key.to_string()));
            }
            buffer.metadata.resource_version = Some(next);
            buffer.status = Some(status.clone());
            Ok(())
        })
        .await
    }

    async fn annotate_node_pool(
        &self,
        name: &NodePoolName,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError> {
        self.changing_call("annotate_node_pool", |world| {
            world
                .api
                .check_admission(&Protected::NodePool(name.clone()))?;
            let pool = world.api.node_pools.get_mut(name.as_str());
            let pool = pool.ok_or_else(|| absent("NodePool", name.as_str()))?;
            pool.metadata.annotations.extend(annotations.clone());
            Ok(())
        })
        .await
    }

    async fn annotate_node_class(
        &self,
        name: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError> {
        self.changing_call("annotate_node_class", |world| {
            world
                .api
                .check_admission(&Protected::NodeClass(name.to_owned()))?;
            let class = world.api.node_classes.get_mut(name);
            let class = class.ok_or_else(|| absent("EC2NodeClass", name))?;
            class.metadata.annotations.extend(annotations.clone());
            Ok(())
        })
        .await
    }

    async fn set_node_class_finalizer(
        &self,
        name: &str,
        present: bool,
    ) -> Result<(), ClusterError> {
        self.changing_call("set_node_class_finalizer", |world| {
            world
                .api
                .check_admission(&Protected::NodeClass(name.to_owned()))?;
            let class = world
                .api
                .node_classes
                .get_mut(name)
                .ok_or_else(|| absent("EC2NodeClass", name))?;
            let finalizer = api::names::finalizer::EC2_NODE_CLASS;
            class.metadata.finalizers.retain(|other| other != finalizer);
            if present {
                class.metadata.finalizers.push(finalizer.to_owned());
            } else if class.metadata.is_deleting() && class.metadata.finalizers.is_empty() {
                world.api.node_classes.remove(name);
            }
            Ok(())
        })
        .await
    }

    async fn identity(&self) -> Result<Uid, ClusterError> {
        self.neutral_call("identity", |world| Ok(world.api.uid.clone()))
            .await
    }

    async fn post_event(&self, event: &Event) -> Result<(), ClusterError> {
        self.neutral_call("post_event", |world| {
            world.api.events.push(event.clone());
            Ok(())
        })
        .await
    }

    async fn leader_lease(&self) -> Result<Option<LeaderLease>, ClusterError> {
        self.neutral_call("leader_lease", |world| Ok(world.api.leader.clone()))
            .await
    }

    async fn hold_leader_lease(&self, lease: &LeaderLease) -> Result<LeaderLease, ClusterError> {
        self.changing_call("hold_leader_lease", |world| {
            let current = world
                .api
                .leader
                .as_ref()
                .and_then(|lease| lease.resource_version.clone());
            if current != lease.resource_version {
                return Err(conflict("Lease", "karpenter-leader-election"));
            }
            let held = LeaderLease {
                resource_version: Some(world.api.next_version()),
                ..lease.clone()
            };
            world.api.leader = Some(held.clone());
            Ok(held)
        })
        .await
    }

    async fn status_document(&self, lane: Lane) -> Result<Option<StatusDocument>, ClusterError> {
        self.neutral_call("status_document", |world| {
            let status = world.api.status.as_ref();
            Ok(status.map(|status| status.document(lane)))
        })
        .await
    }

    async fn store_status_document(
        &self,
        lane: Lane,
        document: &StatusDocument,
    ) -> Result<(), ClusterError> {
        self.neutral_call("store_status_document", |world| {
            let status = world.api.status.as_mut();
            status
                .ok_or_else(|| absent("ConfigMap", CONFIG_MAP))?
                .store(lane, document)
        })
        .await
    }
}
