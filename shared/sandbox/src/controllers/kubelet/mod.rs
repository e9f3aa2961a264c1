//! Simulated kubelets of all nodes: machines register as nodes, bound pods start, deleted pods end.

mod node;
mod pod;

use jiff::{SignedDuration, Timestamp};
pub(super) use node::{LEASE_NAMESPACE, after};

use super::{Client, Controller, NODES, PODS, owned::node_name};
use crate::{error::ApiResult, store::TableId};

/// Durations of what kubelets do.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// Time from registration to Ready.
    pub node_ready: SignedDuration,
    /// From binding to Running and Ready.
    pub pod_start: SignedDuration,
    /// From deletion to the end of the pod, unless its grace period is shorter.
    pub pod_stop: SignedDuration,
    /// Running time of pods that run to completion.
    pub pod_run: SignedDuration,
    /// Interval between renewals of a node's lease.
    pub heartbeat: SignedDuration,
    /// Age of the lease at which the Ready condition becomes unknown.
    pub node_lost: SignedDuration,
    /// Time after which pods of a node that does not exist are removed.
    pub pod_orphaned: SignedDuration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            node_ready: SignedDuration::from_secs(2),
            pod_start: SignedDuration::from_secs(1),
            pod_stop: SignedDuration::from_secs(1),
            pod_run: SignedDuration::from_secs(5),
            heartbeat: SignedDuration::from_secs(10),
            node_lost: SignedDuration::from_secs(40),
            pod_orphaned: SignedDuration::from_secs(20),
        }
    }
}

/// Kubelets' work on nodes. It is separate from pods so that heartbeats do not cause a pass over all pods.
#[derive(Debug)]
pub(super) struct NodeAgents {
    pub(super) options: KubeletOptions,
}

/// Kubelets' work on pods.
#[derive(Debug)]
pub(super) struct PodWorkers {
    pub(super) options: KubeletOptions,
}

const COMPONENT: &str = "kubelet";

impl Controller for NodeAgents {
    fn name(&self) -> &'static str {
        "kubelet-nodes"
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[NODES] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        node::serve_machines(client, &self.options)
    }
}

impl Controller for PodWorkers {
    fn name(&self) -> &'static str {
        "kubelet-pods"
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[PODS, NODES] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let mut due = None;
        for pod in client.all(&PODS) {
            let node = node_name(&pod);
            if !node.is_empty() && client.machines.is_served(node) {
                let next = pod::advance_pod(client, &self.options, &pod)?;
                due = [due, next].into_iter().flatten().min();
            }
        }
        Ok(due)
    }
}
