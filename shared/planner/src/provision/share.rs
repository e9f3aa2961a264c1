//! Fair share of one turn: if more pods wait than a turn plans for, each class of pods gets a share, and the rest is left to
//! the next turn (docs/adr/0006-a-fair-share-per-turn.md).

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    PodKey, Resources,
    pod::{HostPort, NodeAffinity, Pod, PodAffinity, TopologySpread},
    taint::Toleration,
};
use scheduling::{Input, NewNode, SolveResult};

use super::buffers;
use crate::{digest::fnv, share::Share};

/// Most solves of a turn. Postponing nodes can make room for others, but further solves improve little.
pub(super) const SEARCHES_MAX: usize = 3;

/// Marks the pods to plan for.
pub(super) fn pods(pods: &[&Pod], share: Share, now: Timestamp) -> Vec<bool> {
    if pods.len() <= share.pods {
        return vec![true; pods.len()];
    }
    let waiting: Vec<WaitingPod<'_>> = pods.iter().map(|pod| WaitingPod::new(pod)).collect();
    first(&waiting, share.pods, now)
}

/// Marks the pods to solve for again after a result with too many launches: all except those of postponed launches.
pub(super) fn pods_of_launches(
    result: &SolveResult,
    input: &Input<'_>,
    share: Share,
    now: Timestamp,
) -> Vec<bool> {
    // A node is ranked by its first pod, which is the largest, and by the age of its oldest.
    let (nodes, waiting): (Vec<&NewNode>, Vec<WaitingPod<'_>>) = result
        .new_nodes
        .iter()
        .filter_map(|node| {
            let pods = node.pods.iter().filter_map(|at| input.pods.get(*at));
            let all = pods.map(|pod| WaitingPod::new(pod));
            let oldest = all.reduce(|node, pod| WaitingPod {
                age: node.age.min(pod.age),
                ..node
            })?;
            Some((node, oldest))
        })
        .unzip();
    let mut kept = vec![true; input.pods.len()];
    let taken = first(&waiting, share.launches, now);
    for (node, taken) in nodes.into_iter().zip(taken) {
        for pod in &node.pods {
            if let Some(slot) = kept.get_mut(*pod) {
                *slot = taken;
            }
        }
    }
    kept
}

/// A pod in the order of a turn's share.
struct WaitingPod<'a> {
    class: PodClass<'a>,
    /// Existing pods come before virtual ones of CapacityBuffers.
    age: (bool, Option<Timestamp>, &'a PodKey),
}

/// Scheduling constraints of a pod. Pods with equal ones form a class and share a place in the order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PodClass<'a> {
    namespace: &'a str,
    requests: &'a Resources,
    node_selector: &'a BTreeMap<String, String>,
    node_affinity: &'a NodeAffinity,
    affinity: [&'a PodAffinity; 2],
    spread: &'a [TopologySpread],
    tolerations: &'a [Toleration],
    host_ports: &'a [HostPort],
}

impl<'a> WaitingPod<'a> {
    fn new(pod: &'a Pod) -> Self {
        Self {
            class: PodClass {
                namespace: &pod.key.namespace,
                requests: &pod.requests,
                node_selector: &pod.node_selector,
                node_affinity: &pod.node_affinity,
                affinity: [&pod.pod_affinity, &pod.pod_anti_affinity],
                spread: &pod.topology_spread,
                tolerations: &pod.tolerations,
                host_ports: &pod.host_ports,
            },
            age: (buffers::is_virtual(pod), pod.created_at, &pod.key),
        }
    }
}

/// Marks the first `max` pods, round-robin across classes, oldest first within a class. A class of unschedulable
/// pods, however large, therefore does not starve the others.
///
/// With more classes than places, half of the places go by age and half by a pseudorandom order that differs each turn, so that
/// no class is passed over forever.
fn first(waiting: &[WaitingPod<'_>], max: usize, now: Timestamp) -> Vec<bool> {
    let mut order: Vec<usize> = (0..waiting.len()).collect();
    order.sort_by_key(|at| waiting.get(*at).map(|pod| (&pod.class, pod.age)));
    let class = |at: usize| waiting.get(at).map(|pod| &pod.class);
    // Each pod with the number of pods of its class before it.
    let mut turns: Vec<(usize, usize)> = Vec::new();
    for alike in order.chunk_by(|a, b| class(*a) == class(*b)) {
        turns.extend(alike.iter().copied().enumerate());
    }
    turns.sort_by_key(|(turn, at)| (*turn, waiting.get(*at).map(|pod| pod.age)));
    let classes = turns.partition_point(|(turn, _)| *turn == 0);
    if classes > max {
        turns.truncate(classes);
        let by_age = max.div_ceil(2);
        if let Some(others) = turns.get_mut(by_age..) {
            others.sort_by_cached_key(|(_, at)| {
                waiting.get(*at).map(|pod| shuffle_key(pod.age.2, now))
            });
        }
    }
    let mut taken = vec![false; waiting.len()];
    for (_, at) in turns.iter().take(max) {
        if let Some(slot) = taken.get_mut(*at) {
            *slot = true;
        }
    }
    taken
}

/// Pseudorandom number of the pod, which differs each turn.
fn shuffle_key(pod: &PodKey, now: Timestamp) -> u64 {
    // Finalizer of SplitMix64. Without it, hashes of names that differ in one letter have the same order at all times.
    let mut shuffle_key = fnv(&format!("{pod}/{now}"));
    shuffle_key = (shuffle_key ^ (shuffle_key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    shuffle_key = (shuffle_key ^ (shuffle_key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    shuffle_key ^ (shuffle_key >> 31)
}

#[cfg(test)]
mod tests;
