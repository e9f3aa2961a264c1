//! Turns a packing plan into claims, through the same checks as every other placement.

use std::rc::Rc;

use crate::{
    claim::{Claim, ClaimStage},
    placement_context::PlacementContext,
    repack::{
        items::{Item, MovablePods},
        nodes::Plan,
    },
    shape::ShapeCore,
    solve::Solver,
};

/// Returns what the movable claims count against limits. The limits stay released if the claims are kept: reasons of
/// unplaced pods have been collected before, and no later step reads this NodePool's limits.
pub(crate) fn free_limits(solver: &mut Solver<'_>, template: usize, movable: &MovablePods<'_>) {
    let PlacementContext {
        input, templates, ..
    } = &mut solver.context;
    let (Some(pool), Some(node_template)) =
        (input.pools.get(template), templates.get_mut(template))
    else {
        return;
    };
    node_template.limits = node_template.limits.reset(&pool.remaining);
    let claims = solver.claims.iter().enumerate();
    let staying = claims.filter(|(at, claim)| {
        claim.template == template && movable.claims.binary_search(at).is_err()
    });
    for (_, claim) in staying {
        node_template.limits.recount(None, claim.counted.as_ref());
        node_template.limits.spend(&claim.rows);
    }
}

/// Replaces the movable claims by `rebuilt`.
pub(crate) fn swap<'a>(
    solver: &mut Solver<'a>,
    movable: &MovablePods<'a>,
    rebuilt: Vec<Claim<'a>>,
) {
    let mut at = 0;
    solver.claims.retain(|_| {
        at += 1;
        movable.claims.binary_search(&(at - 1)).is_err()
    });
    solver.claims.extend(rebuilt);
}

/// Claims of a plan; `None` if a pod finds no place.
pub(crate) fn claims<'a>(
    solver: &mut Solver<'a>,
    template: usize,
    movable: &MovablePods<'a>,
    plan: &Plan,
) -> Option<Vec<Claim<'a>>> {
    let mut rebuilt: Vec<Claim<'a>> = Vec::new();
    let mut left: Vec<(&Item<'a>, usize)> = Vec::new();
    let mut pods: Vec<&[usize]> = movable
        .items
        .iter()
        .map(|item| item.pods.as_slice())
        .collect();
    for (node, times) in &plan.nodes {
        for _ in 0..*times {
            let mut claim = empty(solver, template)?;
            for (at, number) in &node.items {
                let (item, waiting) = (movable.items.get(*at)?, pods.get_mut(*at)?);
                let (now, later) = waiting.split_at_checked(usize::try_from(*number).ok()?)?;
                *waiting = later;
                let refused = join(&mut claim, item, now, &mut solver.context);
                left.extend(refused.iter().map(|pod| (item, *pod)));
            }
            if !claim.pods.is_empty() {
                close(solver, template, &claim);
                rebuilt.push(claim);
            }
        }
    }
    for (item, pod) in left {
        let context = &mut solver.context;
        let placed = rebuilt
            .iter_mut()
            .any(|claim| join(claim, item, &[pod], context).is_empty());
        if !placed {
            let mut claim = empty(solver, template)?;
            if !join(&mut claim, item, &[pod], &mut solver.context).is_empty() {
                return None;
            }
            close(solver, template, &claim);
            rebuilt.push(claim);
        }
    }
    Some(rebuilt)
}

fn empty<'a>(solver: &mut Solver<'a>, template: usize) -> Option<Claim<'a>> {
    let claim = solver.empty_claim(template).ok()?;
    solver.next_host += 1;
    Some(claim)
}

/// Counts a claim against limits after its pods are known.
fn close(solver: &mut Solver<'_>, template: usize, claim: &Claim<'_>) {
    if let Some(node_template) = solver.context.templates.get_mut(template) {
        node_template.limits.spend(&claim.rows);
    }
}

/// Adds pods of one item to a claim, all at once if no host rule counts them. Returns the pods that the claim refuses.
fn join<'p, 'a>(
    claim: &mut Claim<'a>,
    item: &Item<'a>,
    pods: &'p [usize],
    context: &mut PlacementContext<'a>,
) -> &'p [usize] {
    if item.rules.is_empty() {
        let all = times(&item.core, pods.len());
        return if add(claim, &all, item, pods, context) {
            &[]
        } else {
            pods
        };
    }
    for (at, pod) in pods.iter().enumerate() {
        if !add(claim, &item.core, item, std::slice::from_ref(pod), context) {
            return pods.get(at..).unwrap_or_default();
        }
    }
    &[]
}

fn add<'a>(
    claim: &mut Claim<'a>,
    core: &Rc<ShapeCore<'a>>,
    item: &Item<'a>,
    pods: &[usize],
    context: &mut PlacementContext<'a>,
) -> bool {
    let stage = if claim.pods.is_empty() {
        ClaimStage::New
    } else {
        ClaimStage::InFlight
    };
    let (Ok(fit), [first, others @ ..]) =
        (claim.check(core, &item.constraints, stage, context), pods)
    else {
        return false;
    };
    claim.commit(*first, core, fit, context);
    claim.pods.extend_from_slice(others);
    true
}

/// Core with the summed requests of several equal pods.
fn times<'a>(core: &Rc<ShapeCore<'a>>, pods: usize) -> Rc<ShapeCore<'a>> {
    let number = i64::try_from(pods).unwrap_or(i64::MAX);
    if number == 1 {
        return Rc::clone(core);
    }
    let requests = core
        .requests
        .iter()
        .map(|amount| amount.saturating_mul(number));
    Rc::new(core.with_requests(requests.collect()))
}
