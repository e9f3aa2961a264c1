use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Client, Controller, DAEMON_SETS, NODES, PODS,
    client::Severity,
    owned::{
        Rounding, is_active, is_controlled_by, is_finished, node_name, pod_from_template, share,
        template_hash,
    },
    scheduler::{NodeInfo, PodInfo},
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, is_ready},
    store::{Object, TableId},
};

/// DaemonSet controller: keeps one pod of each DaemonSet on every node that admits it.
#[derive(Debug)]
pub(super) struct DaemonSets;

const COMPONENT: &str = "daemonset-controller";
const HASH_LABEL: &str = "controller-revision-hash";

/// Taints that every daemon pod tolerates (Kubernetes: "Taints and tolerations" of DaemonSets).
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Path of a pod's required node affinity terms.
const NODE_TERMS: [&str; 5] = [
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
];

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[DAEMON_SETS, NODES, PODS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let sets = client.all(&DAEMON_SETS);
        if sets.is_empty() {
            return Ok(None);
        }
        let nodes: Vec<NodeInfo> = client
            .all(&NODES)
            .iter()
            .map(|node| NodeInfo::of(node))
            .collect();
        for set in sets {
            if !set.is_terminating() {
                reconcile_pods(client, &set, &nodes)?;
            }
            update_status(client, &set, &nodes)?;
        }
        Ok(None)
    }
}

/// Pod of a DaemonSet before it is pinned to a node.
fn unpinned(set: &Object) -> Value {
    let template = json::at(set.value(), &["spec", "template"]);
    let mut pod = pod_from_template(set, template);
    json::set(
        &mut pod,
        &["metadata", "labels", HASH_LABEL],
        template_hash(template),
    );
    if let Some(tolerations) = json::array_mut(&mut pod, &["spec", "tolerations"]) {
        for (key, effect) in TOLERATED {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
        }
    }
    pod
}

/// Pod of a DaemonSet, pinned to a node by a `metadata.name` match field.
fn daemon(set: &Object, node: &str) -> Value {
    let mut pod = unpinned(set);
    let pinned = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let mut terms = json::items(&pod, &NODE_TERMS).to_vec();
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in &mut terms {
        json::set(term, &["matchFields"], pinned.clone());
    }
    json::set(&mut pod, &NODE_TERMS, terms);
    pod
}

/// Names of the nodes that admit the pods of a DaemonSet.
fn desired_nodes<'n>(set: &Object, nodes: &'n [NodeInfo]) -> BTreeSet<&'n str> {
    let daemon = PodInfo::of_spec(&unpinned(set));
    let fitting = nodes.iter().filter(|node| daemon.is_admitted_by(node));
    fitting.map(|node| node.name.as_str()).collect()
}

/// Name of the node that a pod runs on or is pinned to.
fn target(pod: &Object) -> &str {
    match node_name(pod) {
        "" => json::items(pod.value(), &NODE_TERMS)
            .iter()
            .flat_map(|term| json::items(term, &["matchFields"]))
            .flat_map(|field| json::items(field, &["values"]))
            .find_map(Value::as_str)
            .unwrap_or_default(),
        node => node,
    }
}

fn own_pods(client: &Client<'_>, set: &Object) -> Vec<Arc<Object>> {
    let pods = client.dependents(&PODS, set).into_iter();
    pods.filter(|pod| is_controlled_by(pod, set)).collect()
}

fn reconcile_pods(client: &mut Client<'_>, set: &Object, nodes: &[NodeInfo]) -> ApiResult<()> {
    let desired = desired_nodes(set, nodes);
    let mut served: BTreeSet<String> = BTreeSet::new();
    for pod in own_pods(client, set) {
        let node = target(&pod).to_owned();
        let is_surplus = !desired.contains(node.as_str()) || served.contains(&node);
        if is_finished(&pod) || is_surplus && !pod.is_terminating() {
            client.delete(&PODS, &pod.key())?;
            let message = format!("Deleted pod: {}", pod.name());
            client.record(
                set,
                COMPONENT,
                Severity::Normal,
                "SuccessfulDelete",
                &message,
            )?;
        } else {
            // A terminating pod is replaced only when it is gone.
            served.insert(node);
        }
    }
    for node in desired {
        if !served.contains(node) {
            let pod = client.create(&PODS, set.namespace(), daemon(set, node))?;
            let message = format!("Created pod: {}", pod.name());
            client.record(
                set,
                COMPONENT,
                Severity::Normal,
                "SuccessfulCreate",
                &message,
            )?;
        }
    }
    roll_out(client, set)
}

/// Replaces pods of older templates, at most `maxUnavailable` at a time.
fn roll_out(client: &mut Client<'_>, set: &Object) -> ApiResult<()> {
    if json::text(set.value(), &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Ok(());
    }
    let pods = own_pods(client, set);
    let total = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let limit = json::at(
        set.value(),
        &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"],
    );
    let limit = share(limit, total, Rounding::Up).unwrap_or(1).max(1);
    let unavailable = pods.iter().filter(|pod| !is_ready(pod.value())).count();
    let mut room = limit - i64::try_from(unavailable).unwrap_or(i64::MAX);
    let hash = template_hash(json::at(set.value(), &["spec", "template"]));
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        let is_old = json::text(pod.value(), &["metadata", "labels", HASH_LABEL]) != hash;
        // Replacing a pod that is not ready makes no further pod unavailable.
        if is_old && (room > 0 || !is_ready(pod.value())) {
            room -= i64::from(is_ready(pod.value()));
            client.delete(&PODS, &pod.key())?;
        }
    }
    Ok(())
}

fn update_status(client: &mut Client<'_>, set: &Object, nodes: &[NodeInfo]) -> ApiResult<()> {
    let desired = desired_nodes(set, nodes);
    let pods = own_pods(client, set);
    let hash = template_hash(json::at(set.value(), &["spec", "template"]));
    let placed = || {
        pods.iter()
            .filter(|pod| is_active(pod) && desired.contains(target(pod)))
    };
    let ready = placed().filter(|pod| is_ready(pod.value())).count();
    let updated = placed()
        .filter(|pod| json::text(pod.value(), &["metadata", "labels", HASH_LABEL]) == hash)
        .count();
    let mut status = json!({
        "desiredNumberScheduled": desired.len(),
        "currentNumberScheduled": placed().count(),
        "updatedNumberScheduled": updated,
        "numberMisscheduled": pods.iter().filter(|pod| is_active(pod)).count() - placed().count(),
        "numberReady": ready,
        "observedGeneration": json::at(set.value(), &["metadata", "generation"]),
    });
    if ready > 0 {
        json::set(&mut status, &["numberAvailable"], ready);
    }
    if desired.len() > ready {
        json::set(&mut status, &["numberUnavailable"], desired.len() - ready);
    }
    if *json::at(set.value(), &["status"]) == status {
        return Ok(());
    }
    client.change(&DAEMON_SETS, &set.key(), Part::Status, |set| {
        json::set(set, &["status"], status);
    })
}
