//! The longer view: where a step leads, and whether a plan for all nodes together leads to a cheaper end.
//!
//! Taking the best step each time ends where no single step helps, often far from the cheapest cluster, and moves some pods
//! again and again. So the course of such steps is followed to its end in thought, and compared with those of plans for the
//! cluster as a whole. A plan is taken up only if it ends no dearer; what an eviction has to be worth decides between them.

use model::{
    NanosPerHour, Snapshot,
    ledger::{Cursor, Together},
};

use super::{
    Command, Method, Pass, Reason,
    balanced::Totals,
    budgets::Budgets,
    candidates::Candidate,
    consolidation::Move,
    course::{self, Course},
    foresight,
    methods::Methods,
    rearranging,
    scene::{Scene, Sight, Stance},
};

/// What an eviction is taken to be worth while plans are made is between these, in nano-dollars per hour.
const PER_EVICTION: [i64; 2] = [2_000_000, 60_000_000];
const PLANS: usize = 6;
/// Of more nodes only the next step is looked at: plans and courses take a multiple of the time.
const CANDIDATES_MAX: usize = 100;
/// What an eviction counts for when courses are compared, in nano-dollars per hour.
const EVICTION: i64 = 10_000_000;
/// A plan may need more evictions than plain steps do by this part of them.
const MORE_EVICTIONS: usize = 18;

/// What a longer view comes to.
#[derive(Default)]
pub(super) struct Found {
    /// What to do now.
    pub(super) command: Option<Command>,
    /// What is left of the plan that it is part of.
    pub(super) plan: Option<Cursor>,
}

/// Where a plan leads, and how it begins.
type Planned = (Course, Found);

/// What to do now, where `next` is the next step by itself.
pub(super) fn find<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    next: Option<(Move<'a>, Method)>,
) -> Found {
    let scene = methods.now;
    let plain = next.map(|(step, method)| methods.command(step, method));
    let begun = begun(scene);
    if candidates.len() > CANDIDATES_MAX || plain.is_none() && begun.is_empty() {
        return Found {
            command: plain,
            plan: None,
        };
    }
    let stance = Stance {
        sight: Sight::Begun,
        simulated: usize::MAX,
        ..scene.stance
    };
    let groundwork = scene.standing().groundwork();
    let look = |snapshot: &Snapshot| -> Pass {
        let ground = scene.ground.of_another(snapshot);
        super::first_on(&ground, Some(groundwork), snapshot, stance)
    };
    let end = |found: &Found| {
        let (command, plan) = (found.command.as_ref(), found.plan.clone());
        course::follow(scene.snapshot, command, plan, look)
    };
    let budgets = methods.budgets(scene, Reason::Underutilized);
    let planned = |steps: Vec<Move<'a>>| -> Option<Planned> {
        let found = next_of(methods, steps, totals, &budgets)?;
        Some((end(&found), found))
    };
    let plainly = Found {
        command: plain.clone(),
        plan: None,
    };
    let known = end(&plainly);
    let kept = planned(rearranging::kept(scene, candidates, begun));
    // What was begun is kept to: where every look compared with what plain steps would do from there, each could move some more.
    let (bound, moved_max) = match &kept {
        Some((course, _)) => (*course, course.moved),
        None => (known, known.moved + known.moved / MORE_EVICTIONS),
    };
    // Nothing is searched for where no plain step saves anything.
    let plans = plain.as_ref().map(|_| {
        // What the policy Balanced asks for becomes less as the cluster becomes cheaper.
        let by_then = totals.scaled(known.cost, foresight::cost(scene.snapshot).0);
        search(scene, candidates, &by_then, &budgets, moved_max, planned)
    });
    let plans = plans.unwrap_or_default();
    let better = |course: Course| {
        course.cost <= bound.cost && course.moved <= moved_max && value(course) < value(bound)
    };
    let plans = plans.into_iter().filter(|(course, _)| better(*course));
    let best = plans.min_by_key(|(course, _)| value(*course)).or(kept);
    match best.filter(|(course, _)| !better(known) || value(*course) < value(known)) {
        Some((_, found)) => Found {
            command: found.command.or(plain),
            ..found
        },
        None => plainly,
    }
}

/// The next step of a plan that is begun, if any is possible now.
pub(super) fn go_on<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
) -> Found {
    let kept = rearranging::kept(methods.now, candidates, begun(methods.now));
    let budgets = methods.budgets(methods.now, Reason::Underutilized);
    next_of(methods, kept, totals, &budgets).unwrap_or_default()
}

/// What is left of a plan that was begun.
fn begun<'s>(scene: &Scene<'s>) -> &'s [Together] {
    match &scene.snapshot.cursor {
        Some(Cursor::Plan(plan)) => plan,
        Some(_) | None => &[],
    }
}

/// What is done first of a plan, and what is left of it then. Where budgets allow none of it now, it is kept for later.
fn next_of<'a>(
    methods: &Methods<'_, 'a>,
    steps: Vec<Move<'a>>,
    totals: &Totals,
    budgets: &Budgets,
) -> Option<Found> {
    let steps = rearranging::in_order(steps, totals);
    if steps.is_empty() {
        return None;
    }
    let step = first(methods, &steps, totals, budgets);
    let left = rearranging::left(&steps, step.as_ref());
    Some(Found {
        command: step.map(|step| {
            let method = method(&step);
            methods.command(step, method)
        }),
        plan: (!left.is_empty()).then_some(Cursor::Plan(left)),
    })
}

/// Makes plans for prices of an eviction that approach the least that leads to no more than so many evictions.
fn search<'a>(
    scene: &Scene<'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    budgets: &Budgets,
    moved_max: usize,
    planned: impl Fn(Vec<Move<'a>>) -> Option<Planned>,
) -> Vec<Planned> {
    let [mut least, mut most] = PER_EVICTION;
    let (mut plans, mut tried) = (Vec::new(), 0);
    let mut each = NanosPerHour((least * most).isqrt());
    rearranging::plan(scene, candidates, totals, budgets, each, |steps| {
        let plan = planned(steps);
        match &plan {
            Some((course, _)) if course.moved > moved_max => least = each.0,
            Some(_) | None => most = each.0,
        }
        plans.extend(plan);
        tried += 1;
        each = NanosPerHour((least * most).isqrt());
        (tried < PLANS).then_some(each)
    });
    plans
}

fn method(step: &Move<'_>) -> Method {
    match step.candidates.len() {
        1 => Method::SingleNode,
        _ => Method::MultiNode,
    }
}

/// What counts of a course.
fn value(course: Course) -> i64 {
    let moved = i64::try_from(course.moved).unwrap_or(i64::MAX);
    course.cost.saturating_add(moved.saturating_mul(EVICTION))
}

/// Of a plan's steps in their order, what is done first: all that bring no node, together, or the first that is possible now.
fn first<'a>(
    methods: &Methods<'_, 'a>,
    steps: &[Move<'a>],
    totals: &Totals,
    budgets: &Budgets,
) -> Option<Move<'a>> {
    let (mut rest, mut free) = (budgets.clone(), Vec::new());
    for step in steps.iter().filter(|step| step.replacements.is_empty()) {
        let mut after = rest.clone();
        if step.candidates.iter().all(|one| after.take(one)) {
            rest = after;
            free.push(step);
        }
    }
    // Each may have counted on the same room.
    let together = rearranging::together(methods.now, &free);
    let together = together.filter(|step| step.replacements.is_empty());
    let possible = |step: &&Move<'a>| {
        let mut budgets = budgets.clone();
        step.candidates.iter().all(|one| budgets.take(one)) && totals.approve(step)
    };
    let mut found = together.iter().chain(steps).filter(possible);
    found.find_map(|step| Some(methods.validated(step.clone(), method(step))?.0))
}
