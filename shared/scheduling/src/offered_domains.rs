//! Domains that count for a spread constraint without a node in them: those in which a node for the pod itself could be
//! launched. Zones without an offering for the pod, values without an offering, and NodePools that the pod cannot use or
//! whose limits are exhausted add no domain. The Kubernetes scheduler would never count those domains, and a domain that
//! stays empty blocks all others once they reach the skew.

use model::{NanosPerHour, snapshot::Optimize};

use crate::{
    algebra::{Algebra, SetId, Sym, Undefined},
    bits::BitSet,
    placement_context::PlacementContext,
    shape::VolumeNeeds,
    tolerance::TolerationsId,
    topology::universe,
};

/// Domains that count besides those of existing nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferedDomains {
    /// Every value that a NodePool or instance type names, as upstream.
    Named,
    /// Domains in which a node could be launched for the pod.
    ForThePod,
    /// None: the pods run today, and the domains that the scheduler counts now apply.
    Nothing,
}

impl OfferedDomains {
    pub(crate) fn of(optimize: Optimize) -> Self {
        match optimize {
            Optimize::Upstream => Self::Named,
            Optimize::Cost => Self::ForThePod,
        }
    }

    /// Variant for pods that run today and are moved.
    pub(crate) fn for_moves(self) -> Self {
        match self {
            Self::Named => Self::Named,
            Self::ForThePod | Self::Nothing => Self::Nothing,
        }
    }
}

/// Requirements of a pod that decide which nodes could be launched for it.
pub(crate) struct LaunchRequirements<'w, 'a> {
    /// Node selector combined with each required term.
    pub(crate) alternatives: &'w [SetId],
    pub(crate) tolerations: TolerationsId,
    pub(crate) requests: &'w [i64],
    pub(crate) volumes: &'w VolumeNeeds<'a>,
}

/// Nodes of one NodePool that could be launched for a pod.
struct LaunchableNodes {
    template: usize,
    /// Requirements of the nodes with the pod, one set per alternative of the pod.
    sets: Vec<SetId>,
    large_enough: BitSet,
}

impl PlacementContext<'_> {
    /// Domains of `key` in which a node could be launched for the pod, sorted by text.
    pub(crate) fn domains_on_offer(
        &mut self,
        key: Sym,
        wanted: &LaunchRequirements<'_, '_>,
    ) -> Vec<Sym> {
        let mut found = Vec::new();
        for nodes in self.launchable_nodes(wanted) {
            self.add_domains(key, &nodes, &mut found);
        }
        let algebra = &self.algebra;
        found.sort_by(|a, b| algebra.text(*a).cmp(algebra.text(*b)));
        found.dedup();
        found
    }

    /// At most `max` of `domains`, those in which a node for the pod is cheapest, sorted by text.
    pub(crate) fn cheapest_domains(
        &mut self,
        key: Sym,
        wanted: &LaunchRequirements<'_, '_>,
        domains: Vec<Sym>,
        max: usize,
    ) -> Vec<Sym> {
        if domains.len() <= max {
            return domains;
        }
        let launchable = self.launchable_nodes(wanted);
        let mut by_price: Vec<(NanosPerHour, Sym)> = domains
            .into_iter()
            .map(|domain| (self.cheapest_in(key, domain, &launchable), domain))
            .collect();
        // Stable: domains of one price stay sorted by text.
        by_price.sort_by_key(|(price, _)| *price);
        by_price.truncate(max);
        let mut cheapest: Vec<Sym> = by_price.into_iter().map(|(_, domain)| domain).collect();
        let algebra = &self.algebra;
        cheapest.sort_by(|a, b| algebra.text(*a).cmp(algebra.text(*b)));
        cheapest
    }

    /// Price of the cheapest node for the pod in a domain.
    fn cheapest_in(
        &mut self,
        key: Sym,
        domain: Sym,
        launchable: &[LaunchableNodes],
    ) -> NanosPerHour {
        let mut cheapest = NanosPerHour(i64::MAX);
        for nodes in launchable {
            for set in &nodes.sets {
                if let Some(set) = narrowed_to(domain, key, *set, &mut self.algebra) {
                    let price = self.cheapest(nodes.template, set, &nodes.large_enough);
                    cheapest = cheapest.min(price);
                }
            }
        }
        cheapest
    }

    fn launchable_nodes(&mut self, wanted: &LaunchRequirements<'_, '_>) -> Vec<LaunchableNodes> {
        let templates = 0..self.templates.len();
        templates
            .filter_map(|template| {
                let sets = self.joint_sets(template, wanted);
                if sets.is_empty() {
                    return None;
                }
                Some(LaunchableNodes {
                    template,
                    sets,
                    large_enough: self.large_enough(template, wanted.requests)?,
                })
            })
            .collect()
    }

    /// Requirements of a NodePool's nodes with the pod, one set per alternative of the pod.
    fn joint_sets(&mut self, template: usize, wanted: &LaunchRequirements<'_, '_>) -> Vec<SetId> {
        let Some(template) = self.templates.get(template) else {
            return Vec::new();
        };
        if !self
            .tolerance
            .tolerates(wanted.tolerations, template.taints)
        {
            return Vec::new();
        }
        let (set, algebra) = (template.set, &mut self.algebra);
        let mut sets = Vec::new();
        for alternative in wanted.alternatives {
            let alternative = algebra.without(*alternative, &[self.hostname]);
            let Some(set) = algebra.narrow(set, alternative, Undefined::WellKnown) else {
                continue;
            };
            if wanted.volumes.alternatives.is_empty() {
                sets.push(set);
            }
            let volumes = wanted.volumes.alternatives.iter();
            sets.extend(volumes.filter_map(|volumes| {
                algebra.narrow(set, volumes.on_claims, Undefined::WellKnown)
            }));
        }
        sets
    }

    fn add_domains(&mut self, key: Sym, nodes: &LaunchableNodes, found: &mut Vec<Sym>) {
        let Some(template) = self.templates.get(nodes.template) else {
            return;
        };
        let Some(catalog) = self.catalogs.get_mut(template.catalog) else {
            return;
        };
        for set in &nodes.sets {
            for value in universe::values(key, *set, catalog, &mut self.algebra) {
                if found.contains(&value) {
                    continue;
                }
                let joint = narrowed_to(value, key, *set, &mut self.algebra);
                let is_on_offer = joint.is_some_and(|joint| {
                    let matching = catalog.matching(joint, &mut self.algebra);
                    catalog.memoized(matching).intersects(&nodes.large_enough)
                });
                if is_on_offer {
                    found.push(value);
                }
            }
        }
    }

    /// Instance types of a NodePool that are large enough for the pod and within the NodePool's limits.
    fn large_enough(&self, at: usize, requests: &[i64]) -> Option<BitSet> {
        let template = self.templates.get(at)?;
        let mut large_enough = template.base.clone();
        template.room.keep_fitting(requests, &mut large_enough);
        // Limits as of the start of the solve: nodes planned during the solve must not change the domains for later pods of the
        // same constraint.
        if let Some(pool) = self.input.pools.get(at) {
            let limits = template.limits.reset(&pool.remaining);
            limits.keep_within(&mut large_enough);
        }
        Some(large_enough)
    }
}

/// `set` with the requirement `key In [domain]`, if it allows the domain.
fn narrowed_to(domain: Sym, key: Sym, set: SetId, algebra: &mut Algebra) -> Option<SetId> {
    let only = algebra.one_of(vec![domain]);
    let only = algebra.single(key, only);
    algebra.narrow(set, only, Undefined::WellKnown)
}
