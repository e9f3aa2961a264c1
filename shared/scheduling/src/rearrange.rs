//! Which nodes could go, and for which new ones, so that the cluster as a whole costs least: a plan for many steps at once.
//!
//! Taking the best step each time fills the room on nodes that stay with whatever is moved first, so that later steps find
//! none. Here all steps are planned together, on paper: pods, nodes, offers, and the rules of topology that count pods. The plan
//! consists of teams of nodes that go for the same few new ones. Each team is a step by itself, in any order: the room that its
//! pods take is left free by all others. What the paper leaves out (volumes' limits, `minValues`, limits of NodePools)
//! is checked when a step is taken.

mod admission;
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
mod state;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use model::NanosPerHour;

use self::{
    cluster_model::{ClusterModel, NO_INDEX},
    search::Search,
    state::State,
};
use crate::{BaselineCluster, PlacementTarget};

/// A node that may go.
#[derive(Clone, Debug)]
pub struct RemovableNode {
    /// Its place in the standing question.
    pub node: usize,
    /// The pods that need another place then, by their places in the standing question.
    pub pods: Vec<usize>,
    pub price: NanosPerHour,
    /// Several nodes do not go for one of their own types that is no cheaper: that one had better stay.
    pub instance_type: String,
    /// What its going has to be worth, besides what each eviction has to.
    pub disturbance: NanosPerHour,
    /// What its going has to save in any case, whatever it goes together with.
    pub least_saving: NanosPerHour,
    pub is_spot: bool,
    /// Which of [`RearrangeRequest::together_max`] counts it.
    pub budget: usize,
}

/// What is request for.
#[derive(Clone, Debug)]
pub struct RearrangeRequest<'q> {
    pub removable: &'q [RemovableNode],
    /// How many nodes may go for the same new ones, of those that have the same budget.
    pub together_max: &'q [usize],
    /// For how many new ones.
    pub replacements_max: usize,
    /// Spot nodes may go for spot nodes.
    pub spot_to_spot: bool,
    /// How many changes are tried for each plan.
    pub attempts: usize,
}

/// Nodes that go together, and where their pods are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacementGroup {
    /// By their places among the leavers.
    pub removable: Vec<usize>,
    pub wanted: Vec<(usize, PlacementTarget)>,
    /// How many nodes come for them.
    pub replacements: usize,
}

impl BaselineCluster<'_> {
    /// Makes a plan where an eviction has to be worth so much per hour, shows it, and goes on with what it is told to be worth
    /// then. A plan's teams are in the order of their first nodes, those without a new node each by itself.
    pub fn rearrange(
        &self,
        request: &RearrangeRequest<'_>,
        per_eviction: NanosPerHour,
        mut shown: impl FnMut(Vec<ReplacementGroup>) -> Option<NanosPerHour>,
    ) {
        let mut solver = self.solver();
        let Some(cluster) = ClusterModel::new(&mut solver, request.removable) else {
            return;
        };
        let mut search = Search::new(&cluster, request);
        let mut next = Some(per_eviction);
        while let Some(per_eviction) = next {
            next = shown(groups(&cluster, search.cheapest(per_eviction)));
        }
    }
}

fn groups(cluster: &ClusterModel, state: &State) -> Vec<ReplacementGroup> {
    let mut groups: Vec<(Option<usize>, ReplacementGroup)> = Vec::new();
    for (at, candidate) in cluster.candidates.iter().enumerate() {
        if state.removed.get(at) != Some(&true) {
            continue;
        }
        let number = state.group_of(at);
        let known = groups.iter_mut();
        let mut known = known.filter(|(known, _)| number.is_some() && *known == number);
        match known.next() {
            Some((_, group)) => group.removable.push(candidate.input_index),
            None => {
                let group = ReplacementGroup {
                    removable: vec![candidate.input_index],
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

/// Where the pods of a team go, large ones first.
fn wanted(
    cluster: &ClusterModel,
    state: &State,
    group: &ReplacementGroup,
    planned: &[(usize, usize)],
) -> Vec<(usize, PlacementTarget)> {
    let pods = cluster.pods.iter().enumerate().filter(|(_, pod)| {
        let candidate = cluster.candidates.get(pod.candidate);
        candidate.is_some_and(|candidate| group.removable.contains(&candidate.input_index))
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
