//! Lookahead over several steps: compares the end states of single moves with those of plans for the whole cluster.
//!
//! Greedily taking the best move ends in a local optimum, often far from the cheapest cluster, and moves some pods repeatedly.
//! The trajectory of such moves is therefore simulated to its end, and compared with the trajectories of plans for all nodes
//! together. A plan is chosen only if its end state is no more expensive; a price per eviction decides between plans.

mod choice;

use model::{
    Snapshot,
    ledger::{Cursor, PlannedRemoval},
};

use self::choice::{Bound, Prices, value};
use super::{
    Command, DisruptionResult, Method, Reason,
    balanced::Totals,
    budgets::Budgets,
    candidates::Candidate,
    consolidation::Move,
    context::{DisruptionContext, Lookahead, SearchOptions},
    methods::Methods,
    rearranging, simulate_apply,
    trajectory::{self, Trajectory},
};

/// Most candidates for lookahead. Above it only the next step is computed: plans and trajectories take a multiple of the time.
const CANDIDATES_MAX: usize = 100;

/// Command and plan that the lookahead selected.
#[derive(Default)]
pub(super) struct Selection {
    /// Command to start now.
    pub(super) command: Option<Command>,
    /// Remaining steps of the plan that the command is part of.
    pub(super) plan: Option<Cursor>,
}

/// Trajectory of a plan, with its first step.
type Planned = (Trajectory, Selection);

/// Returns the command to start now; `next` is the best single move.
pub(super) fn select<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    next: Option<(Move<'a>, Method)>,
) -> Selection {
    let context = methods.now;
    let single_move = next.map(|(step, method)| methods.command(step, method));
    let active = active_plan(context);
    if candidates.len() > CANDIDATES_MAX || single_move.is_none() && active.is_empty() {
        return Selection {
            command: single_move,
            plan: None,
        };
    }
    let options = SearchOptions {
        lookahead: Lookahead::ActivePlan,
        simulated: usize::MAX,
        ..context.options
    };
    let precomputed = context.standing().precomputed();
    let evaluate = |snapshot: &Snapshot| -> DisruptionResult {
        let planning = context.planning.of_another(snapshot);
        super::evaluate_with(&planning, Some(precomputed), snapshot, options)
    };
    let end = |found: &Selection| {
        let (command, plan) = (found.command.as_ref(), found.plan.clone());
        trajectory::follow(context.snapshot, command, plan, evaluate)
    };
    let budgets = methods.budgets(context, Reason::Underutilized);
    let planned = |steps: Vec<Move<'a>>| -> Option<Planned> {
        let found = next_step(methods, steps, totals, &budgets)?;
        Some((end(&found), found))
    };
    let single_moves = Selection {
        command: single_move.clone(),
        plan: None,
    };
    let known = end(&single_moves);
    let kept = planned(rearranging::remaining_steps(context, candidates, active));
    let bound = match &kept {
        Some((trajectory, _)) => Bound::of_active_plan(*trajectory),
        None => Bound::of_single_moves(known),
    };
    // No plan is searched for unless a single move saves something.
    let plans = single_move.as_ref().map(|_| {
        // The least savings that policy Balanced requires shrink as the cluster becomes cheaper.
        let by_then = totals.scaled(known.price, simulate_apply::cost(context.snapshot).0);
        search_plans(context, candidates, &by_then, &budgets, &bound, planned)
    });
    let plans = plans.into_iter().flatten();
    let plans = plans.filter(|(trajectory, _)| bound.admits(*trajectory));
    let best = plans
        .min_by_key(|(trajectory, _)| value(*trajectory))
        .or(kept);
    match best.filter(|(trajectory, _)| bound.prefers(*trajectory, known)) {
        Some((_, found)) => Selection {
            command: found.command.or(single_move),
            ..found
        },
        None => single_moves,
    }
}

/// Returns the next possible step of the plan in the cursor.
pub(super) fn continue_plan<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
) -> Selection {
    let kept = rearranging::remaining_steps(methods.now, candidates, active_plan(methods.now));
    let budgets = methods.budgets(methods.now, Reason::Underutilized);
    next_step(methods, kept, totals, &budgets).unwrap_or_default()
}

/// Remaining steps of the plan in the cursor.
fn active_plan<'s>(context: &DisruptionContext<'s>) -> &'s [PlannedRemoval] {
    match &context.snapshot.cursor {
        Some(Cursor::Plan(plan)) => plan,
        Some(_) | None => &[],
    }
}

/// Returns the first step to carry out and the remaining ones. A plan that budgets block entirely is kept for later.
fn next_step<'a>(
    methods: &Methods<'_, 'a>,
    steps: Vec<Move<'a>>,
    totals: &Totals,
    budgets: &Budgets,
) -> Option<Selection> {
    let steps = rearranging::ordered(steps, totals);
    if steps.is_empty() {
        return None;
    }
    let step = first_step(methods, &steps, totals, budgets);
    let left = rearranging::steps_after(&steps, step.as_ref());
    Some(Selection {
        command: step.map(|step| {
            let method = method(&step);
            methods.command(step, method)
        }),
        plan: (!left.is_empty()).then_some(Cursor::Plan(left)),
    })
}

/// Searches plans for several prices per eviction.
fn search_plans<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    budgets: &Budgets,
    bound: &Bound,
    planned: impl Fn(Vec<Move<'a>>) -> Option<Planned>,
) -> Vec<Planned> {
    let (mut plans, mut prices) = (Vec::new(), Prices::default());
    let each = prices.current();
    rearranging::plan(context, candidates, totals, budgets, each, |steps| {
        let plan = planned(steps);
        let trajectory = plan.as_ref().map(|(trajectory, _)| *trajectory);
        plans.extend(plan);
        prices.next(trajectory.is_some_and(|trajectory| bound.moves_too_many(trajectory)))
    });
    plans
}

fn method(step: &Move<'_>) -> Method {
    match step.candidates.len() {
        1 => Method::SingleNode,
        _ => Method::MultiNode,
    }
}

/// Returns the first step to carry out: all steps without replacements merged into one, or else the first possible step.
fn first_step<'a>(
    methods: &Methods<'_, 'a>,
    steps: &[Move<'a>],
    totals: &Totals,
    budgets: &Budgets,
) -> Option<Move<'a>> {
    let (mut rest, mut free) = (budgets.clone(), Vec::new());
    for step in steps.iter().filter(|step| step.replacements.is_empty()) {
        let mut after = rest.clone();
        if step
            .candidates
            .iter()
            .all(|candidate| after.take(candidate))
        {
            rest = after;
            free.push(step);
        }
    }
    // Each of the merged steps may have counted on the same free capacity.
    let together = rearranging::merged(methods.now, &free);
    let together = together.filter(|step| step.replacements.is_empty());
    let possible = |step: &&Move<'a>| {
        let mut budgets = budgets.clone();
        step.candidates
            .iter()
            .all(|candidate| budgets.take(candidate))
            && totals.approve(step)
    };
    let mut found = together.iter().chain(steps).filter(possible);
    found.find_map(|step| Some(methods.validated(step.clone(), method(step))?.0))
}
