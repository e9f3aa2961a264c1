use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Client, Controller, KubeletOptions, LEASES, NODES, PODS,
    client::Severity,
    kubelet::{LEASE_NAMESPACE, after},
    owned::{is_finished, node_name},
    scheduler::PodInfo,
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, is_ready, parse_time, rfc3339, set_condition},
    store::{Object, ObjectKey, TableId},
};

/// Node lifecycle controller: marks nodes without heartbeats as unknown, sets taints, evicts pods from tainted nodes,
/// deletes nodes whose machine is gone, and removes the pods of nodes that do not exist.
#[derive(Debug)]
pub(super) struct NodeLifecycle {
    node_lost: SignedDuration,
    pod_orphaned: SignedDuration,
    /// Time since which nodes that pods are bound to have been missing.
    missing: BTreeMap<String, Timestamp>,
}

const COMPONENT: &str = "node-controller";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl NodeLifecycle {
    pub(super) fn new(options: &KubeletOptions) -> Self {
        Self {
            node_lost: options.node_lost,
            pod_orphaned: options.pod_orphaned,
            missing: BTreeMap::new(),
        }
    }
}

impl Controller for NodeLifecycle {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        // Leases are no input: they are read when they are due to expire.
        const { &[NODES, PODS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let mut due = Vec::new();
        for node in client.all(&NODES) {
            due.extend(self.watch_heartbeat(client, &node)?);
        }
        for node in client.all(&NODES) {
            taint(client, &node)?;
            let is_lost = !is_ready(node.value()) && client.machines.is_gone(node.name());
            if is_lost && !node.is_terminating() {
                let message = format!(
                    "Deleting node {} because it does not exist in the cloud provider",
                    node.name()
                );
                client.record(&node, COMPONENT, Severity::Normal, "DeletingNode", &message)?;
                client.delete(&NODES, &node.key())?;
            }
        }
        due.extend(evict(client)?);
        due.extend(self.collect_pods(client)?);
        forget_machines(client);
        Ok(due.into_iter().min())
    }
}

impl NodeLifecycle {
    /// Sets the conditions of a node whose lease expired to `Unknown`.
    fn watch_heartbeat(
        &self,
        client: &mut Client<'_>,
        node: &Object,
    ) -> ApiResult<Option<Timestamp>> {
        let Some(lease) = client.get(&LEASES, &ObjectKey::new(LEASE_NAMESPACE, node.name())) else {
            return Ok(None);
        };
        let renewed = parse_time(json::text(lease.value(), &["spec", "renewTime"]));
        let end = after(renewed.unwrap_or(client.now), self.node_lost);
        if client.now < end {
            return Ok(Some(end));
        }
        let is_known = json::items(node.value(), &["status", "conditions"])
            .iter()
            .any(|condition| {
                json::text(condition, &["type"]) == "Ready"
                    && json::text(condition, &["status"]) != "Unknown"
            });
        if is_known {
            let now = client.now;
            client.change(&NODES, &node.key(), Part::Status, |node| {
                let condition = json!({
                    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                });
                set_condition(node, condition, now);
            })?;
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            client.record(node, COMPONENT, Severity::Normal, "NodeNotReady", &message)?;
        }
        Ok(None)
    }

    /// Deletes pods whose node has not existed for `pod_orphaned`.
    fn collect_pods(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let nodes: BTreeSet<String> = client
            .all(&NODES)
            .iter()
            .map(|node| node.name().to_owned())
            .collect();
        let orphans: Vec<Arc<Object>> = client
            .all(&PODS)
            .into_iter()
            .filter(|pod| !node_name(pod).is_empty() && !nodes.contains(node_name(pod)))
            .collect();
        let absent: BTreeSet<&str> = orphans.iter().map(|pod| node_name(pod)).collect();
        self.missing
            .retain(|node, _| absent.contains(node.as_str()));
        let mut due = None;
        for pod in &orphans {
            let since = *self
                .missing
                .entry(node_name(pod).to_owned())
                .or_insert(client.now);
            let end = after(since, self.pod_orphaned);
            if end <= client.now {
                client.delete_now(&PODS, &pod.key())?;
            } else {
                due = [due, Some(end)].into_iter().flatten().min();
            }
        }
        Ok(due)
    }
}

/// Sets the taints that follow from a node's conditions.
fn taint(client: &mut Client<'_>, node: &Object) -> ApiResult<()> {
    let ready = json::items(node.value(), &["status", "conditions"])
        .iter()
        .find(|condition| json::text(condition, &["type"]) == "Ready")
        .map(|condition| json::text(condition, &["status"]));
    let mut wanted: BTreeSet<(&str, &str)> = BTreeSet::new();
    match ready {
        Some("False") => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        Some("Unknown") => {
            wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]);
        }
        Some(_) | None => {}
    }
    if json::flag(node.value(), &["spec", "unschedulable"]) {
        wanted.insert((UNSCHEDULABLE, "NoSchedule"));
    }
    let mut taints = json::items(node.value(), &["spec", "taints"]).to_vec();
    let before = taints.clone();
    taints.retain(|taint| {
        let own = (json::text(taint, &["key"]), json::text(taint, &["effect"]));
        let is_managed = [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&own.0);
        !is_managed || wanted.contains(&own)
    });
    for (key, effect) in wanted {
        let is_there = taints.iter().any(|taint| {
            json::text(taint, &["key"]) == key && json::text(taint, &["effect"]) == effect
        });
        if !is_there {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": rfc3339(client.now)}));
        }
    }
    if taints == before {
        return Ok(());
    }
    client.change(&NODES, &node.key(), Part::Main, |node| {
        if taints.is_empty() {
            json::remove(node, &["spec", "taints"]);
        } else {
            json::set(node, &["spec", "taints"], taints);
        }
    })
}

/// Deletes pods from nodes with `NoExecute` taints that they do not tolerate, or no longer.
fn evict(client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
    let tainted: BTreeMap<String, Vec<Value>> = client
        .all(&NODES)
        .iter()
        .map(|node| {
            let taints = json::items(node.value(), &["spec", "taints"]).iter();
            let evicting = taints.filter(|taint| json::text(taint, &["effect"]) == "NoExecute");
            (node.name().to_owned(), evicting.cloned().collect())
        })
        .filter(|(_, taints): &(String, Vec<Value>)| !taints.is_empty())
        .collect();
    if tainted.is_empty() {
        return Ok(None);
    }
    let mut due = None;
    for pod in client.all(&PODS) {
        let Some(taints) = tainted.get(node_name(&pod)) else {
            continue;
        };
        if pod.is_terminating() || is_finished(&pod) {
            continue;
        }
        let info = PodInfo::of(&pod);
        let end = taints
            .iter()
            .filter_map(|taint| end_of_tolerance(client.now, &info, taint))
            .min();
        match end {
            Some(end) if end <= client.now => {
                let message = format!(
                    "Marking for deletion Pod {}/{}",
                    pod.namespace(),
                    pod.name()
                );
                let reason = "TaintManagerEviction";
                client.record(&pod, COMPONENT, Severity::Normal, reason, &message)?;
                client.delete(&PODS, &pod.key())?;
            }
            Some(end) => due = [due, Some(end)].into_iter().flatten().min(),
            None => {}
        }
    }
    Ok(due)
}

/// Time at which a taint evicts a pod; `None` if never.
fn end_of_tolerance(now: Timestamp, pod: &PodInfo, taint: &Value) -> Option<Timestamp> {
    let added = parse_time(json::text(taint, &["timeAdded"])).unwrap_or(now);
    match pod.tolerance_seconds(json::text(taint, &["key"]), json::text(taint, &["value"])) {
        Some(None) => None,
        Some(Some(seconds)) => Some(after(added, SignedDuration::from_secs(seconds.max(0)))),
        None => Some(now),
    }
}

/// Drops stopped machines whose node is gone.
fn forget_machines(client: &mut Client<'_>) {
    let gone: Vec<String> = client
        .machines
        .all()
        .map(|machine| machine.join.name.clone())
        .filter(|name| client.machines.is_gone(name))
        .filter(|name| {
            client
                .get(&NODES, &ObjectKey::new("", name.as_str()))
                .is_none()
        })
        .collect();
    for name in gone {
        client.machines.forget(&name);
    }
}
