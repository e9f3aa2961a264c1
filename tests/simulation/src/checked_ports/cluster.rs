use std::{collections::BTreeMap, sync::Arc};

use api::{
    convert::Scalable,
    karpenter::{CapacityBufferStatus, EC2NodeClassStatus, NodeOverlayStatus, NodePoolStatus},
    kubernetes::PodTemplate,
    names::annotation::MODE,
};
use async_trait::async_trait;
use model::{
    ClusterName, Lane, NodeClaimName, NodeName, NodePoolName, PodKey, Uid,
    devices::{DeviceObjects, ResourceSlice},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::{Launch, NodeClaimUpdate, NodeUpdate, Target},
    pod::Pod,
    snapshot::{DaemonSet, Namespace, PodDisruptionBudget, Workload},
    volume::Storage,
};
use ports::{
    Cluster, ClusterError, Clusters,
    cluster::{Event, LeaderLease, Listed, PodSelectors, StatusDocument},
};

use super::{CheckedPorts, delegate};
use crate::{HOLDER, act::Act, planted::Bug};

#[async_trait]
impl Clusters for CheckedPorts {
    async fn connect(
        &self,
        cluster: &ClusterName,
        entry: &serde_json::Value,
    ) -> Result<Arc<dyn Cluster>, ClusterError> {
        Clusters::connect(&self.sim, cluster, entry).await?;
        Ok(Arc::new(self.at(cluster)))
    }
}

impl CheckedPorts {
    fn current_pod(&self, key: &PodKey) -> Option<Pod> {
        self.sim.look(|world| world.api.pods.get(key).cloned())
    }

    /// Returns whether the pod's node has a terminationGracePeriod.
    fn gives_time(&self, key: &PodKey) -> bool {
        let node = self.current_pod(key).and_then(|pod| pod.node_name);
        self.sim.look(|world| {
            let mut claims = world.api.node_claims.values();
            claims.any(|claim| {
                node.is_some()
                    && claim.status.node_name == node
                    && claim.spec.termination_grace_period.is_some()
            })
        })
    }
}

delegate! {
    Cluster for CheckedPorts, ClusterError {
        async fn node_pools(&self) -> Result<Listed<api::NodePool>, ClusterError> {
            let mut pools = self.sim.node_pools().await?;
            for pool in &mut pools.items {
                if self.has(Bug::ActForWatchedPools) {
                    pool.metadata.annotations.remove(MODE);
                }
                if self.has(Bug::MiscountReplicas) {
                    pool.spec.replicas = pool.spec.replicas.map(|count| count + 1);
                }
                if self.has(Bug::IgnoreLimits) {
                    pool.spec.limits = None;
                }
                if self.has(Bug::IgnoreBudgets) {
                    for budget in &mut pool.spec.disruption.budgets {
                        budget.nodes = "100%".to_owned();
                    }
                }
            }
            Ok(pools)
        }

        async fn node_claims(&self) -> Result<Vec<NodeClaim>, ClusterError> {
            let mut claims = self.sim.node_claims().await?;
            if self.has(Bug::DeleteBeforeReplaced) && self.lane == Lane::Disruption {
                for condition in claims.iter_mut().flat_map(|claim| &mut claim.status.conditions) {
                    condition.status = ConditionStatus::True;
                }
            }
            Ok(claims)
        }

        async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
            let mut nodes = self.sim.nodes().await?;
            if self.has(Bug::NeverRepair) {
                nodes.iter_mut().for_each(|node| node.conditions.clear());
            }
            if self.has(Bug::RepairTogether) && self.lane == Lane::Disruption {
                let fails = |node: &Node| !node.conditions.is_empty() || node.ready.status == ConditionStatus::Unknown;
                for node in nodes.iter_mut().filter(|node| fails(node)).skip(1) {
                    node.conditions.clear();
                    node.ready.status = ConditionStatus::True;
                }
            }
            Ok(nodes)
        }

        async fn pods(&self) -> Result<Vec<Pod>, ClusterError> {
            let mut pods = self.sim.pods().await?;
            if self.has(Bug::NeverDrain) && self.lane == Lane::Terminator {
                pods.clear();
            }
            if self.has(Bug::EndWithinGracePeriod) && self.lane == Lane::Terminator {
                pods.retain(|pod| pod.deletion.is_none());
            }
            if self.has(Bug::IgnoreDoNotDisrupt) {
                for pod in &mut pods {
                    pod.annotations.clear();
                }
            }
            Ok(pods)
        }

        async fn pod(&self, key: &PodKey) -> Result<Option<Pod>, ClusterError> {
            let mut pod = Cluster::pod(&self.sim, key).await?;
            self.reread(key, pod.as_ref());
            if self.has(Bug::NeverReread) {
                pod = pod.map(|pod| Pod { node_name: None, ..pod });
            }
            Ok(pod)
        }

        async fn delete_node_claim(&self, target: &Target) -> Result<(), ClusterError> {
            let mut target = target.clone();
            if self.has(Bug::NoPreconditions) {
                target.resource_version.clear();
            }
            self.check_before(&self.cluster, &Act::DeleteClaim(&target));
            self.sim.delete_node_claim(&target).await
        }

        async fn update_node_claim(&self, update: &NodeClaimUpdate) -> Result<NodeClaim, ClusterError> {
            let mut update = update.clone();
            if self.has(Bug::ReleaseEarly) && !update.conditions.is_empty() && self.lane == Lane::Terminator {
                update.remove_finalizers.push(api::names::finalizer::TERMINATION.to_owned());
            }
            self.check_before(&self.cluster, &Act::UpdateClaim(&update));
            self.sim.update_node_claim(&update).await
        }

        async fn update_node(&self, update: &NodeUpdate) -> Result<(), ClusterError> {
            if update.delete {
                self.check_before(&self.cluster, &Act::DeleteNode(&update.name));
            }
            self.sim.update_node(update).await
        }

        async fn evict(&self, pod: &PodKey, uid: &Uid, grace_seconds: Option<i64>) -> Result<(), ClusterError> {
            let has_period = || self.gives_time(pod);
            if self.has(Bug::DeleteForEvict) || self.has(Bug::DeleteWithinGracePeriod) && has_period() {
                return self.delete_pod(pod, uid, grace_seconds).await;
            }
            self.check_before(&self.cluster, &Act::Evict(self.current_pod(pod)));
            self.sim.evict(pod, uid, grace_seconds).await
        }

        async fn delete_pod(&self, pod: &PodKey, uid: &Uid, grace_seconds: Option<i64>) -> Result<(), ClusterError> {
            self.check_before(&self.cluster, &Act::DeletePod(self.current_pod(pod)));
            Cluster::delete_pod(&self.sim, pod, uid, grace_seconds).await
        }

        async fn leader_lease(&self) -> Result<Option<LeaderLease>, ClusterError> {
            let lease = self.sim.leader_lease().await?;
            if !self.has(Bug::IgnoreLeader) {
                return Ok(lease);
            }
            let now = self.sim.look(|world| world.now);
            Ok(lease.map(|lease| LeaderLease {
                holder: HOLDER.to_owned(),
                renewed_at: Some(now),
                duration_seconds: 3600,
                ..lease
            }))
        }
    }
    fn node_classes() -> Listed<api::EC2NodeClass>;
    fn unassigned_pods() -> Vec<Pod>;
    fn daemon_sets() -> Vec<DaemonSet>;
    fn namespaces() -> Vec<Namespace>;
    fn disruption_budgets() -> Vec<PodDisruptionBudget>;
    fn storage() -> Storage;
    fn device_objects() -> DeviceObjects;
    fn resource_slices() -> Vec<ResourceSlice>;
    fn pod_selectors() -> PodSelectors;
    fn node_overlays() -> Vec<api::NodeOverlay>;
    fn capacity_buffers() -> Vec<api::CapacityBuffer>;
    fn pod_template(key: &PodKey) -> Option<PodTemplate>;
    fn workload(kind: Scalable, key: &PodKey) -> Option<Workload>;
    fn node(name: &NodeName) -> Option<Node>;
    fn node_claim(name: &NodeClaimName) -> Option<NodeClaim>;
    fn create_node_claim(launch: &Launch) -> NodeClaim;
    fn update_node_pool_status(name: &NodePoolName, status: &NodePoolStatus) -> ();
    fn update_node_class_status(name: &str, status: &EC2NodeClassStatus) -> ();
    fn update_node_overlay_status(name: &str, status: &NodeOverlayStatus) -> ();
    fn update_capacity_buffer_status(key: &PodKey, version: &str, status: &CapacityBufferStatus) -> ();
    fn annotate_pod(pod: &PodKey, uid: &Uid, annotations: &BTreeMap<String, Option<String>>) -> ();
    fn annotate_node_pool(name: &NodePoolName, annotations: &BTreeMap<String, String>) -> ();
    fn annotate_node_class(name: &str, annotations: &BTreeMap<String, String>) -> ();
    fn set_node_class_finalizer(name: &str, present: bool) -> ();
    fn identity() -> Uid;
    fn post_event(event: &Event) -> ();
    fn hold_leader_lease(lease: &LeaderLease) -> LeaderLease;
    fn status_document(lane: Lane) -> Option<StatusDocument>;
    fn store_status_document(lane: Lane, document: &StatusDocument) -> ();
}
