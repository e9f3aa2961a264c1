//! Order in which pods are placed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use model::{
    pod::Pod,
    resources::{CPU, MEMORY},
};

use super::Solver;
use crate::{algebra::Sym, shape::ShapeId};

/// Sort key: largest first, then oldest.
pub(super) fn rank<'a>(pod: &'a Pod) -> impl Ord + use<'a> {
    (
        Reverse(pod.requests.get(CPU)),
        Reverse(pod.requests.get(MEMORY)),
        pod.created_at,
        &pod.uid,
        &pod.key,
    )
}

impl Solver<'_> {
    /// Number of open domains per shape, for shapes that a domain constraint concerns and that have fewer open domains than
    /// others.
    pub(super) fn confined_shapes(
        &mut self,
        shapes: impl Iterator<Item = ShapeId>,
    ) -> BTreeMap<ShapeId, usize> {
        let mut open: Vec<(Sym, ShapeId, usize)> = Vec::new();
        for shape in shapes {
            for key in self.ruled_by(shape) {
                open.push((key, shape, self.domains_open_to(shape, key).len()));
            }
        }
        let mut most: BTreeMap<Sym, usize> = BTreeMap::new();
        for (key, _, domains) in &open {
            let known = most.entry(*key).or_default();
            *known = (*known).max(*domains);
        }
        let mut confined: BTreeMap<ShapeId, usize> = BTreeMap::new();
        for (key, shape, domains) in open {
            if most.get(&key).is_some_and(|most| domains < *most) {
                let known = confined.entry(shape).or_insert(domains);
                *known = domains.min(*known);
            }
        }
        confined
    }

    /// Topology keys, without the hostname, of the groups that constrain or count pods of a shape.
    fn ruled_by(&mut self, shape: ShapeId) -> BTreeSet<Sym> {
        let Some(core) = self.core_of(shape) else {
            return BTreeSet::new();
        };
        let topology = &mut self.context.topology;
        let constraints = topology.applicable_constraints(&core.member);
        let mut groups = topology.counting(&core.member);
        groups.extend(constraints.iter().map(|constraint| constraint.group));
        let groups = groups.iter().filter_map(|id| topology.group(*id));
        let by_domain = groups.filter(|group| !group.by_host);
        by_domain.map(|group| group.key).collect()
    }
}
