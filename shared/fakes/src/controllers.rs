//! Fakes of the components that act while time passes: EC2 changes instance states, kubelets register nodes, Deployments create
//! their pods, the scheduler binds pods or marks them unschedulable, and deleted objects are removed.

use std::{cmp::Reverse, collections::BTreeMap};

use api::names::annotation::POD_DELETION_COST;
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceType, NodeName, PodKey, Resources, Uid, labels,
    launch::{Instance, InstanceState},
    node::{ConditionStatus, Node, Ready},
    pod::{Pod, PodPhase},
    taint::{Taint, TaintEffect},
};

use crate::sim::World;

/// Time from launch to the kubelet's registration.
pub(crate) const JOINS_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// Time from a reboot until the kubelet reports again.
pub(crate) const BOOTS_FOR: SignedDuration = SignedDuration::from_secs(60);
/// Time from launch until the node is Ready.
pub(crate) const READY_AFTER: SignedDuration = SignedDuration::from_secs(40);

/// Each component returns whether it changed anything.
impl World {
    /// Sets `disruptionsAllowed` of each PodDisruptionBudget with a number in `minAvailable`; others are left as they are.
    pub(crate) fn run_disruption_controller(&mut self) -> bool {
        let mut changed = false;
        for budget in &mut self.api.disruption_budgets {
            let least = budget.min_available.as_ref();
            let Some(least) = least.and_then(|text| text.parse::<i64>().ok()) else {
                continue;
            };
            let healthy = self.api.pods.values().filter(|pod| {
                let selector = budget.selector.as_ref();
                pod.key.namespace == budget.key.namespace
                    && pod.ready
                    && pod.deletion.is_none()
                    && selector.is_some_and(|selector| selector.matches(&pod.labels))
            });
            let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
            let allowed = (healthy - least).max(0);
            changed |= budget.disruptions_allowed != allowed;
            budget.disruptions_allowed = allowed;
        }
        changed
    }

    pub(crate) fn run_kubelets(&mut self) -> bool {
        let mut changed = false;
        let cluster = self.has_others().then(|| self.cluster.clone());
        let Self {
            account,
            api,
            catalog,
            now,
            ..
        } = self;
        let now = *now;
        // User data names an API server, whose certificate authority identifies the cluster.
        let uid = api.uid.clone();
        let joins = |instance: &&Instance| {
            let tag = instance.tags.get(api::names::tag::EKS_CLUSTER);
            let of = instance.tags.get(api::names::tag::CLUSTER_UID);
            (cluster.is_none() || tag == cluster.as_ref().map(|name| &name.0))
                && of.is_none_or(|of| *of == uid.0)
        };
        for instance in account.instances.values().filter(joins) {
            let Some(name) = instance.private_dns.as_deref().map(NodeName::from) else {
                continue;
            };
            let age = instance
                .launched_at
                .map_or(SignedDuration::ZERO, |at| now.duration_since(at));
            let alive = instance.state == InstanceState::Running;
            if alive
                && age >= JOINS_AFTER
                && !api.closed
                && !api.nodes.contains_key(&name)
                && (api.joined.insert(instance.id.clone()) || !api.joins_once)
            {
                let node = Node {
                    resource_version: api.next_version(),
                    created_at: Some(now),
                    ready: Ready {
                        status: ConditionStatus::False,
                        since: Some(now),
                    },
                    ..joining_node(catalog, &name, instance)
                };
                api.nodes.insert(name.clone(), node);
                changed = true;
            }
            let reboots = account.reboots.get(&instance.id).map(Vec::as_slice);
            let reboots = reboots.unwrap_or_default();
            let is_down = |at: &Timestamp| now.duration_since(*at) < BOOTS_FOR;
            let is_booting = reboots.last().is_some_and(is_down);
            let reports = alive && !is_booting && !api.silent.contains(&name);
            if reports && !reboots.is_empty() {
                changed |= api.report_boot(&name, reboots.len());
            }
            let status = match (reports, age >= READY_AFTER) {
                (true, true) => ConditionStatus::True,
                (true, false) => ConditionStatus::False,
                (false, _) => ConditionStatus::Unknown,
            };
            if instance.state == InstanceState::Terminated {
                changed |= api.delete_node(&name, now);
            }
            changed |= api.report_ready(&name, status, now);
        }
        changed
    }

    pub(crate) fn run_deployments(&mut self) -> bool {
        let mut changed = false;
        let deployments = std::mem::take(&mut self.api.deployments);
        for (name, deployment) in &deployments {
            let own = |pod: &&Pod| {
                let owner = pod.owner.as_ref();
                pod.deletion.is_none() && owner.is_some_and(|owner| owner.name == *name)
            };
            let count = self.api.pods.values().filter(own).count();
            for (key, uid) in self.surplus(own, count.saturating_sub(deployment.replicas)) {
                let gone = self.api.delete_pod(&key, &uid, None, self.now);
                debug_assert!(gone.is_ok(), "{gone:?}");
                changed = true;
            }
            for _ in count..deployment.replicas {
                let version = self.api.next_version();
                self.api
                    .new_pod(&format!("{name}-{version}"), name, deployment, self.now);
                changed = true;
            }
        }
        self.api.deployments = deployments;
        changed
    }

    /// Selects the pods to delete when scaling down: pending pods first, then those of the lowest deletion cost, like the
    /// ReplicaSet controller.
    fn surplus(&self, own: impl Fn(&&Pod) -> bool, count: usize) -> Vec<(PodKey, Uid)> {
        if count == 0 {
            return Vec::new();
        }
        let mut own: Vec<&Pod> = self.api.pods.values().filter(own).collect();
        let cost = |pod: &Pod| {
            let cost = pod.annotations.get(POD_DELETION_COST)?;
            cost.parse::<i32>().ok()
        };
        own.sort_by_key(|pod| {
            let cost = Reverse(cost(pod).unwrap_or(0));
            (pod.node_name.is_none(), cost, &pod.key)
        });
        let last = own.into_iter().rev().take(count);
        last.map(|pod| (pod.key.clone(), pod.uid.clone())).collect()
    }

    pub(crate) fn remove_deleted_pods(&mut self) -> bool {
        let now = self.now;
        let before = self.api.pods.len();
        let (nodes, stuck) = (&self.api.nodes, &self.api.stuck);
        self.api.pods.retain(|key, pod| {
            let unbound = pod
                .node_name
                .as_ref()
                .is_none_or(|node| !nodes.contains_key(node));
            // The pod garbage collector deletes pods whose node is gone.
            let orphaned = pod.node_name.is_some() && unbound;
            let over = pod
                .deletion
                .as_ref()
                .is_some_and(|deletion| unbound || deletion.at <= now && !stuck.contains(key));
            !orphaned && !over
        });
        self.api.pods.len() != before
    }

    pub(crate) fn schedule(&mut self) -> bool {
        let is_pending = |pod: &&Pod| pod.node_name.is_none() && pod.deletion.is_none();
        if !self.api.pods.values().any(|pod| is_pending(&pod)) {
            return false;
        }
        let mut room: BTreeMap<&str, Resources> = self
            .api
            .nodes
            .values()
            .map(|node| (node.name.as_str(), node.allocatable.clone()))
            .collect();
        for pod in self.api.pods.values() {
            let node = pod.node_name.as_ref();
            if let Some(left) = node.and_then(|node| room.get_mut(node.as_str())) {
                left.subtract(&pod.requests);
            }
        }
        let mut decisions: Vec<(PodKey, Option<NodeName>)> = Vec::new();
        for pod in self.api.pods.values().filter(is_pending) {
            let fits = |node: &&Node| {
                room.get(node.name.as_str())
                    .is_some_and(|left| fits_node(node, left, pod))
            };
            let node = self.api.nodes.values().find(fits);
            let node = node.map(|node| &node.name);
            if let Some(left) = node.and_then(|node| room.get_mut(node.as_str())) {
                left.subtract(&pod.requests);
            }
            if node.is_some() || !pod.unschedulable {
                decisions.push((pod.key.clone(), node.cloned()));
            }
        }
        let changed = !decisions.is_empty();
        for (key, node) in decisions {
            let version = self.api.next_version();
            let now = self.now;
            if let Some(pod) = self.api.pods.get_mut(&key) {
                pod.resource_version = version;
                pod.unschedulable = node.is_none();
                if let Some(node) = node {
                    bind(pod, node, now);
                }
            }
        }
        changed
    }
}

/// A Node as its kubelet registers it.
fn joining_node(catalog: &[InstanceType], name: &NodeName, instance: &Instance) -> Node {
    let (capacity, allocatable) = catalog
        .iter()
        .find(|instance_type| instance_type.name == instance.instance_type)
        .map_or_else(Default::default, |instance_type| {
            (instance_type.capacity.clone(), instance_type.allocatable())
        });
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Node {
        name: name.clone(),
        uid: Uid(format!("{name}-uid")),
        provider_id: format!("aws:///{}/{}", instance.zone, instance.id),
        labels: BTreeMap::from([
            label(labels::HOSTNAME, name.as_str()),
            label(labels::INSTANCE_TYPE, &instance.instance_type),
            label(labels::ZONE, &instance.zone),
            label(labels::ARCH, "amd64"),
            label(labels::OS, "linux"),
        ]),
        taints: vec![Taint {
            key: api::names::taint::UNREGISTERED.to_owned(),
            value: String::new(),
            effect: TaintEffect::NoExecute,
        }],
        capacity,
        allocatable,
        boot_id: "boot-0".to_owned(),
        ..Node::default()
    }
}

fn fits_node(node: &Node, left: &Resources, pod: &Pod) -> bool {
    let tolerated = |taint: &Taint| {
        taint.effect == TaintEffect::PreferNoSchedule
            || pod
                .tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
    };
    node.ready.status == ConditionStatus::True
        && !node.unschedulable
        && node.taints.iter().all(tolerated)
        && pod
            .node_selector
            .iter()
            .all(|(key, value)| node.labels.get(key) == Some(value))
        && pod.requests.fits(left)
}

fn bind(pod: &mut Pod, node: NodeName, now: Timestamp) {
    pod.node_name = Some(node);
    pod.phase = PodPhase::Running;
    pod.ready = true;
    pod.started_at = Some(now);
}
