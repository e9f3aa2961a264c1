use jiff::{SignedDuration, Timestamp};
use model::{
    Resources,
    resources::amount_text,
    taint::{Taint, TaintEffect},
};
use serde_json::{Value, json};

use super::{COMPONENT, KubeletOptions};
use crate::{
    controllers::{
        CSI_NODES, Client, LEASES, Machine, MachineState, NODES, NodeJoin, client::Severity,
    },
    error::ApiResult,
    json,
    server::{Part, is_ready, micro_time, parse_time, rfc3339, set_condition},
    store::{Object, ObjectKey},
};

/// Namespace of the nodes' leases.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i64 = 40;
/// Kubelet version that nodes report.
const VERSION: &str = "v1.37.0";

/// Registers machines that are due, makes their nodes ready, and renews their leases.
pub(super) fn serve_machines(
    client: &mut Client<'_>,
    options: &KubeletOptions,
) -> ApiResult<Option<Timestamp>> {
    let mut due = None;
    let machines: Vec<Machine> = client.machines.all().cloned().collect();
    for machine in machines {
        let next = match machine.state {
            MachineState::Booting if machine.joins_at <= client.now => {
                register(client, &machine)?;
                client.machines.registered(&machine.join.name, client.now);
                Some(client.now)
            }
            MachineState::Booting => Some(machine.joins_at),
            MachineState::Running { since } => renew_node(client, options, &machine.join, since)?,
            MachineState::Gone => None,
        };
        due = [due, next].into_iter().flatten().min();
    }
    Ok(due)
}

fn register(client: &mut Client<'_>, machine: &Machine) -> ApiResult<()> {
    let join = &machine.join;
    let key = ObjectKey::new("", join.name.as_str());
    let (spec, status) = (spec(join), status(machine, client.now));
    match client.get(&NODES, &key) {
        None => {
            let node = json!({
                "metadata": {
                    "name": join.name,
                    "labels": labels(join),
                    "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
                },
                "spec": spec,
                "status": status,
            });
            client.create(&NODES, "", node)?;
        }
        Some(_) => {
            client.change(&NODES, &key, Part::Status, |node| {
                json::set(node, &["status"], status);
            })?;
        }
    }
    let drivers: Vec<Value> = join
        .volume_limits
        .iter()
        .map(|(driver, limit)| {
            json!({
                "name": driver, "nodeID": join.provider_id, "topologyKeys": ["topology.kubernetes.io/zone"],
                "allocatable": {"count": limit},
            })
        })
        .collect();
    if client.get(&CSI_NODES, &key).is_none()
        && let Some(node) = client.get(&NODES, &key)
    {
        let csi_node = json!({
            "metadata": {"name": join.name, "ownerReferences": [owner(&node)]},
            "spec": {"drivers": drivers},
        });
        client.create(&CSI_NODES, "", csi_node)?;
        client.record(
            &node,
            COMPONENT,
            Severity::Normal,
            "Starting",
            "Starting kubelet.",
        )?;
    }
    Ok(())
}

fn owner(node: &Object) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid()})
}

fn labels(join: &NodeJoin) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": join.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": join.architecture,
        "node.kubernetes.io/instance-type": join.instance_type,
        "topology.kubernetes.io/zone": join.zone,
    });
    if let Some(region) = region(&join.zone) {
        json::set(&mut labels, &["topology.kubernetes.io/region"], region);
    }
    for (key, value) in &join.labels {
        json::set(&mut labels, &[key], value.as_str());
    }
    labels
}

/// Region of a zone: `us-east-1a` is in `us-east-1`.
fn region(zone: &str) -> Option<&str> {
    zone.strip_suffix(|c: char| c.is_ascii_lowercase())
}

fn spec(join: &NodeJoin) -> Value {
    let taints: Vec<Value> = join.taints.iter().map(taint).collect();
    let mut spec = json!({"providerID": join.provider_id});
    if !taints.is_empty() {
        json::set(&mut spec, &["taints"], taints);
    }
    spec
}

fn taint(taint: &Taint) -> Value {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    let mut value = json!({"key": taint.key, "effect": effect});
    if !taint.value.is_empty() {
        json::set(&mut value, &["value"], taint.value.as_str());
    }
    value
}

fn status(machine: &Machine, now: Timestamp) -> Value {
    let join = &machine.join;
    let boot_id = format!("{}-{}", join.name, machine.reboots);
    let mut status = json!({
        "capacity": list(&join.capacity),
        "allocatable": list(&join.allocatable),
        "addresses": [
            {"type": "InternalIP", "address": join.internal_ip},
            {"type": "Hostname", "address": join.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": join.architecture, "operatingSystem": "linux",
            "kubeletVersion": VERSION, "kubeProxyVersion": "",
            "containerRuntimeVersion": "containerd://2.1.0", "osImage": "Sandbox Linux",
            "kernelVersion": "6.12.0", "machineID": "", "systemUUID": "", "bootID": boot_id,
        },
        "conditions": [],
    });
    let conditions: Vec<Value> = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        (
            "Ready",
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
        ),
    ]
    .iter()
    .map(|(kind, status, reason, message)| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": rfc3339(now), "lastTransitionTime": rfc3339(now),
        })
    })
    .collect();
    json::set(&mut status, &["conditions"], conditions);
    status
}

/// Resource amounts as a map of Kubernetes quantities.
fn list(resources: &Resources) -> Value {
    let entries = resources
        .iter()
        .map(|(name, amount)| (name.to_owned(), Value::from(amount_text(name, amount))));
    Value::Object(entries.collect())
}

fn renew_node(
    client: &mut Client<'_>,
    options: &KubeletOptions,
    join: &NodeJoin,
    since: Timestamp,
) -> ApiResult<Option<Timestamp>> {
    let key = ObjectKey::new("", join.name.as_str());
    let Some(node) = client.get(&NODES, &key) else {
        // A Node deleted under a running kubelet is not registered again.
        return Ok(None);
    };
    let next_beat = renew_lease(client, options, &node)?;
    if is_ready(node.value()) {
        return Ok(next_beat);
    }
    let ready_at = after(since, join.ready_after.unwrap_or(options.node_ready));
    if client.now < ready_at {
        return Ok([Some(ready_at), next_beat].into_iter().flatten().min());
    }
    let now = client.now;
    client.change(&NODES, &key, Part::Status, |node| {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "kubelet is posting ready status", "lastHeartbeatTime": rfc3339(now),
        });
        set_condition(node, condition, now);
    })?;
    let message = format!("Node {} status is now: NodeReady", join.name);
    client.record(&node, COMPONENT, Severity::Normal, "NodeReady", &message)?;
    Ok(next_beat)
}

fn renew_lease(
    client: &mut Client<'_>,
    options: &KubeletOptions,
    node: &Object,
) -> ApiResult<Option<Timestamp>> {
    let key = ObjectKey::new(LEASE_NAMESPACE, node.name());
    let (now, next) = (client.now, after(client.now, options.heartbeat));
    // Renewals a little early keep the leases of all nodes in step, so that one pass renews them together.
    let due = |renewed: Timestamp| after(renewed, options.heartbeat / 2);
    match client.get(&LEASES, &key) {
        None => {
            let lease = json!({
                "metadata": {"name": node.name(), "ownerReferences": [owner(node)]},
                "spec": {
                    "holderIdentity": node.name(), "leaseDurationSeconds": LEASE_SECONDS,
                    "renewTime": micro_time(now),
                },
            });
            client.create(&LEASES, LEASE_NAMESPACE, lease)?;
        }
        Some(lease) => {
            let renewed = parse_time(json::text(lease.value(), &["spec", "renewTime"]));
            if let Some(renewed) = renewed
                && now < due(renewed)
            {
                return Ok(Some(after(renewed, options.heartbeat)));
            }
            client.change(&LEASES, &key, Part::Main, |lease| {
                json::set(lease, &["spec", "renewTime"], micro_time(now));
            })?;
        }
    }
    Ok(Some(next))
}

pub(in crate::controllers) fn after(start: Timestamp, wait: SignedDuration) -> Timestamp {
    start.checked_add(wait).unwrap_or(Timestamp::MAX)
}
