//! Abstract cluster that the search mutates: resource requests per kind of pod, free capacity per node, and the launch
//! options.

use super::{
    RemovableNode,
    offer_capacity_index::OfferCapacityIndex,
    offers::{LaunchOption, LaunchOptions},
    planned_node::PlannedNode,
    pod_kinds::PodKinds,
    rules::{DomainRule, HostRule, TopologyCounts},
};
use crate::{bits::BitSet, solve::Solver};

/// Absent index: an unassigned pod, an unused planned node, or a node without the label of a domain. A sentinel rather than
/// `Option<usize>` keeps the index vectors of [`Assignment`](super::assignment::Assignment) small and quick to copy.
pub(super) const NO_INDEX: usize = usize::MAX;

/// Fixed part of the search: everything but the assignment of pods to nodes.
pub(super) struct ClusterModel {
    pub(super) kinds: Vec<PodKind>,
    pub(super) pods: Vec<ModelPod>,
    pub(super) nodes: Vec<ModelNode>,
    pub(super) candidates: Vec<Candidate>,
    /// Per candidate, the offers of its own instance type at the same or a higher price, which may not replace several
    /// nodes.
    pub(super) own_offers: Vec<BitSet>,
    pub(super) offers: Vec<LaunchOption>,
    pub(super) capacity_index: OfferCapacityIndex,
    pub(super) all_offers: BitSet,
    /// Template of a planned node without pods.
    pub(super) undecided: PlannedNode,
    pub(super) spot_offers: BitSet,
    /// Per topology key and domain, the offers in that domain.
    pub(super) offers_in: Vec<Vec<BitSet>>,
    pub(super) counted: TopologyCounts,
    pub(super) dimensions: usize,
    /// Per resource, the mean capacity of the offers: the unit in which amounts are compared.
    pub(super) scales: Vec<i64>,
}

/// Pods that are equal in everything but their node.
pub(super) struct PodKind {
    pub(super) requests: Box<[i64]>,
    /// Existing nodes that meet the pods' requirements, taints and capacity.
    pub(super) nodes: Vec<usize>,
    pub(super) offers: BitSet,
    pub(super) hosts: Vec<HostRule>,
    pub(super) domains: Vec<DomainRule>,
    /// Largest share of an average new node that one pod requests, over all resources, in fixed point.
    pub(super) size: i64,
}

/// Pod of a candidate node.
pub(super) struct ModelPod {
    /// Index into the pods of the baseline cluster.
    pub(super) input_index: usize,
    pub(super) kind: usize,
    /// Index of the candidate node that the pod is bound to.
    pub(super) candidate: usize,
}

/// Existing node.
#[derive(Default)]
pub(super) struct ModelNode {
    pub(super) room: Vec<i64>,
    /// Per column of [`HostRule`], the pods counted on the node.
    pub(super) hosted: Vec<u32>,
    /// Per topology key, the index of the node's domain or [`NO_INDEX`].
    pub(super) domains: Vec<usize>,
    pub(super) candidate: Option<usize>,
}

/// Removable node, all of whose pods can be modelled.
pub(super) struct Candidate {
    /// Index into [`RearrangeRequest::removable`](super::RearrangeRequest::removable).
    pub(super) input_index: usize,
    pub(super) node: usize,
    pub(super) price: i64,
    pub(super) disturbance: i64,
    pub(super) least_saving: i64,
    pub(super) is_spot: bool,
    pub(super) budget: usize,
    pub(super) pods: Vec<usize>,
}

/// One in fixed point: the unit of shares and slack.
pub(super) const FIXED_POINT_ONE: i64 = 1 << 16;

impl ClusterModel {
    /// Builds the model; `None` if no node can be removed.
    pub(super) fn new(solver: &mut Solver<'_>, removable: &[RemovableNode]) -> Option<Self> {
        let mut known = PodKinds::default();
        let mut counted = TopologyCounts::default();
        let (mut candidates, mut pods) = (Vec::new(), Vec::new());
        for (at, node) in removable.iter().enumerate() {
            let kinds: Option<Vec<(usize, usize)>> = node
                .pods
                .iter()
                .map(|pod| Some((*pod, known.kind_of(*pod, solver, &mut counted)?)))
                .collect();
            let Some(kinds) = kinds else { continue };
            let own = pods.len()..pods.len() + kinds.len();
            pods.extend(kinds.into_iter().map(|(input_index, kind)| ModelPod {
                input_index,
                kind,
                candidate: candidates.len(),
            }));
            candidates.push(Candidate {
                input_index: at,
                node: node.node,
                price: node.price.0,
                disturbance: node.disturbance.0,
                least_saving: node.least_saving.0,
                is_spot: node.is_spot,
                budget: node.budget,
                pods: own.collect(),
            });
        }
        if candidates.is_empty() {
            return None;
        }
        let dimensions = solver.context.dimensions.len();
        let offers = LaunchOptions::new(&known.sets, &mut counted, &mut solver.context);
        let inputs = candidates
            .iter()
            .filter_map(|candidate| removable.get(candidate.input_index));
        let own_offers = inputs.map(|node| offers.of_own_type(node)).collect();
        let all_offers = BitSet::all(offers.all.len());
        let kinds = known.found.iter().map(|kind| kind.finished(&offers));
        let mut cluster = Self {
            kinds: kinds.collect(),
            pods,
            nodes: nodes(solver, &mut counted),
            offers_in: offers.by_domain(&counted),
            capacity_index: OfferCapacityIndex::of(&offers.all, dimensions),
            undecided: PlannedNode::undecided(&all_offers, counted.keys.len()),
            all_offers,
            spot_offers: offers.spot(),
            offers: offers.all,
            candidates,
            own_offers,
            counted,
            dimensions,
            scales: Vec::new(),
        };
        for (at, candidate) in cluster.candidates.iter().enumerate() {
            if let Some(node) = cluster.nodes.get_mut(candidate.node) {
                node.candidate = Some(at);
            }
        }
        cluster.measure();
        Some(cluster)
    }

    /// Sets the scales, and the size of each kind of pod relative to the average new node.
    fn measure(&mut self) {
        let count = i64::try_from(self.offers.len()).unwrap_or(i64::MAX).max(1);
        let scales = (0..self.dimensions).map(|at| {
            let rooms = self.offers.iter().filter_map(|offer| offer.room.get(at));
            let mean = rooms.map(|room| room / count).sum::<i64>();
            mean.max(1)
        });
        self.scales = scales.collect();
        for kind in &mut self.kinds {
            let shares = kind.requests.iter().zip(&self.scales);
            kind.size = shares
                .map(|(wanted, mean)| share(*wanted, *mean))
                .max()
                .unwrap_or(0);
        }
    }

    pub(super) fn kind(&self, pod: usize) -> Option<&PodKind> {
        self.kinds.get(self.pods.get(pod)?.kind)
    }

    /// Free capacity that remains, summed over all resources in units of the average new node.
    pub(super) fn slack(&self, room: &[i64], load: &[i64], more: &[i64]) -> i64 {
        let amounts = room.iter().zip(load).zip(more).zip(&self.scales);
        let slack = amounts.map(|(((room, load), more), mean)| share(room - load - more, *mean));
        slack.fold(0, i64::saturating_add)
    }
}

/// Share in fixed point. Exact below 128 TiB.
fn share(amount: i64, mean: i64) -> i64 {
    amount.saturating_mul(FIXED_POINT_ONE) / mean
}

fn nodes(solver: &Solver<'_>, counted: &mut TopologyCounts) -> Vec<ModelNode> {
    let count = solver.nodes.iter().map(|node| node.index + 1).max();
    let mut nodes: Vec<ModelNode> = Vec::new();
    nodes.resize_with(count.unwrap_or(0), ModelNode::default);
    for node in &solver.nodes {
        let context = &solver.context;
        let domains = (0..counted.keys.len()).map(|key| {
            let value = counted.keys.get(key).and_then(|(symbol, _)| {
                let req = context.algebra.values(node.set, *symbol)?;
                req.values.first().copied()
            });
            let at = value.and_then(|value| counted.domain(key, value));
            at.unwrap_or(NO_INDEX)
        });
        let domains: Vec<usize> = domains.collect();
        if let Some(slot) = nodes.get_mut(node.index) {
            *slot = ModelNode {
                room: node.remaining.as_deref().unwrap_or_default().to_vec(),
                hosted: counted.on_host(node, context),
                domains,
                candidate: None,
            };
        }
    }
    nodes
}
