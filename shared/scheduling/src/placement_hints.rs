//! Placement hints: each hinted pod is placed at its target if all checks pass, before the search places the other pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use crate::{
    claim::ClaimStage,
    node::Node,
    shape::ShapeId,
    solve::Solver,
    spec::{RelaxationStep, Spec},
};

/// Target of a placement hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementTarget {
    /// Existing node, as an index into the input's nodes.
    Node(usize),
    /// New node of a NodePool, by index. Pods with the same number share the node.
    New { pool: usize, number: usize },
}

impl<'a> Solver<'a> {
    /// Places pods at their targets, in this order. Returns the pods that were placed.
    pub(crate) fn place_hinted(&mut self, wanted: &[(usize, PlacementTarget)]) -> BTreeSet<usize> {
        let mut claims_of: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut placed = BTreeSet::new();
        for (pod, destination) in wanted {
            let shape = self.shape_of(*pod);
            let done = match *destination {
                PlacementTarget::Node(index) => self.join_node(*pod, shape, index),
                PlacementTarget::New { pool, number } => match claims_of.get(&(pool, number)) {
                    Some(claim) => self.join_claim(*pod, shape, *claim),
                    None => {
                        let begun = self.begin_claim(*pod, shape, pool);
                        if begun.is_some() {
                            claims_of.insert((pool, number), self.claims.len() - 1);
                        }
                        begun
                    }
                },
            };
            if done.is_some() {
                self.note_placed(*pod, shape);
                placed.insert(*pod);
            }
        }
        placed
    }

    /// Summed weight of the preferences that a node does not meet for a pod, each judged by itself. Ports, volumes and
    /// capacity that the pod holds there do not count against it.
    pub(crate) fn unmet(&mut self, pod: usize, node: usize) -> Option<u32> {
        let mut node = self.nodes.iter().find(|known| known.index == node)?.clone();
        (node.ports, node.attached, node.cooling_down) = (Vec::new(), None, false);
        let mut shape = self.shape_of(pod);
        // Selects the first required term that the node meets, if it meets any.
        loop {
            let (core, _) = self.shapes.get(shape.0 as usize)?;
            let (none, preferences) = core.spec.one_by_one(self.may_tolerate);
            let is_met = self.meets(&mut node, shape, none);
            let next = (!is_met).then(|| self.relaxed(shape)).flatten();
            match next {
                Some((next, RelaxationStep::RequiredTerm)) => shape = next,
                Some(_) | None => {
                    let mut unmet = 0_u32;
                    for (weight, preference) in preferences {
                        let is_met = self.meets(&mut node, shape, preference);
                        unmet = unmet.saturating_add(if is_met { 0 } else { weight });
                    }
                    return Some(unmet);
                }
            }
        }
    }

    /// Whether the node takes a pod of this shape with the constraints of `spec` alone.
    fn meets(&mut self, node: &mut Node<'a>, shape: ShapeId, spec: Spec<'a>) -> bool {
        let Some(shape) = self.shape_asking(shape, spec) else {
            return false;
        };
        let Some((core, _)) = self.shapes.get(shape.0 as usize) else {
            return false;
        };
        let core = core.without_claims();
        node.remaining = Some(core.requests.clone());
        let constraints = self.context.topology.applicable_constraints(&core.member);
        node.check(&core, &constraints, &mut self.context).is_ok()
    }

    fn join_node(&mut self, pod: usize, shape: ShapeId, index: usize) -> Option<()> {
        let (core, _) = self.shapes.get(shape.0 as usize)?;
        let core = Rc::clone(core);
        let constraints = self.context.topology.applicable_constraints(&core.member);
        let at = self.nodes.iter().position(|node| node.index == index)?;
        let node = self.nodes.get_mut(at)?;
        node.check(&core, &constraints, &mut self.context).ok()?;
        node.commit(pod, &core, &mut self.context);
        self.measure_block_of(at);
        Some(())
    }

    fn join_claim(&mut self, pod: usize, shape: ShapeId, at: usize) -> Option<()> {
        let (core, _) = self.shapes.get(shape.0 as usize)?;
        let core = Rc::clone(core);
        let constraints = self.context.topology.applicable_constraints(&core.member);
        let claim = self.claims.get_mut(at)?;
        let fit = claim.check(&core, &constraints, ClaimStage::InFlight, &mut self.context);
        claim.commit(pod, &core, fit.ok()?, &mut self.context);
        Some(())
    }

    fn begin_claim(&mut self, pod: usize, shape: ShapeId, pool: usize) -> Option<()> {
        let (core, _) = self.shapes.get(shape.0 as usize)?;
        let core = Rc::clone(core);
        let constraints = self.context.topology.applicable_constraints(&core.member);
        self.new_claim(pod, pool, &core, &constraints).ok()
    }
}
