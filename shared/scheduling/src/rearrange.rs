//! Plans several consolidations at once: the nodes to remove and the nodes to launch instead, so that the whole cluster
//! costs least (docs/adr/0017-plan-the-cluster-as-a-whole.md).
//!
//! A greedy choice of the best single step fills the free capacity of the remaining nodes with the first pods moved, so
//! later steps find none. This search works on a [`ClusterModel`] of pods, nodes, launch options and topology counts. The
//! plan is a list of replacement groups: nodes removed together for the same few new nodes. The groups can be executed in
//! any order, because each leaves free the capacity that the others need. The model leaves out volume limits, `minValues`
//! and NodePool limits; they are checked when a step is executed.

mod admission;
mod assignment;
mod cluster_model;
mod grid;
mod offer_capacity_index;
mod offers;
mod planned_node;
mod pod_kinds;
mod recreate;
mod rng;
mod rules;
mod search;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use model::NanosPerHour;

use self::{
    assignment::Assignment,
    cluster_model::{ClusterModel, NO_INDEX},
    search::RuinAndRecreate,
};
use crate::{BaselineCluster, PlacementTarget};

/// Node that the search may remove.
#[derive(Clone, Debug)]
pub struct RemovableNode {
    /// Index into the nodes of the baseline cluster.
    pub node: usize,
    /// Pods that need another place once the node is removed, as indexes into the pods of the baseline cluster.
    pub pods: Vec<usize>,
    pub price: NanosPerHour,
    /// Several nodes are never replaced by one of their own instance types at the same or a higher price: keeping that node
    /// would be cheaper.
    pub instance_type: String,
    /// Saving that removing the node must exceed, besides the price of each eviction.
    pub disturbance: NanosPerHour,
    /// Lower bound on the saving of removing the node, regardless of other removed nodes.
    pub least_saving: NanosPerHour,
    pub is_spot: bool,
    /// Index into [`RearrangeRequest::together_max`].
    pub budget: usize,
}

/// Removable nodes and the bounds of the search.
#[derive(Clone, Debug)]
pub struct RearrangeRequest<'q> {
    pub removable: &'q [RemovableNode],
    /// Per budget, the largest number of its nodes in one replacement group.
    pub together_max: &'q [usize],
    /// Upper bound on the new nodes of one replacement group.
    pub replacements_max: usize,
    /// Whether spot nodes may be replaced by spot nodes.
    pub spot_to_spot: bool,
    /// Number of changes tried for each plan.
    pub attempts: usize,
}

/// Nodes removed together, with placement hints for their pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacementGroup {
    /// Indexes into [`RearrangeRequest::removable`].
    pub removed: Vec<usize>,
    pub wanted: Vec<(usize, PlacementTarget)>,
    /// Number of new nodes.
    pub replacements: usize,
}

impl BaselineCluster<'_> {
    /// Computes a plan in which each eviction must save `per_eviction`, passes it to `visit`, and continues from that plan
    /// with the price per eviction that `visit` returns, until it returns none. Groups are ordered by their first node;
    /// nodes without a new node form a group each.
    pub fn rearrange(
        &self,
        request: &RearrangeRequest<'_>,
        per_eviction: NanosPerHour,
        mut visit: impl FnMut(Vec<ReplacementGroup>) -> Option<NanosPerHour>,
    ) {
        let mut solver = self.solver();
        let Some(cluster) = ClusterModel::new(&mut solver, request.removable) else {
            return;
        };
        let mut search = RuinAndRecreate::new(&cluster, request);
        let mut next = Some(per_eviction);
        while let Some(per_eviction) = next {
            next = visit(groups(&cluster, search.cheapest(per_eviction)));
        }
    }
}

fn groups(cluster: &ClusterModel, state: &Assignment) -> Vec<ReplacementGroup> {
    let mut groups: Vec<(Option<usize>, ReplacementGroup)> = Vec::new();
    for (at, candidate) in cluster.candidates.iter().enumerate() {
        if state.removed.get(at) != Some(&true) {
            continue;
        }
        let number = state.group_of(at);
        let known = groups.iter_mut();
        let mut known = known.filter(|(known, _)| number.is_some() && *known == number);
        match known.next() {
            Some((_, group)) => group.removed.push(candidate.input_index),
            None => {
                let group = ReplacementGroup {
                    removed: vec![candidate.input_index],
                    ..ReplacementGroup::default()
                };
                groups.push((number, group));
            }
        }
    }
    for (number, group) in &mut groups {
        let planned = state.planned_nodes(cluster);
        let planned = planned.filter(|(_, planned)| Some(planned.group) == *number);
        let planned: Vec<(usize, usize)> = planned
            .map(|(node, planned)| {
                (
                    node,
                    cluster
                        .offers
                        .get(planned.offer)
                        .map_or(0, |offer| offer.pool),
                )
            })
            .collect();
        group.replacements = planned.len();
        group.wanted = wanted(cluster, state, group, &planned);
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Placement hints for the pods of a group, the largest pods first.
fn wanted(
    cluster: &ClusterModel,
    state: &Assignment,
    group: &ReplacementGroup,
    planned: &[(usize, usize)],
) -> Vec<(usize, PlacementTarget)> {
    let pods = cluster.pods.iter().enumerate().filter(|(_, pod)| {
        let candidate = cluster.candidates.get(pod.candidate);
        candidate.is_some_and(|candidate| group.removed.contains(&candidate.input_index))
    });
    let found = pods.map(|(at, pod)| {
        let node = state.node_of.get(at).copied().unwrap_or(NO_INDEX);
        let new = planned.iter().position(|(known, _)| *known == node);
        let destination = match new.and_then(|number| Some((number, planned.get(number)?.1))) {
            Some((number, pool)) => PlacementTarget::New { pool, number },
            None => PlacementTarget::Node(node),
        };
        let size = cluster.kinds.get(pod.kind).map_or(0, |kind| kind.size);
        (Reverse(size), pod.input_index, destination)
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found
        .into_iter()
        .map(|(_, pod, destination)| (pod, destination))
        .collect()
}
