//! Simulated kube-scheduler: filters nodes by required constraints, scores them by free capacity and preferences, and
//! reports why no node fits. It does not preempt.

mod message;
mod node_info;
mod pod_info;
mod topology;
mod volumes;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
pub(crate) use node_info::NodeInfo;
pub(crate) use pod_info::PodInfo;
use serde_json::{Value, json};

use self::{
    message::Diagnosis,
    node_info::NodeState,
    topology::{Namespaces, TopologyFilter},
    volumes::Volumes,
};
use super::{
    CLAIMS, CSI_NODES, Client, Controller, NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUMES,
    client::Severity,
    owned::{is_finished, node_name},
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, set_condition},
    store::{Object, TableId},
};

#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Parsed pods by UID, with the revision that was parsed.
    known: BTreeMap<String, (u64, Arc<PodInfo>)>,
}

const COMPONENT: &str = "default-scheduler";
/// Score of a preferred node term or a soft taint, next to free capacity, whose score is at most 2000.
const PREFERENCE_POINTS: i64 = 20;

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        const {
            &[
                PODS,
                NODES,
                NAMESPACES,
                CLAIMS,
                VOLUMES,
                STORAGE_CLASSES,
                CSI_NODES,
            ]
        }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let pods = client.all(&PODS);
        if pods.iter().all(|pod| !node_name(pod).is_empty()) {
            return Ok(None);
        }
        let mut pending: Vec<(Arc<PodInfo>, Arc<Object>)> = Vec::new();
        let mut placed: Vec<Arc<PodInfo>> = Vec::new();
        let mut known = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !is_finished(pod)) {
            let info = match self.known.remove(pod.uid()) {
                Some((revision, info)) if revision == pod.revision() => info,
                Some(_) | None => Arc::new(PodInfo::of(pod)),
            };
            known.insert(pod.uid().to_owned(), (pod.revision(), info.clone()));
            if !info.node_name.is_empty() {
                placed.push(info);
            } else if info.scheduler == COMPONENT && !info.is_terminating {
                pending.push((info, pod.clone()));
            }
        }
        self.known = known;
        if pending.is_empty() {
            return Ok(None);
        }
        pending.sort_by_key(|(pod, _)| {
            let born = (pod.created_second, pod.namespace.clone(), pod.name.clone());
            (Reverse(pod.priority), born)
        });
        let mut cycle = SchedulingCycle::new(client, placed);
        for (info, pod) in &pending {
            cycle.schedule(client, info, pod)?;
        }
        Ok(None)
    }
}

/// State of the cluster during one run, updated as pods are placed.
struct SchedulingCycle {
    nodes: Vec<NodeState>,
    namespaces: Namespaces,
    volumes: Volumes,
    /// Shapes of pods that fit no node, with the message. Nodes only fill up during a run, so other pods of the shape
    /// fail alike.
    unschedulable: BTreeMap<u64, String>,
}

impl SchedulingCycle {
    fn new(client: &Client<'_>, placed: Vec<Arc<PodInfo>>) -> Self {
        let volumes = Volumes::of(client);
        let mut nodes: BTreeMap<String, NodeState> = client
            .all(&NODES)
            .iter()
            .filter(|node| !node.is_terminating())
            .map(|node| (node.name().to_owned(), NodeState::new(NodeInfo::of(node))))
            .collect();
        volumes.set_limits(&mut nodes);
        for pod in placed {
            if let Some(node) = nodes.get_mut(&pod.node_name) {
                volumes.occupy(node, &pod);
                node.add(pod);
            }
        }
        Self {
            nodes: nodes.into_values().collect(),
            namespaces: client
                .all(&NAMESPACES)
                .iter()
                .map(|namespace| (namespace.name().to_owned(), namespace.labels().clone()))
                .collect(),
            volumes,
            unschedulable: BTreeMap::new(),
        }
    }

    fn schedule(
        &mut self,
        client: &mut Client<'_>,
        info: &Arc<PodInfo>,
        pod: &Object,
    ) -> ApiResult<()> {
        if info.gates > 0 {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            return refuse(client, pod, "SchedulingGated", message);
        }
        if let Some(message) = self.unschedulable.get(&info.shape) {
            return refuse(client, pod, "Unschedulable", message);
        }
        match self.choose(info) {
            Ok(index) => self.place(client, info, pod, index),
            Err(message) => {
                refuse(client, pod, "Unschedulable", &message)?;
                if !info.depends_on_other_pods() {
                    self.unschedulable.insert(info.shape, message);
                }
                Ok(())
            }
        }
    }

    /// Returns the node to bind to, or the reason why there is none.
    fn choose(&self, pod: &PodInfo) -> Result<usize, String> {
        let demand = self.volumes.demand(pod)?;
        let placement = TopologyFilter::of(pod, &self.nodes, &self.namespaces);
        let mut refusals = Diagnosis::default();
        let mut best: Option<(i64, usize)> = None;
        for (index, node) in self.nodes.iter().enumerate() {
            let reasons = reasons(pod, node, &placement, &demand);
            if !reasons.is_empty() {
                refusals.add(reasons);
                continue;
            }
            let score = score(pod, node);
            // Ties go to the first node by name.
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, index));
            }
        }
        best.map(|(_, index)| index)
            .ok_or_else(|| refusals.message())
    }

    fn place(
        &mut self,
        client: &mut Client<'_>,
        info: &Arc<PodInfo>,
        pod: &Object,
        index: usize,
    ) -> ApiResult<()> {
        let Some(node) = self.nodes.get_mut(index) else {
            return Ok(());
        };
        self.volumes.bind(client, info, &node.info)?;
        let binding = json!({"target": {"kind": "Node", "name": node.info.name}});
        let pods = client.server.kind_of(&PODS)?;
        client
            .server
            .bind(&pods, &pod.key(), &binding, client.now)?;
        self.volumes.occupy(node, info);
        node.add(info.clone());
        let message = format!(
            "Successfully assigned {}/{} to {}",
            pod.namespace(),
            pod.name(),
            node.info.name
        );
        client.record(pod, COMPONENT, Severity::Normal, "Scheduled", &message)
    }
}

/// Reasons that keep a pod off a node, as kube-scheduler words them; only those of the first filter that fails.
fn reasons(
    pod: &PodInfo,
    node: &NodeState,
    placement: &TopologyFilter<'_>,
    demand: &volumes::VolumeRequirements,
) -> Vec<String> {
    if let Some(taint) = pod.untolerated_taint(&node.info) {
        if node.info.is_cordoned && taint.key == "node.kubernetes.io/unschedulable" {
            return vec!["node(s) were unschedulable".to_owned()];
        }
        return vec![format!(
            "node(s) had untolerated taint {{{}: {}}}",
            taint.key, taint.value
        )];
    }
    if !pod.matches_node(&node.info) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    let taken = || node.pods.iter().flat_map(|other| &other.ports);
    if pod
        .ports
        .iter()
        .any(|port| taken().any(|other| port.clashes(other)))
    {
        return vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
    }
    let missing = node.missing(pod);
    if !missing.is_empty() {
        return missing
            .into_iter()
            .map(|name| match name {
                "pods" => "Too many pods".to_owned(),
                name => format!("Insufficient {name}"),
            })
            .collect();
    }
    demand
        .refusal(node)
        .or_else(|| placement.refusal(&node.info))
        .map(str::to_owned)
        .into_iter()
        .collect()
}

fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    let preferred: i64 = pod
        .preferred_nodes
        .iter()
        .filter(|(_, term)| term.matches(&node.info))
        .map(|(weight, _)| weight * PREFERENCE_POINTS)
        .sum();
    let avoided = node
        .info
        .taints
        .iter()
        .filter(|taint| taint.effect == model::taint::TaintEffect::PreferNoSchedule)
        .filter(|taint| !pod.tolerates(taint))
        .count();
    node.spare_permille(pod) + preferred
        - i64::try_from(avoided).unwrap_or(0) * 100 * PREFERENCE_POINTS
}

/// Sets the pod's PodScheduled condition and emits an event, once per change of the reason.
fn refuse(client: &mut Client<'_>, pod: &Object, reason: &str, message: &str) -> ApiResult<()> {
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
    });
    let is_known = json::items(pod.value(), &["status", "conditions"])
        .iter()
        .any(|own| {
            ["type", "status", "reason", "message"]
                .iter()
                .all(|field| own.get(field) == condition.get(field))
        });
    if is_known {
        return Ok(());
    }
    let now = client.now;
    client.change(&PODS, &pod.key(), Part::Status, |pod: &mut Value| {
        set_condition(pod, condition, now);
    })?;
    if reason == "SchedulingGated" {
        return Ok(());
    }
    client.record(
        pod,
        COMPONENT,
        Severity::Warning,
        "FailedScheduling",
        message,
    )
}
