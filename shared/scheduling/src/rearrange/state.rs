//! One way to arrange the cluster, which is changed pod by pod and node by node.

use super::{
    cluster_model::{ClusterModel, NO_INDEX},
    grid::Grid,
    planned_node::PlannedNode,
    rules::DOMAINS_MAX,
};

/// Nodes that exist come first, then those to be made.
pub(super) struct State {
    /// Per pod, the node it is on; [`NO_INDEX`] while it is being placed.
    pub(super) node_of: Vec<usize>,
    /// Per node, what its guests ask for: pods that are not at home there.
    pub(super) load: Grid<i64>,
    /// Per node and per rule that counts hosts, its guests.
    hosted: Grid<u32>,
    /// Per rule that counts domains.
    pub(super) in_domains: Grid<i64>,
    pub(super) relocated: Vec<Vec<usize>>,
    /// Per leaver, whether it goes.
    pub(super) removed: Vec<bool>,
    /// Per leaver, the team with which it shares new nodes, and how many of its pods are there.
    pub(super) group: Vec<(usize, usize)>,
    /// Those to be made; an empty one is free.
    pub(super) planned: Vec<PlannedNode>,
    /// The next team's number.
    pub(super) next_group: usize,
    /// What all of it costs per hour, in nano-dollars, evictions left out.
    pub(super) cost: i64,
    /// How many pods leave their homes.
    pub(super) evicted: usize,
}

impl ClusterModel {
    /// Everything as it is.
    pub(super) fn initial_assignment(&self) -> State {
        let count = self.nodes.len() + self.planned_max();
        let mut in_domains = Grid::new(self.counted.in_domains.len(), DOMAINS_MAX);
        for (row, counts) in self.counted.in_domains.iter().enumerate() {
            in_domains.row_mut(row).copy_from_slice(counts);
        }
        let origins = self.pods.iter().map(|pod| self.origin(pod.candidate));
        State {
            node_of: origins.collect(),
            load: Grid::new(count, self.dimensions),
            hosted: Grid::new(count, self.counted.host_columns()),
            in_domains,
            relocated: vec![Vec::new(); count],
            removed: vec![false; self.candidates.len()],
            group: vec![(NO_INDEX, 0); self.candidates.len()],
            planned: (0..self.planned_max())
                .map(|_| self.undecided.clone())
                .collect(),
            next_group: 0,
            cost: self
                .candidates
                .iter()
                .map(|candidate| candidate.price)
                .sum(),
            evicted: 0,
        }
    }

    pub(super) fn planned_max(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn origin(&self, candidate: usize) -> usize {
        self.candidates
            .get(candidate)
            .map_or(NO_INDEX, |candidate| candidate.node)
    }

    pub(super) fn price(&self, offer: usize) -> i64 {
        self.offers.get(offer).map_or(0, |offer| offer.price)
    }
}

impl State {
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.node_of.clone_from(&other.node_of);
        self.load.copy_from(&other.load);
        self.hosted.copy_from(&other.hosted);
        self.in_domains.copy_from(&other.in_domains);
        self.relocated.clone_from(&other.relocated);
        self.removed.clone_from(&other.removed);
        self.group.clone_from(&other.group);
        for (planned, other) in self.planned.iter_mut().zip(&other.planned) {
            planned.copy_from(other);
        }
        self.next_group = other.next_group;
        self.cost = other.cost;
        self.evicted = other.evicted;
    }

    pub(super) fn planned_at(&self, cluster: &ClusterModel, node: usize) -> Option<&PlannedNode> {
        self.planned.get(node.checked_sub(cluster.nodes.len())?)
    }

    /// The nodes to be made that have guests.
    pub(super) fn planned_nodes(
        &self,
        cluster: &ClusterModel,
    ) -> impl Iterator<Item = (usize, &PlannedNode)> {
        let planned = self.planned.iter().enumerate();
        let used = planned.filter(|(_, planned)| planned.group != NO_INDEX);
        let first = cluster.nodes.len();
        used.map(move |(at, planned)| (first + at, planned))
    }

    pub(super) fn is_open(&self, cluster: &ClusterModel, node: usize) -> bool {
        let candidate = cluster.nodes.get(node).and_then(|node| node.candidate);
        candidate.is_none_or(|candidate| self.removed.get(candidate) != Some(&true))
    }

    /// The team of a leaver whose pods are on new nodes.
    pub(super) fn group_of(&self, candidate: usize) -> Option<usize> {
        let (group, on_planned) = self.group.get(candidate)?;
        (*on_planned > 0).then_some(*group)
    }

    /// How many pods a rule counts on a node.
    pub(super) fn on_host(&self, cluster: &ClusterModel, node: usize, column: usize) -> i64 {
        let bound = cluster.nodes.get(node).map_or(&[][..], |node| &node.hosted);
        let bound = bound.get(column).copied().unwrap_or(0);
        i64::from(bound) + i64::from(self.hosted.at(node, column))
    }

    /// The domain of a label that a node is in.
    pub(super) fn domain(&self, cluster: &ClusterModel, node: usize, key: usize) -> usize {
        let known = match cluster.nodes.get(node) {
            Some(node) => &node.domains,
            None => match self.planned_at(cluster, node) {
                Some(planned) => &planned.domains,
                None => return NO_INDEX,
            },
        };
        known.get(key).copied().unwrap_or(NO_INDEX)
    }

    /// Lets a node go. Its pods and its guests are nowhere then.
    pub(super) fn remove_node(
        &mut self,
        cluster: &ClusterModel,
        at: usize,
        unassigned: &mut Vec<usize>,
    ) {
        let Some(candidate) = cluster.candidates.get(at) else {
            return;
        };
        self.evict_relocated(cluster, candidate.node, unassigned);
        for pod in &candidate.pods {
            if self.node_of.get(*pod) == Some(&candidate.node) {
                self.unassign(cluster, *pod);
                unassigned.push(*pod);
            }
        }
        if let Some(removed) = self.removed.get_mut(at) {
            *removed = true;
        }
        self.cost += candidate.disturbance - candidate.price;
        self.evicted += candidate.pods.len();
    }

    /// Lets a node stay after all, with its own pods; returns the nodes to be made that they leave.
    pub(super) fn restore_node(&mut self, cluster: &ClusterModel, at: usize) -> Vec<usize> {
        let Some(candidate) = cluster.candidates.get(at) else {
            return Vec::new();
        };
        let mut left = Vec::new();
        for pod in &candidate.pods {
            left.extend(
                self.unassign(cluster, *pod)
                    .filter(|node| *node >= cluster.nodes.len()),
            );
            self.assign(cluster, *pod, candidate.node);
        }
        if let Some(removed) = self.removed.get_mut(at) {
            *removed = false;
        }
        self.cost += candidate.price - candidate.disturbance;
        self.evicted -= candidate.pods.len();
        left
    }

    /// Takes the guests of a node away.
    pub(super) fn evict_relocated(
        &mut self,
        cluster: &ClusterModel,
        node: usize,
        unassigned: &mut Vec<usize>,
    ) {
        let relocated = self.relocated.get_mut(node).map(std::mem::take);
        for pod in relocated.unwrap_or_default() {
            self.unassign(cluster, pod);
            unassigned.push(pod);
        }
    }

    /// Takes a pod from where it is.
    fn unassign(&mut self, cluster: &ClusterModel, pod: usize) -> Option<usize> {
        let node_of = self.node_of.get_mut(pod)?;
        let node = std::mem::replace(node_of, NO_INDEX);
        if node == NO_INDEX {
            return None;
        }
        self.count(cluster, pod, node, false);
        if let Some(relocated) = self.relocated.get_mut(node)
            && let Some(at) = relocated
                .iter()
                .position(|relocated_pod| *relocated_pod == pod)
        {
            relocated.swap_remove(at);
        }
        Some(node)
    }

    /// Puts a pod on a node.
    pub(super) fn assign(&mut self, cluster: &ClusterModel, pod: usize, node: usize) {
        self.count(cluster, pod, node, true);
        if let Some(node_of) = self.node_of.get_mut(pod) {
            *node_of = node;
        }
        let candidate = cluster.pods.get(pod).map_or(NO_INDEX, |pod| pod.candidate);
        if node != cluster.origin(candidate)
            && let Some(relocated) = self.relocated.get_mut(node)
        {
            relocated.push(pod);
        }
    }

    /// Counts a pod on a node that it joins or leaves.
    fn count(&mut self, cluster: &ClusterModel, pod: usize, node: usize, joins: bool) {
        let sign = if joins { 1 } else { -1 };
        let Some(pod) = cluster.pods.get(pod) else {
            return;
        };
        let Some(kind) = cluster.kinds.get(pod.kind) else {
            return;
        };
        for rule in kind.domains.iter().filter(|rule| rule.counts) {
            let domain = self.domain(cluster, node, rule.key);
            let count = self.in_domains.at(rule.row, domain);
            if domain != NO_INDEX {
                self.in_domains
                    .set(rule.row, domain, count + i64::from(sign));
            }
        }
        // What its own pods take of a node is not there to be had, whether they are there or not.
        if node == cluster.origin(pod.candidate) {
            return;
        }
        for (load, wanted) in self.load.row_mut(node).iter_mut().zip(&kind.requests) {
            *load += i64::from(sign) * wanted;
        }
        for rule in kind.hosts.iter().filter(|rule| rule.counts) {
            let count = self.hosted.at(node, rule.column);
            let count = count.saturating_add_signed(sign);
            self.hosted.set(node, rule.column, count);
        }
        if node >= cluster.nodes.len()
            && let Some((_, on_planned)) = self.group.get_mut(pod.candidate)
        {
            *on_planned = on_planned.saturating_add_signed(if joins { 1 } else { -1 });
        }
    }
}
