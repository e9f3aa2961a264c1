mod pods;

use std::collections::{BTreeMap, BTreeSet};

use api::kubernetes::PodTemplate;
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceId, NodeClaimName, NodeName, PodKey, Uid,
    devices::DeviceObjects,
    node::{ConditionStatus, Node, NodeCondition, Ready},
    node_claim::{NodeClaim, NodeClaimStatus},
    plan::{Launch, NodeClaimUpdate, NodeUpdate, Target},
    pod::Pod,
    snapshot::{DaemonSet, PodDisruptionBudget},
    volume::Storage,
};
use ports::{
    ClusterError,
    cluster::{Event, LeaderLease, PodSelectors, Unreadable},
};

pub use self::pods::Deployment;
use crate::{
    published_status::PublishedStatus,
    refusal::{Admission, Protected},
};

/// One cluster's API server: the objects that Whittle reads, with resource versions, preconditions, finalizers and graceful
/// deletion.
#[derive(Default)]
pub struct ApiServer {
    /// UID of namespace `kube-system`.
    pub uid: Uid,
    pub node_pools: BTreeMap<String, api::NodePool>,
    pub unreadable_node_pools: Vec<Unreadable>,
    pub unreadable_node_classes: Vec<Unreadable>,
    pub node_classes: BTreeMap<String, api::EC2NodeClass>,
    pub node_overlays: BTreeMap<String, api::NodeOverlay>,
    pub capacity_buffers: BTreeMap<PodKey, api::CapacityBuffer>,
    pub pod_templates: BTreeMap<PodKey, PodTemplate>,
    /// Kinds whose CRD is not installed.
    pub missing: BTreeSet<&'static str>,
    pub node_claims: BTreeMap<NodeClaimName, NodeClaim>,
    pub nodes: BTreeMap<NodeName, Node>,
    /// Nodes missing from lists, like nodes that cannot be decoded; reads by name return them.
    pub unlisted_nodes: BTreeSet<NodeName>,
    pub pods: BTreeMap<PodKey, Pod>,
    pub daemon_sets: Vec<DaemonSet>,
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    pub storage: Storage,
    pub devices: DeviceObjects,
    /// Services and pod owners.
    pub pod_selectors: PodSelectors,
    pub deployments: BTreeMap<String, Deployment>,
    pub events: Vec<Event>,
    /// Objects that an admission policy lets only users change.
    pub protected: BTreeMap<Protected, Admission>,
    pub leader: Option<LeaderLease>,
    /// The status document that functions publish for the relay; `None` without its ConfigMap.
    pub status: Option<PublishedStatus>,
    /// Nodes whose kubelet has stopped reporting.
    pub silent: BTreeSet<NodeName>,
    /// Instances that start while this is set do not join.
    pub closed: bool,
    /// Instances whose kubelet has registered its Node.
    pub joined: BTreeSet<InstanceId>,
    /// A kubelet registers its Node only when it starts; otherwise it registers again whenever the Node is missing.
    pub joins_once: bool,
    /// Pods whose kubelet never reports that they have ended.
    pub stuck: BTreeSet<PodKey>,
    /// Lead of the API server's clock over all other clocks.
    pub clock_ahead: SignedDuration,
    /// Names of all NodeClaims ever created, to find names that were used twice.
    pub created: Vec<NodeClaimName>,
    version: u64,
}

impl ApiServer {
    /// An API server without objects, for the cluster with this UID.
    pub fn of(uid: Uid) -> Self {
        Self {
            uid,
            ..Self::default()
        }
    }

    pub(crate) fn served(&self, kind: &'static str) -> Result<(), ClusterError> {
        if self.missing.contains(kind) {
            let kind = kind.to_owned();
            return Err(ClusterError::KindMissing { kind });
        }
        Ok(())
    }

    pub(crate) fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn create_claim(&mut self, launch: &Launch, now: Timestamp) -> NodeClaim {
        if let Some(claim) = self.node_claims.get(&launch.name) {
            return claim.clone();
        }
        let version = self.next_version();
        let claim = NodeClaim {
            name: launch.name.clone(),
            uid: Uid(format!("{}-uid-{version}", launch.name)),
            resource_version: version,
            generation: 1,
            labels: launch.labels.clone(),
            annotations: launch.annotations.clone(),
            finalizers: vec![api::names::finalizer::TERMINATION.to_owned()],
            created_at: Some(now + self.clock_ahead),
            deleted_at: None,
            spec: launch.spec.clone(),
            status: NodeClaimStatus::default(),
        };
        self.created.push(launch.name.clone());
        self.node_claims.insert(launch.name.clone(), claim.clone());
        claim
    }

    pub(crate) fn update_claim(
        &mut self,
        update: &NodeClaimUpdate,
    ) -> Result<NodeClaim, ClusterError> {
        let version = self.next_version();
        let claim = self
            .node_claims
            .get_mut(&update.name)
            .ok_or_else(|| absent("NodeClaim", &update.name.0))?;
        if claim.uid != update.uid || is_stale(&claim.resource_version, &update.resource_version) {
            return Err(conflict("NodeClaim", &update.name.0));
        }
        claim.resource_version = version;
        claim.labels.extend(update.set_labels.clone());
        claim.annotations.extend(update.set_annotations.clone());
        claim
            .annotations
            .retain(|key, _| !update.remove_annotations.contains(key));
        change_finalizers(
            &mut claim.finalizers,
            &update.add_finalizers,
            &update.remove_finalizers,
        );
        let status = &mut claim.status;
        let replaced = |kind: &String| {
            update.clear_conditions.contains(kind)
                || update.conditions.iter().any(|new| new.kind == *kind)
        };
        status
            .conditions
            .retain(|condition| !replaced(&condition.kind));
        status.conditions.extend(update.conditions.clone());
        status.conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
        status.node_name = update.node_name.clone().or(status.node_name.take());
        status.last_pod_event = update.last_pod_event.or(status.last_pod_event);
        if let Some(id) = &update.provider_id {
            status.provider_id.clone_from(id);
        }
        if let Some(image) = &update.image_id {
            status.image_id.clone_from(image);
        }
        if let Some(capacity) = &update.capacity {
            status.capacity = capacity.clone();
        }
        if let Some(allocatable) = &update.allocatable {
            status.allocatable = allocatable.clone();
        }
        let claim = claim.clone();
        if claim.deleted_at.is_some() && claim.finalizers.is_empty() {
            self.node_claims.remove(&update.name);
        }
        Ok(claim)
    }

    pub(crate) fn delete_claim(
        &mut self,
        target: &Target,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let version = self.next_version();
        let now = now + self.clock_ahead;
        let claim = self
            .node_claims
            .get_mut(&target.name)
            .ok_or_else(|| absent("NodeClaim", &target.name.0))?;
        if claim.uid != target.uid || is_stale(&claim.resource_version, &target.resource_version) {
            return Err(conflict("NodeClaim", &target.name.0));
        }
        if claim.deleted_at.is_none() {
            claim.deleted_at = Some(now);
            claim.generation += 1;
            claim.resource_version = version;
        }
        if claim.finalizers.is_empty() {
            self.node_claims.remove(&target.name);
        }
        Ok(())
    }

    pub(crate) fn update_node(
        &mut self,
        update: &NodeUpdate,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let version = self.next_version();
        let node = self
            .nodes
            .get_mut(&update.name)
            .ok_or_else(|| absent("Node", &update.name.0))?;
        if node.uid != update.uid || is_stale(&node.resource_version, &update.resource_version) {
            return Err(conflict("Node", &update.name.0));
        }
        node.resource_version = version;
        node.labels.extend(update.set_labels.clone());
        node.annotations.extend(update.set_annotations.clone());
        node.labels
            .retain(|key, _| !update.remove_labels.contains(key));
        node.annotations
            .retain(|key, _| !update.remove_annotations.contains(key));
        change_finalizers(
            &mut node.finalizers,
            &update.add_finalizers,
            &update.remove_finalizers,
        );
        if let Some(taints) = &update.taints {
            node.taints.clone_from(taints);
        }
        if update.cordon && !node.unschedulable {
            node.unschedulable = true;
            // Taint that the node lifecycle controller adds to an unschedulable node.
            node.taints.push(model::taint::Taint {
                key: "node.kubernetes.io/unschedulable".into(),
                value: String::new(),
                effect: model::taint::TaintEffect::NoSchedule,
            });
        }
        if update.uncordon {
            node.unschedulable = false;
            node.taints
                .retain(|taint| taint.key != "node.kubernetes.io/unschedulable");
        }
        if update.delete {
            node.deleted_at.get_or_insert(now);
        }
        if node.deleted_at.is_some() && node.finalizers.is_empty() {
            self.nodes.remove(&update.name);
        }
        Ok(())
    }

    /// Advances the version as this many checks of unchanged kubelets would.
    pub(crate) fn count_kubelet_checks(&mut self, checks: u64) {
        self.version += checks;
    }

    /// Registers a node's boot after a reboot: under another boot ID, and without the conditions reported before. Advances the
    /// version in any case; returns whether the node changed.
    pub(crate) fn report_boot(&mut self, name: &NodeName, count: usize) -> bool {
        let boot_id = format!("boot-{count}");
        self.version += 1;
        match self.nodes.get_mut(name) {
            Some(node) if node.boot_id != boot_id => {
                node.boot_id = boot_id;
                node.conditions.clear();
                node.resource_version = self.version.to_string();
                true
            }
            Some(_) | None => false,
        }
    }

    /// Sets a node condition, as a node problem detector does.
    pub fn report_condition(&mut self, name: &NodeName, condition: NodeCondition) {
        let version = self.next_version();
        if let Some(node) = self.nodes.get_mut(name) {
            node.conditions.retain(|known| known.kind != condition.kind);
            node.conditions.push(condition);
            node.resource_version = version;
        }
    }

    /// Removes all reported conditions of a node.
    pub fn forget_conditions(&mut self, name: &NodeName) {
        let version = self.next_version();
        if let Some(node) = self.nodes.get_mut(name) {
            node.conditions.clear();
            node.resource_version = version;
        }
    }

    pub(crate) fn report_ready(
        &mut self,
        name: &NodeName,
        status: ConditionStatus,
        now: Timestamp,
    ) -> bool {
        self.version += 1;
        if let Some(node) = self.nodes.get_mut(name)
            && node.ready.status != status
        {
            node.ready = Ready {
                status,
                since: Some(now),
            };
            node.resource_version = self.version.to_string();
            return true;
        }
        false
    }

    /// Deletes a Node, as the cloud's node lifecycle controller does once the instance is gone. Returns whether anything changed.
    pub(crate) fn delete_node(&mut self, name: &NodeName, now: Timestamp) -> bool {
        let Some(node) = self.nodes.get_mut(name) else {
            return false;
        };
        let is_new = node.deleted_at.is_none();
        node.deleted_at.get_or_insert(now);
        let removed = node.finalizers.is_empty();
        if removed {
            self.nodes.remove(name);
        }
        is_new || removed
    }

    /// Deletes a NodeClaim as `kubectl delete` does.
    pub fn request_deletion(&mut self, claim: &NodeClaimName, now: Timestamp) {
        let version = self.next_version();
        let Some(claim) = self.node_claims.get_mut(claim) else {
            return;
        };
        claim.deleted_at.get_or_insert(now);
        claim.resource_version = version;
    }

    /// Deletes a Node as `kubectl delete` does.
    pub fn request_node_deletion(&mut self, node: &NodeName, now: Timestamp) {
        let version = self.next_version();
        let Some(node) = self.nodes.get_mut(node) else {
            return;
        };
        node.deleted_at.get_or_insert(now);
        node.resource_version = version;
    }
}

/// Returns whether a precondition names another version; an empty one is no precondition.
fn is_stale(current: &str, wanted: &str) -> bool {
    !wanted.is_empty() && current != wanted
}

fn change_finalizers(finalizers: &mut Vec<String>, add: &[String], remove: &[String]) {
    for name in add {
        if !finalizers.contains(name) {
            finalizers.push(name.clone());
        }
    }
    finalizers.retain(|name| !remove.contains(name));
}

pub(crate) fn absent(kind: &str, name: &str) -> ClusterError {
    ClusterError::NotFound {
        what: format!("{kind} {name}"),
    }
}

pub(crate) fn conflict(kind: &str, name: &str) -> ClusterError {
    ClusterError::Conflict {
        what: format!("{kind} {name}"),
    }
}
