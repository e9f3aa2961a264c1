//! Insertion step of ruin and recreate (Schrimpf et al. 2000): places unassigned pods where they add least cost and leave
//! least slack.

use super::{
    assignment::Assignment,
    cluster_model::{ClusterModel, NO_INDEX, PodKind},
    planned_node::PlannedNode,
    rng::Rng,
    rules::{Demand, DomainRule},
};

/// One in this many nodes is skipped at random, so that repeated insertions differ.
const BLINK_ONE_IN: usize = 64;

/// Bounds on the nodes that the insertion may add.
#[derive(Clone, Copy)]
pub(super) struct InsertionOptions {
    /// Upper bound on the planned nodes of one replacement group.
    pub(super) replacements_max: usize,
    /// Surcharge on the price of one more planned node, in eighths: the node that is cheapest for one pod often is not for
    /// several.
    pub(super) new_node_penalty: i64,
}

/// Possible placement of a pod on a planned node.
pub(super) struct PlacementOption {
    cost_increase: i64,
    /// Free capacity that would remain.
    slack: i64,
    pub(super) node: usize,
    pub(super) group: usize,
    /// Launch option of the node with the pod.
    pub(super) offer: usize,
    /// Topology keys that the placement fixes, with the domains.
    pub(super) fixed: Vec<(usize, usize)>,
}

impl Assignment {
    /// Places a pod; `false` if no node can take it.
    pub(super) fn insert_pod(
        &mut self,
        cluster: &ClusterModel,
        pod: usize,
        options: InsertionOptions,
        rng: &mut Rng,
    ) -> bool {
        let Some(model_pod) = cluster.pods.get(pod) else {
            return false;
        };
        let Some(kind) = cluster.kinds.get(model_pod.kind) else {
            return false;
        };
        // Existing nodes are paid for already.
        let mut best: Option<(i64, usize)> = None;
        for node in &kind.nodes {
            if !self.is_open(cluster, *node) || rng.one_in(BLINK_ONE_IN) {
                continue;
            }
            let slack = self.slack_on(cluster, kind, *node);
            if let Some(slack) = slack
                && best.is_none_or(|(least, _)| slack < least)
                && self.admits(cluster, kind, *node)
            {
                best = Some((slack, *node));
            }
        }
        if let Some((_, node)) = best {
            self.assign(cluster, pod, node);
            return true;
        }
        match self.cheapest_option(cluster, model_pod.candidate, kind, options, rng) {
            Some(option) => {
                self.place_on_planned(cluster, pod, &option);
                true
            }
            None => false,
        }
    }

    /// Cheapest placement on a planned node of the candidate's group, or on a new one.
    fn cheapest_option(
        &self,
        cluster: &ClusterModel,
        candidate: usize,
        kind: &PodKind,
        options: InsertionOptions,
        rng: &mut Rng,
    ) -> Option<PlacementOption> {
        let group = self.group_of(candidate);
        let mut best: Option<PlacementOption> = None;
        let mut nodes_of_group = 0;
        for (node, planned) in self.planned_nodes(cluster) {
            if group.is_some_and(|group| group != planned.group) {
                continue;
            }
            nodes_of_group += 1;
            if rng.one_in(BLINK_ONE_IN) {
                continue;
            }
            let option = self.option_on(cluster, kind, node, planned);
            best = better(best, option);
        }
        if group.is_none() || nodes_of_group < options.replacements_max {
            let free = self
                .planned
                .iter()
                .position(|planned| planned.group == NO_INDEX);
            if let Some(free) = free {
                let node = cluster.nodes.len() + free;
                let option = self.option_on(cluster, kind, node, &cluster.undecided);
                let group = group.unwrap_or(self.next_group);
                let option = option.map(|option| PlacementOption {
                    group,
                    cost_increase: option.cost_increase
                        + option.cost_increase * options.new_node_penalty / 8,
                    ..option
                });
                best = better(best, option);
            }
        }
        best
    }

    /// Placement on one planned node; `None` if no launch option holds the pod there.
    fn option_on(
        &self,
        cluster: &ClusterModel,
        kind: &PodKind,
        node: usize,
        planned: &PlannedNode,
    ) -> Option<PlacementOption> {
        if !self.admits_on_host(cluster, kind, node) {
            return None;
        }
        let load = self.load.row(node);
        let mut fixed = Vec::new();
        for rule in &kind.domains {
            let mut just = fixed.iter().filter(|(key, _)| *key == rule.key);
            let known = just
                .next()
                .map_or(planned.domain(rule.key), |(_, domain)| *domain);
            let domain = match known {
                NO_INDEX => self.choose_domain(cluster, rule, kind, planned, load)?,
                known => Some(known).filter(|known| self.admits_in(rule, *known))?,
            };
            if known == NO_INDEX {
                fixed.push((rule.key, domain));
            }
        }
        let offer = cluster.cheapest(planned, kind, &fixed, load)?;
        Some(PlacementOption {
            cost_increase: cluster.price(offer) - cluster.price(planned.offer),
            slack: cluster.slack(&cluster.offers.get(offer)?.room, load, &kind.requests),
            node,
            group: planned.group,
            offer,
            fixed,
        })
    }

    /// Free capacity that would remain on an existing node; `None` if the pod does not fit.
    fn slack_on(&self, cluster: &ClusterModel, kind: &PodKind, node: usize) -> Option<i64> {
        let room = &cluster.nodes.get(node)?.room;
        let load = self.load.row(node);
        let mut amounts = room.iter().zip(load).zip(&kind.requests);
        let fits = amounts.all(|((room, load), wanted)| load + wanted <= *room);
        fits.then(|| cluster.slack(room, load, &kind.requests))
    }

    /// Domain for a planned node that has none yet: under a spread constraint the domain with the fewest pods, then the
    /// cheapest.
    fn choose_domain(
        &self,
        cluster: &ClusterModel,
        rule: &DomainRule,
        kind: &PodKind,
        planned: &PlannedNode,
        load: &[i64],
    ) -> Option<usize> {
        let domains = cluster.offers_in.get(rule.key)?.len();
        let counts = self.in_domains.row(rule.row);
        let spreads = matches!(rule.demand, Some(Demand::Spread { .. }));
        let open = (0..domains).filter_map(|domain| {
            if !self.admits_in(rule, domain) {
                return None;
            }
            let offer = cluster.cheapest(planned, kind, &[(rule.key, domain)], load)?;
            let count = counts.get(domain).copied().filter(|_| spreads);
            Some((count.unwrap_or(0), cluster.price(offer), domain))
        });
        open.min().map(|(_, _, domain)| domain)
    }
}

fn better(
    known: Option<PlacementOption>,
    other: Option<PlacementOption>,
) -> Option<PlacementOption> {
    match (known, other) {
        (Some(known), Some(other)) => {
            let is_better = (other.cost_increase, other.slack) < (known.cost_increase, known.slack);
            Some(if is_better { other } else { known })
        }
        (known, other) => known.or(other),
    }
}
