//! A stand-in for the kubelets of all nodes: machines register as nodes, bound pods start, deleted pods end.

mod node;
mod pod;

use jiff::{SignedDuration, Timestamp};
pub(super) use node::{LEASE_NAMESPACE, after};

use super::{Client, Controller, NODES, PODS, owned::node_name};
use crate::{error::ApiResult, store::TableId};

/// How fast nodes and pods are.
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// From registration to Ready.
    pub node_ready: SignedDuration,
    /// From binding to Running and Ready.
    pub pod_start: SignedDuration,
    /// From the wish to end to the end, if the pod's grace is not shorter.
    pub pod_stop: SignedDuration,
    /// Pods that are to complete run for so long.
    pub pod_run: SignedDuration,
    /// How often a node renews its lease.
    pub heartbeat: SignedDuration,
    /// Without a heartbeat for so long a node is lost.
    pub node_lost: SignedDuration,
    /// Pods of a node that does not exist are removed after so long.
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

/// The part of kubelets that speaks for nodes. Pods do not concern it, and its heartbeats do not concern pods.
#[derive(Debug)]
pub(super) struct NodeAgents {
    pub(super) options: KubeletOptions,
}

/// The part of kubelets that runs pods.
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
                let next = pod::serve(client, &self.options, &pod)?;
                due = [due, next].into_iter().flatten().min();
            }
        }
        Ok(due)
    }
}
