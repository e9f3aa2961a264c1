//! Which domains a spread constraint is about although no node is in them: those that a node would add which could be bought
//! for the pod itself. A zone without an offering for it, a value that no offering has, and a NodePool that the pod cannot use or
//! whose limits are used up add none: Kubernetes' scheduler would never count them, and a domain that stays empty forbids all others
//! to fill.

use model::snapshot::Optimize;

use crate::{
    algebra::{SetId, Sym, Undefined},
    shape::VolumeNeeds,
    tolerance::TolerationsId,
    topology::universe,
    world::World,
};

/// Which domains count besides those of nodes that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnOffer {
    /// Every value that some NodePool or instance type names, as upstream.
    Named,
    /// Those in which a node could be bought for the pod.
    ForThePod,
    /// None: the pods run today, and what the scheduler counts now is what they are held to.
    Nothing,
}

impl OnOffer {
    pub(crate) fn of(optimize: Optimize) -> Self {
        match optimize {
            Optimize::Upstream => Self::Named,
            Optimize::Cost => Self::ForThePod,
        }
    }

    /// The same where pods that run today are moved.
    pub(crate) fn for_moves(self) -> Self {
        match self {
            Self::Named => Self::Named,
            Self::ForThePod | Self::Nothing => Self::Nothing,
        }
    }
}

/// What a pod asks of a node, as far as it decides which one could be bought.
pub(crate) struct Wanted<'w, 'a> {
    /// Node selector with each required term.
    pub(crate) alternatives: &'w [SetId],
    pub(crate) tolerations: TolerationsId,
    pub(crate) requests: &'w [i64],
    pub(crate) volumes: &'w VolumeNeeds<'a>,
}

impl World<'_> {
    /// The domains of `key` in which a node could be bought for the pod, in the order of their texts.
    pub(crate) fn domains_on_offer(&mut self, key: Sym, wanted: &Wanted<'_, '_>) -> Vec<Sym> {
        let mut found = Vec::new();
        for template in 0..self.templates.len() {
            for set in self.joint_sets(template, wanted) {
                self.add_domains(key, template, set, wanted.requests, &mut found);
            }
        }
        let algebra = &self.algebra;
        found.sort_by(|a, b| algebra.text(*a).cmp(algebra.text(*b)));
        found.dedup();
        found
    }

    /// The requirements that a NodePool's nodes would have with the pod there, one set for each way to meet the pod's.
    fn joint_sets(&mut self, template: usize, wanted: &Wanted<'_, '_>) -> Vec<SetId> {
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

    fn add_domains(
        &mut self,
        key: Sym,
        at: usize,
        set: SetId,
        requests: &[i64],
        found: &mut Vec<Sym>,
    ) {
        let Some(template) = self.templates.get(at) else {
            return;
        };
        let Some(catalog) = self.catalogs.get_mut(template.catalog) else {
            return;
        };
        let mut large_enough = template.base.clone();
        template.room.keep_fitting(requests, &mut large_enough);
        // Purchases of this turn do not decide: the domains would be others for pods of the same constraint that come later.
        if let Some(pool) = self.input.pools.get(at) {
            let limits = template.limits.anew(&pool.remaining);
            limits.keep_within(&mut large_enough);
        }
        for value in universe::values(key, set, catalog, &mut self.algebra) {
            if found.contains(&value) {
                continue;
            }
            let only = self.algebra.one_of(vec![value]);
            let only = self.algebra.single(key, only);
            let joint = self.algebra.narrow(set, only, Undefined::WellKnown);
            let is_on_offer = joint.is_some_and(|joint| {
                let matching = catalog.matching(joint, &mut self.algebra);
                catalog.remembered(matching).intersects(&large_enough)
            });
            if is_on_offer {
                found.push(value);
            }
        }
    }
}
