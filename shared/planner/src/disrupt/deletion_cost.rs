//! Pod deletion costs: the order in which ReplicaSets should remove pods when scaled in, so that nodes become empty
//! (docs/spec/v1.15.md#pod-deletion-cost).

mod gate;

use std::{cmp::Reverse, collections::BTreeMap};

use api::{
    conditions::types::DRIFTED,
    names::annotation::{DELETION_COST_WRITTEN, POD_DELETION_COST},
};
use model::{
    NodeName, NodePoolName, PodKey, Snapshot, Uid,
    labels::NODE_POOL,
    node_pool::ConsolidateAfter,
    pod::{Owner, Pod},
    taint::{Taint, TaintEffect},
};

pub use self::gate::GATE;
pub(crate) use self::gate::is_on;
use super::{
    Reason,
    budgets::Budgets,
    candidates::{Candidate, Candidates, Class},
    context::DisruptionContext,
};
use crate::inventory::StateNode;

/// Most nodes whose pods are updated in one turn, as in Karpenter. Nodes that are leaving do not count.
const NODES_MAX: usize = 50;
/// Deletion cost of pods on nodes that are leaving: they are removed first.
const LEAVES: i32 = i32::MIN;
/// A written rank is kept while it differs by at most 1/10 of all ranks, because each write wakes every watcher of pods.
const TOLERATED_PART: u32 = 10;

/// Deletion cost to write to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionCost {
    pub pod: PodKey,
    pub uid: Uid,
    /// `None` removes the annotation that was written before.
    pub cost: Option<i32>,
}

/// Deletion costs to write to the pods of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDeletionCosts {
    pub node: NodeName,
    pub node_pool: NodePoolName,
    pub pods: Vec<DeletionCost>,
}

/// Returns the pods whose deletion cost must change, by node, then those of nodes beyond the limit of one turn. With the gate
/// off, written annotations are removed.
pub(super) fn of_context(
    context: &DisruptionContext<'_>,
) -> (Vec<NodeDeletionCosts>, Vec<NodeDeletionCosts>) {
    let is_on = is_on(&context.snapshot.settings);
    let ranked = if is_on { ranked(context) } else { Vec::new() };
    let count = ranked.len();
    let places = ranked.iter().enumerate();
    let places: BTreeMap<&NodeName, usize> = places.map(|(at, name)| (*name, at)).collect();
    let (mut leaving, mut staying, mut rest) = (Vec::new(), vec![Vec::new(); count], Vec::new());
    for state_node in &context.inventory.state_nodes {
        let Some(node) = state_node.node.filter(|_| state_node.claim.is_some()) else {
            continue;
        };
        let changes = |wanted| {
            let pods = state_node.pods.iter();
            let pods: Vec<_> = pods.filter_map(|pod| cost_update(pod, wanted)).collect();
            let node = node.name.clone();
            let node_pool = state_node.labels.get(NODE_POOL).map(String::as_str);
            (!pods.is_empty()).then_some(NodeDeletionCosts {
                node,
                node_pool: node_pool.unwrap_or_default().into(),
                pods,
            })
        };
        match places.get(&node.name).copied() {
            _ if is_on && is_leaving(state_node) => leaving.extend(changes(Some(LEAVES))),
            Some(rank) => {
                let cost = close_written_cost(state_node, cost_of_rank(rank, count), count);
                if let Some(of_rank) = staying.get_mut(rank) {
                    of_rank.extend(changes(Some(cost)));
                }
            }
            None => rest.extend(changes(None)),
        }
    }
    let mut counted: Vec<_> = staying.into_iter().flatten().chain(rest).collect();
    let left = counted.split_off(NODES_MAX.min(counted.len()));
    leaving.append(&mut counted);
    (leaving, left)
}

/// Nodes that should become empty: drifted ones first, each group by price per disruption cost.
fn ranked<'a>(context: &DisruptionContext<'a>) -> Vec<&'a NodeName> {
    let candidates = Candidates::new(context, Class::Graceful);
    let can_empty = |candidate: &&Candidate<'a>| {
        candidate.instance_type.is_some()
            && !is_leaving(candidate.state_node)
            && candidate
                .state_node
                .pods
                .iter()
                .all(|pod| may_be_deleted(pod))
    };
    let mut all: Vec<&Candidate<'a>> = candidates.all.iter().filter(can_empty).collect();
    all.sort_by(|a, b| by_saving(a, b));
    let (drifted, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|candidate| candidate.claim.is_true(DRIFTED));
    let others = others.into_iter().filter(|candidate| {
        candidate.pool.replicas.is_none()
            && candidate.pool.disruption.consolidate_after != ConsolidateAfter::Never
    });
    let within = |reason, nodes: Vec<&Candidate<'a>>| -> Vec<&'a NodeName> {
        let mut budgets = Budgets::new(context.snapshot, context.inventory, reason, context.now);
        let allowed = nodes
            .into_iter()
            .filter(|candidate| budgets.take(candidate));
        allowed.map(|candidate| &candidate.node.name).collect()
    };
    let mut ranked = within(Reason::Drifted, drifted);
    ranked.extend(within(Reason::Underutilized, others.collect()));
    ranked
}

/// Orders by price per disruption cost, highest first.
fn by_saving(a: &Candidate<'_>, b: &Candidate<'_>) -> std::cmp::Ordering {
    // a.price / a.cost against b.price / b.cost, without dividing.
    let ratio =
        |of: &Candidate<'_>, other: &Candidate<'_>| i128::from(of.price.0) * i128::from(other.cost);
    (Reverse(ratio(a, b)), &a.node.name).cmp(&(Reverse(ratio(b, a)), &b.node.name))
}

/// Whether deleting the pod removes or moves it: its owner recreates it elsewhere, or it is gone. Pods in `kube-system` always
/// count.
fn may_be_deleted(pod: &Pod) -> bool {
    let owner = pod.owner.as_ref();
    pod.key.namespace == "kube-system"
        || owner
            .is_some_and(|owner| matches!(owner.kind.as_str(), "ReplicaSet" | "Job" | "DaemonSet"))
}

fn is_leaving(state_node: &StateNode<'_>) -> bool {
    let is_disrupted = |taint: &Taint| {
        taint.key == api::names::taint::DISRUPTED && taint.effect == TaintEffect::NoSchedule
    };
    let mut taints = state_node.node.into_iter().flat_map(|node| &node.taints);
    state_node.deleting || taints.any(is_disrupted)
}

/// Cost by rank: −count for the first, −1 for the last.
fn cost_of_rank(rank: usize, count: usize) -> i32 {
    let behind = count.saturating_sub(rank);
    i32::try_from(behind).map_or(i32::MIN + 1, |behind| -behind)
}

/// Returns the cost that is written on the node already, if it is close enough to its rank, else `cost`.
fn close_written_cost(state_node: &StateNode<'_>, cost: i32, count: usize) -> i32 {
    let written = state_node.pods.iter().find_map(|pod| written_cost(pod));
    let is_about = |written: &i32| {
        let apart = u64::from(written.abs_diff(cost)) * u64::from(TOLERATED_PART);
        *written < 0 && u64::try_from(count).is_ok_and(|count| apart <= count)
    };
    written.filter(is_about).unwrap_or(cost)
}

/// Cost that Whittle last wrote to the pod, if it is unchanged.
fn written_cost(pod: &Pod) -> Option<i32> {
    let cost = pod.annotations.get(POD_DELETION_COST)?;
    let own = pod.annotations.get(DELETION_COST_WRITTEN)?;
    if cost == own { own.parse().ok() } else { None }
}

/// Returns the update of the pod's annotation. A value set by the owner is kept, and only ReplicaSets read the annotation.
fn cost_update(pod: &Pod, cost: Option<i32>) -> Option<DeletionCost> {
    let is_of_replica_set = |owner: &Owner| owner.kind == "ReplicaSet";
    let written = written_cost(pod);
    let is_the_owners = written.is_none() && pod.annotations.contains_key(POD_DELETION_COST);
    (pod.owner.as_ref().is_some_and(is_of_replica_set) && !is_the_owners && written != cost).then(
        || DeletionCost {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            cost,
        },
    )
}

/// Whether the gate is on or annotations remain from when it was.
pub(super) fn is_managed(snapshot: &Snapshot) -> bool {
    let mut pods = snapshot.pods.iter();
    is_on(&snapshot.settings) || pods.any(|pod| pod.annotations.contains_key(DELETION_COST_WRITTEN))
}
