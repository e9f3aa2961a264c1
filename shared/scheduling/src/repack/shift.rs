//! Moves single pods off nodes that cannot be packed again because other pods on them may not move. A pod moves if its node
//! becomes cheaper by more than the target becomes more expensive.

use std::{collections::BTreeSet, rc::Rc};

use crate::{
    amounts,
    bits::BitSet,
    claim::{Claim, ClaimFit, ClaimStage},
    placement_context::PlacementContext,
    shape::{ShapeCore, ShapeId},
    solve::Solver,
    topology::{ApplicableConstraint, HostId},
};

/// Upper bound on the checks of a pod against a node, which bounds the duration of a turn.
const CHECKS_MAX: usize = 20_000;

pub(crate) fn shift(solver: &mut Solver<'_>, staying: &BTreeSet<HostId>) {
    let mut checks = 0;
    for from in 0..solver.claims.len() {
        if !solver
            .claims
            .get(from)
            .is_some_and(|claim| staying.contains(&claim.host))
        {
            continue;
        }
        while checks < CHECKS_MAX
            && let Some(step) = best_move(solver, from, &mut checks)
        {
            step.take(solver, from);
        }
    }
}

/// Move of one pod to another node.
struct PodMove<'a> {
    pod: usize,
    core: Rc<ShapeCore<'a>>,
    /// Instance types of the pod's node after the move.
    lighter: BitSet,
    to: usize,
    fit: ClaimFit<'a>,
}

impl<'a> PodMove<'a> {
    fn take(self, solver: &mut Solver<'a>, from: usize) {
        if let Some(claim) = solver.claims.get_mut(from) {
            claim.release(self.pod, &self.core, self.lighter, &solver.context);
        }
        if let Some(claim) = solver.claims.get_mut(self.to) {
            claim.commit(self.pod, &self.core, self.fit, &mut solver.context);
        }
    }
}

fn best_move<'a>(solver: &mut Solver<'a>, from: usize, checks: &mut usize) -> Option<PodMove<'a>> {
    let mut best: Option<(i64, PodMove<'a>)> = None;
    for (shape, pod) in one_pod_per_shape(solver, from) {
        let Some((core, constraints)) = free(solver, shape) else {
            continue;
        };
        let Some((lighter, saving)) = without(solver, from, &core) else {
            continue;
        };
        let known = best.as_ref().map_or(0, |(gain, _)| *gain);
        if saving <= known {
            continue;
        }
        if let Some((to, fit, gain)) =
            cheapest_place(solver, from, &core, &constraints, saving, known, checks)
        {
            let step = PodMove {
                pod,
                core,
                lighter,
                to,
                fit,
            };
            best = Some((gain, step));
        }
    }
    best.map(|(_, step)| step)
}

/// One pod per shape of a claim with several pods.
fn one_pod_per_shape(solver: &Solver<'_>, at: usize) -> Vec<(ShapeId, usize)> {
    let pods = solver.claims.get(at).map_or(&[][..], |claim| &claim.pods);
    let mut seen = BTreeSet::new();
    let shapes = pods
        .iter()
        .filter(|_| pods.len() > 1)
        .filter_map(|pod| Some((*solver.placed_as.get(*pod)?, *pod)));
    shapes.filter(|(shape, _)| seen.insert(*shape)).collect()
}

/// Core and constraints of a pod without volumes, ports and device claims that no group counts, so that no other pod's
/// place depends on it.
fn free<'a>(
    solver: &mut Solver<'a>,
    shape: ShapeId,
) -> Option<(Rc<ShapeCore<'a>>, Vec<ApplicableConstraint>)> {
    let (core, _) = solver.shapes.get(shape.0 as usize)?;
    let core = Rc::clone(core);
    let topology = &mut solver.context.topology;
    let is_free = core.ports().is_empty()
        && core.claims.is_empty()
        && core.volumes.alternatives.is_empty()
        && topology.counting(&core.member).is_empty();
    is_free.then(|| {
        let constraints = topology.applicable_constraints(&core.member);
        (core, constraints)
    })
}

/// Instance types of a claim without the pod, and the saving.
fn without<'a>(solver: &mut Solver<'a>, at: usize, core: &ShapeCore<'a>) -> Option<(BitSet, i64)> {
    let context = &mut solver.context;
    let claim = solver.claims.get(at)?;
    let template = context.templates.get(claim.template)?;
    // Types excluded by ports, devices or limits cannot be recomputed from the template.
    if !claim.ports.is_empty()
        || !claim.devices.is_empty()
        || template.limits.iter().next().is_some()
    {
        return None;
    }
    let mut total = claim.requests.clone();
    amounts::subtract(&mut total, &core.requests);
    let mut rows = template.base.clone();
    template.room.keep_fitting(&total, &mut rows);
    context.keep_matching(claim.template, claim.set, &mut rows);
    let saving = price(claim, &claim.rows, context) - price(claim, &rows, context);
    Some((rows, saving))
}

/// Target whose increase in price leaves a gain above `known`: the claim's index, its fit, and the gain.
fn cheapest_place<'a>(
    solver: &mut Solver<'a>,
    from: usize,
    core: &ShapeCore<'a>,
    constraints: &[ApplicableConstraint],
    saving: i64,
    mut known: i64,
    checks: &mut usize,
) -> Option<(usize, ClaimFit<'a>, i64)> {
    let template = solver.claims.get(from)?.template;
    let mut best = None;
    for (to, claim) in solver.claims.iter().enumerate() {
        if to == from || claim.template != template || !claim.may_have_room(&core.requests) {
            continue;
        }
        if *checks == CHECKS_MAX {
            break;
        }
        *checks += 1;
        let context = &mut solver.context;
        let Ok(fit) = claim.check(core, constraints, ClaimStage::InFlight, context) else {
            continue;
        };
        let after = context.cheapest(claim.template, fit.set, &fit.rows).0;
        let gain = saving - (after - price(claim, &claim.rows, context));
        if gain > known {
            known = gain;
            best = Some((to, fit, gain));
        }
    }
    best
}

fn price<'a>(claim: &Claim<'a>, rows: &BitSet, context: &mut PlacementContext<'a>) -> i64 {
    context.cheapest(claim.template, claim.set, rows).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BaselineCluster,
        test_cluster::{TestCluster, instance_type, pods},
    };

    /// Leaving would remove the last pod of a node that exists for this pod alone.
    #[test]
    fn only_pod_of_a_node_is_not_moved() {
        let leaving = |web, db| {
            let all = [pods("web", web, 100, 1), pods("db", db, 200, 1)].concat();
            let waiting = all.len();
            TestCluster::new(vec![instance_type("large", 8, 32, 40)], all).with_input(|input| {
                let solver = BaselineCluster::new(input.clone(), waiting, None).solver();
                one_pod_per_shape(&solver, 0).len()
            })
        };
        assert_eq!(
            [(1, 0), (2, 0), (2, 2)].map(|(web, db)| leaving(web, db)),
            [0, 1, 2]
        );
    }
}
