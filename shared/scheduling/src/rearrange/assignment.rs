//! Assignment of all pods to nodes, changed by one pod or node at a time.

use super::{
    cluster_model::{ClusterModel, NO_INDEX},
    grid::Grid,
    planned_node::PlannedNode,
    rules::DOMAINS_MAX,
};

/// Node indexes count the existing nodes first, then the planned ones.
pub(super) struct Assignment {
    /// Per pod, its node; [`NO_INDEX`] while it is unassigned.
    pub(super) node_of: Vec<usize>,
    /// Per node, the requests of its relocated pods: pods that are bound to another node today.
    pub(super) load: Grid<i64>,
    /// Per node and per-host column, its relocated pods.
    hosted: Grid<u32>,
    /// Per row of [`DomainRule`](super::rules::DomainRule), the pods in each domain.
    pub(super) in_domains: Grid<i64>,
    pub(super) relocated: Vec<Vec<usize>>,
    /// Per candidate, whether the plan removes it.
    pub(super) removed: Vec<bool>,
    /// Per candidate, its replacement group, and the number of its pods on planned nodes.
    pub(super) group: Vec<(usize, usize)>,
    /// Planned nodes; one without a group is unused.
    pub(super) planned: Vec<PlannedNode>,
    /// Number of the next new group.
    pub(super) next_group: usize,
    /// Cost of all nodes in nano-dollars per hour, without evictions.
    pub(super) cost: i64,
    /// Number of pods that leave the node they are bound to.
    pub(super) evicted: usize,
}

impl ClusterModel {
    /// State in which every pod is on the node it is bound to.
    pub(super) fn initial_assignment(&self) -> Assignment {
        let count = self.nodes.len() + self.planned_max();
        let mut in_domains = Grid::new(self.counted.in_domains.len(), DOMAINS_MAX);
        for (row, counts) in self.counted.in_domains.iter().enumerate() {
            in_domains.row_mut(row).copy_from_slice(counts);
        }
        let origins = self.pods.iter().map(|pod| self.origin(pod.candidate));
        Assignment {
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

impl Assignment {
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

    /// Planned nodes that have pods, with their node indexes.
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

    /// Replacement group of a candidate, if any of its pods is on a planned node.
    pub(super) fn group_of(&self, candidate: usize) -> Option<usize> {
        let (group, on_planned) = self.group.get(candidate)?;
        (*on_planned > 0).then_some(*group)
    }

    /// Number of pods that a per-host column counts on a node.
    pub(super) fn on_host(&self, cluster: &ClusterModel, node: usize, column: usize) -> i64 {
        let bound = cluster.nodes.get(node).map_or(&[][..], |node| &node.hosted);
        let bound = bound.get(column).copied().unwrap_or(0);
        i64::from(bound) + i64::from(self.hosted.at(node, column))
    }

    /// Domain of a node for a topology key.
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

    /// Removes a candidate node; its own and its relocated pods become unassigned.
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

    /// Restores a removed node with its own pods; returns the planned nodes that they leave.
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

    /// Evicts the relocated pods of a node.
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

    /// Takes a pod off its node, which is returned.
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

    /// Assigns a pod to a node.
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

    /// Updates all counts for a pod that joins or leaves a node.
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
        // Requests of a candidate's own pods stay reserved on it even while they are elsewhere, so that restoring the node
        // is always possible.
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
