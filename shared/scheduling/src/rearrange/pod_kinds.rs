//! Kinds of pods, with the nodes and NodePools that each of them can use.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    cluster_model::PodKind,
    offers::LaunchOptions,
    rules::{DomainRule, HostRule, TopologyCounts},
};
use crate::{
    algebra::SetId,
    bits::BitSet,
    claim::ClaimStage,
    shape::{ShapeCore, ShapeId},
    solve::Solver,
};

/// Kinds found so far.
#[derive(Default)]
pub(super) struct PodKinds<'a> {
    known: BTreeMap<ShapeId, Option<usize>>,
    pub(super) found: Vec<FoundKind<'a>>,
    /// Per NodePool, the distinct requirement sets that its nodes get from pods.
    pub(super) sets: Vec<Vec<SetId>>,
}

/// Kind of pods before the launch options are known.
pub(super) struct FoundKind<'a> {
    core: Rc<ShapeCore<'a>>,
    nodes: Vec<usize>,
    /// Per NodePool that can launch a node for the pod, the requirements of that node.
    sets: Vec<(usize, SetId)>,
    hosts: Vec<HostRule>,
    domains: Vec<DomainRule>,
}

impl<'a> PodKinds<'a> {
    /// Index of the pod's kind; `None` for pods that are not moved.
    pub(super) fn kind_of(
        &mut self,
        pod: usize,
        solver: &mut Solver<'a>,
        counted: &mut TopologyCounts,
    ) -> Option<usize> {
        let mut shape = solver.shape_of(pod);
        if let Some(known) = self.known.get(&shape) {
            return *known;
        }
        let original = shape;
        // Relaxes preferences that no node and no NodePool can meet.
        let found = loop {
            let (core, _) = solver.shapes.get(shape.0 as usize)?;
            let core = Rc::clone(core);
            let found = self.places(core, solver, counted);
            match found {
                Some(found) if found.nodes.is_empty() && found.sets.is_empty() => {}
                found => break found,
            }
            match solver.relaxed(shape) {
                Some((next, _)) => shape = next,
                None => break None,
            }
        };
        let kind = found.map(|found| {
            self.found.push(found);
            self.found.len() - 1
        });
        self.known.insert(original, kind);
        kind
    }

    fn places(
        &mut self,
        core: Rc<ShapeCore<'a>>,
        solver: &mut Solver<'a>,
        counted: &mut TopologyCounts,
    ) -> Option<FoundKind<'a>> {
        if core.volumes.lost || !core.claims.is_empty() {
            return None;
        }
        let (hosts, domains) = counted.rules(&core, &mut solver.context)?;
        let context = &mut solver.context;
        let nodes = solver.nodes.iter();
        let nodes =
            nodes.filter(|node| !node.cooling_down && node.check(&core, &[], context).is_ok());
        let nodes: Vec<usize> = nodes.map(|node| node.index).collect();
        let mut sets = Vec::new();
        let mut weight = None;
        for pool in 0..solver.context.templates.len() {
            let own = solver.context.input.pools.get(pool).map(|pool| pool.weight);
            // NodePools of a lower weight serve only pods that no NodePool before them can serve.
            if weight.is_some() && own != weight {
                break;
            }
            let Ok(claim) = solver.empty_claim(pool) else {
                continue;
            };
            if let Ok(fit) = claim.check(&core, &[], ClaimStage::New, &mut solver.context) {
                weight = own;
                sets.push((pool, fit.set));
                self.remember(pool, fit.set);
            }
        }
        Some(FoundKind {
            core,
            nodes,
            sets,
            hosts,
            domains,
        })
    }

    fn remember(&mut self, pool: usize, set: SetId) {
        if self.sets.len() <= pool {
            self.sets.resize_with(pool + 1, Vec::new);
        }
        if let Some(sets) = self.sets.get_mut(pool)
            && !sets.contains(&set)
        {
            sets.push(set);
        }
    }
}

impl FoundKind<'_> {
    pub(super) fn finished(&self, offers: &LaunchOptions) -> PodKind {
        let mut open = BitSet::none(offers.all.len());
        for (pool, set) in &self.sets {
            open.or(&offers.open_to(*pool, *set));
        }
        PodKind {
            requests: self.core.requests.clone(),
            nodes: self.nodes.clone(),
            offers: open,
            hosts: self.hosts.clone(),
            domains: self.domains.clone(),
            size: 0,
        }
    }
}
