//! Nodes that a plan would launch: the launch options each could still use, and the cheapest of them.

use super::{
    assignment::Assignment,
    cluster_model::{ClusterModel, NO_INDEX, PodKind},
    recreate::PlacementOption,
};
use crate::bits::BitSet;

/// Node that the plan would launch.
#[derive(Clone)]
pub(super) struct PlannedNode {
    pub(super) group: usize,
    /// Cheapest launch option that holds the node's pods.
    pub(super) offer: usize,
    /// Launch options that the kinds of its pods and its fixed domains allow.
    pub(super) viable_offers: BitSet,
    /// Per topology key, the domain that is fixed, or [`NO_INDEX`].
    pub(super) domains: Vec<usize>,
}

impl ClusterModel {
    /// Cheapest option for the node with one more pod of `kind` and the domains in `fixed`.
    pub(super) fn cheapest(
        &self,
        planned: &PlannedNode,
        kind: &PodKind,
        fixed: &[(usize, usize)],
        load: &[i64],
    ) -> Option<usize> {
        let in_domain = |(key, domain): &(usize, usize)| self.offers_in.get(*key)?.get(*domain);
        let mut domains = fixed.iter().map(in_domain);
        let (first, second) = (domains.next(), domains.next());
        let all = [
            Some(&kind.offers),
            first.unwrap_or(Some(&planned.viable_offers)),
            second.unwrap_or(Some(&planned.viable_offers)),
        ];
        let [Some(offers), Some(first), Some(second)] = all else {
            return None;
        };
        // One more pod never makes a node cheaper, so the search starts at the current option.
        let from = if planned.offer == NO_INDEX {
            0
        } else {
            planned.offer
        };
        let sets = [&planned.viable_offers, offers, first, second];
        let amounts = load.iter().zip(&kind.requests);
        let amounts = amounts.map(|(load, wanted)| load + wanted);
        self.capacity_index.first(&self.offers, sets, from, amounts)
    }
}

impl Assignment {
    /// Assigns a pod to a planned node.
    pub(super) fn place_on_planned(
        &mut self,
        cluster: &ClusterModel,
        pod: usize,
        option: &PlacementOption,
    ) {
        let model_pod = cluster.pods.get(pod);
        let kind = model_pod.and_then(|pod| cluster.kinds.get(pod.kind));
        let at = option.node.checked_sub(cluster.nodes.len());
        let planned = at.and_then(|at| self.planned.get_mut(at));
        let (Some(model_pod), Some(kind), Some(planned)) = (model_pod, kind, planned) else {
            return;
        };
        if planned.group == NO_INDEX {
            planned.viable_offers.copy_from(&cluster.all_offers);
            planned.domains.fill(NO_INDEX);
            planned.group = option.group;
            self.next_group = self.next_group.max(option.group + 1);
        }
        self.cost += cluster.price(option.offer) - cluster.price(planned.offer);
        planned.offer = option.offer;
        planned.viable_offers.and(&kind.offers);
        for (key, domain) in &option.fixed {
            planned.fix_domain(cluster, *key, *domain);
        }
        if let Some((group, _)) = self.group.get_mut(model_pod.candidate) {
            *group = option.group;
        }
        self.assign(cluster, pod, option.node);
    }

    /// Downsizes a planned node after pods have left it, or frees it if it is empty.
    pub(super) fn shrink(&mut self, cluster: &ClusterModel, node: usize) {
        let Some(at) = node.checked_sub(cluster.nodes.len()) else {
            return;
        };
        let relocated = self
            .relocated
            .get(node)
            .map_or(&[][..], |relocated| relocated);
        let planned = self
            .planned
            .get_mut(at)
            .filter(|planned| planned.group != NO_INDEX);
        let Some(planned) = planned else {
            return;
        };
        let before = cluster.price(planned.offer);
        planned.offer = NO_INDEX;
        planned.viable_offers.copy_from(&cluster.all_offers);
        let domains = std::mem::replace(
            &mut planned.domains,
            vec![NO_INDEX; cluster.counted.keys.len()],
        );
        let mut last = None;
        for relocated_pod in relocated {
            let Some(kind) = cluster.kind(*relocated_pod) else {
                continue;
            };
            planned.viable_offers.and(&kind.offers);
            for rule in &kind.domains {
                let domain = domains.get(rule.key).copied().unwrap_or(NO_INDEX);
                planned.fix_domain(cluster, rule.key, domain);
            }
            last = Some(kind);
        }
        match last {
            Some(_) => {
                let load = self.load.row(node);
                let load = load.iter().copied();
                let cheapest = cluster.capacity_index.first(
                    &cluster.offers,
                    [&planned.viable_offers; 4],
                    0,
                    load,
                );
                planned.offer = cheapest.unwrap_or(NO_INDEX);
            }
            None => planned.group = NO_INDEX,
        }
        self.cost += cluster.price(planned.offer) - before;
    }
}

impl PlannedNode {
    /// Unused planned node that may become any of the offers.
    pub(super) fn undecided(offers: &BitSet, keys: usize) -> Self {
        Self {
            group: NO_INDEX,
            offer: NO_INDEX,
            viable_offers: offers.clone(),
            domains: vec![NO_INDEX; keys],
        }
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        if self.group == NO_INDEX && other.group == NO_INDEX {
            return;
        }
        self.group = other.group;
        self.offer = other.offer;
        self.viable_offers.copy_from(&other.viable_offers);
        self.domains.clone_from(&other.domains);
    }

    pub(super) fn domain(&self, key: usize) -> usize {
        self.domains.get(key).copied().unwrap_or(NO_INDEX)
    }

    /// Restricts the node to the offers in one domain of a topology key.
    pub(super) fn fix_domain(&mut self, cluster: &ClusterModel, key: usize, domain: usize) {
        let offers = cluster
            .offers_in
            .get(key)
            .and_then(|table| table.get(domain));
        match offers {
            Some(offers) => self.viable_offers.and(offers),
            None => self.viable_offers.clear(),
        }
        if let Some(slot) = self.domains.get_mut(key) {
            *slot = domain;
        }
    }
}
