//! What happens by itself while time passes: EC2 moves instances along, kubelets join them as nodes, Deployments keep
//! their pods, the scheduler binds or gives up, and what is deleted goes away.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{
    NodeName, Resources, Uid, labels,
    launch::{Instance, InstanceState},
    node::{ConditionStatus, Node, Ready},
    pod::{Pod, PodPhase},
    taint::{Taint, TaintEffect},
};

use crate::sim::World;

/// From launch to the kubelet's first registration.
const JOINS_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// From there to Ready.
const READY_AFTER: SignedDuration = SignedDuration::from_secs(40);

impl World {
    pub(crate) fn step(&mut self) {
        self.account.step(self.now);
        self.run_kubelets();
        self.run_deployments();
        self.remove_deleted_pods();
        self.schedule();
        self.run_disruption_controller();
    }

    /// Says how many pods each PodDisruptionBudget with a number in `minAvailable` can spare; others are left as they are.
    fn run_disruption_controller(&mut self) {
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
            budget.disruptions_allowed = (healthy - least).max(0);
        }
    }

    fn run_kubelets(&mut self) {
        let instances: Vec<Instance> = self.account.instances.values().cloned().collect();
        for instance in instances {
            let Some(name) = instance.private_dns.clone().map(NodeName) else {
                continue;
            };
            let age = instance
                .launched_at
                .map_or(SignedDuration::ZERO, |at| self.now.duration_since(at));
            let alive = instance.state == InstanceState::Running;
            if alive
                && age >= JOINS_AFTER
                && !self.api.closed
                && !self.api.nodes.contains_key(&name)
                && (self.api.joined.insert(instance.id.clone()) || !self.api.joins_once)
            {
                let node = self.joining_node(&name, &instance);
                self.api.nodes.insert(name.clone(), node);
            }
            let speaks = alive && !self.api.silent.contains(&name);
            let status = match (speaks, age >= READY_AFTER) {
                (true, true) => ConditionStatus::True,
                (true, false) => ConditionStatus::False,
                (false, _) => ConditionStatus::Unknown,
            };
            if instance.state == InstanceState::Terminated {
                self.api.delete_node(&name, self.now);
            }
            let version = self.api.next_version();
            if let Some(node) = self.api.nodes.get_mut(&name)
                && node.ready.status != status
            {
                node.ready = Ready {
                    status,
                    since: Some(self.now),
                };
                node.resource_version = version;
            }
        }
    }

    fn joining_node(&mut self, name: &NodeName, instance: &Instance) -> Node {
        let (capacity, allocatable) = self
            .catalog
            .iter()
            .find(|kind| kind.name == instance.instance_type)
            .map_or_else(Default::default, |kind| {
                (kind.capacity.clone(), kind.allocatable())
            });
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        Node {
            name: name.clone(),
            uid: Uid(format!("{name}-uid")),
            resource_version: self.api.next_version(),
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
            ready: Ready {
                status: ConditionStatus::False,
                since: Some(self.now),
            },
            created_at: Some(self.now),
            ..Node::default()
        }
    }

    fn run_deployments(&mut self) {
        let deployments = self.api.deployments.clone();
        for (name, deployment) in deployments {
            let mut own: Vec<Pod> = self
                .api
                .pods
                .values()
                .filter(|pod| {
                    pod.deletion.is_none()
                        && pod.owner.as_ref().is_some_and(|owner| owner.name == name)
                })
                .cloned()
                .collect();
            // Pending pods go first, as the ReplicaSet controller prefers.
            own.sort_by_key(|pod| (pod.node_name.is_none(), pod.key.clone()));
            while own.len() > deployment.replicas {
                if let Some(pod) = own.pop() {
                    let gone = self.api.delete_pod(&pod.key, &pod.uid, None, self.now);
                    debug_assert!(gone.is_ok(), "{gone:?}");
                }
            }
            for _ in own.len()..deployment.replicas {
                let version = self.api.next_version();
                self.api
                    .new_pod(&format!("{name}-{version}"), &name, &deployment, self.now);
            }
        }
    }

    fn remove_deleted_pods(&mut self) {
        let now = self.now;
        let (nodes, stuck) = (&self.api.nodes, &self.api.stuck);
        self.api.pods.retain(|key, pod| {
            let unbound = pod
                .node_name
                .as_ref()
                .is_none_or(|node| !nodes.contains_key(node));
            // The garbage collector of pods takes those whose node is gone.
            let orphaned = pod.node_name.is_some() && unbound;
            let over = pod
                .deletion
                .as_ref()
                .is_some_and(|deletion| unbound || deletion.at <= now && !stuck.contains(key));
            !orphaned && !over
        });
    }

    fn schedule(&mut self) {
        let pending: Vec<Pod> = self
            .api
            .pods
            .values()
            .filter(|pod| pod.node_name.is_none() && pod.deletion.is_none())
            .cloned()
            .collect();
        if pending.is_empty() {
            return;
        }
        let mut room: BTreeMap<NodeName, Resources> = self
            .api
            .nodes
            .values()
            .map(|node| (node.name.clone(), node.allocatable.clone()))
            .collect();
        for pod in self.api.pods.values() {
            if let Some(left) = pod.node_name.as_ref().and_then(|node| room.get_mut(node)) {
                left.subtract(&pod.requests);
            }
        }
        for pod in pending {
            let fits = |node: &&Node| {
                room.get(&node.name)
                    .is_some_and(|left| takes(node, left, &pod))
            };
            let node = self.api.nodes.values().find(fits);
            let node = node.map(|node| node.name.clone());
            if let Some(left) = node.as_ref().and_then(|node| room.get_mut(node)) {
                left.subtract(&pod.requests);
            }
            if node.is_none() && pod.unschedulable {
                continue;
            }
            let version = self.api.next_version();
            let now = self.now;
            if let Some(pod) = self.api.pods.get_mut(&pod.key) {
                pod.resource_version = version;
                pod.unschedulable = node.is_none();
                if let Some(node) = node {
                    bind(pod, node, now);
                }
            }
        }
    }
}

fn takes(node: &Node, left: &Resources, pod: &Pod) -> bool {
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
