//! The longer view: where a step leads, and whether something else that could be done now leads to a cheaper end.
//!
//! Taking the best step each time ends where no single step helps, often far from the cheapest cluster, and moves some pods
//! again and again. So the course of such steps is followed to its end in thought, and compared with those that begin with a
//! joint move. A course of joint moves is taken only if it ends cheaper, for hardly more evictions; else nothing is lost.

use model::Snapshot;

use super::{
    Command, Method, Pass, Reason,
    balanced::Totals,
    candidates::Candidate,
    consolidation::Move,
    course::{self, Course},
    joint,
    methods::Methods,
    scene::{Sight, Stance},
};

/// What an eviction must save at least, in nano-dollars per hour: each leads to another joint move, and none is always the best.
const PER_EVICTION: [i64; 3] = [2_000_000, 10_000_000, 30_000_000];
/// Of more nodes only the next step is looked at: courses take a multiple of the time.
const CANDIDATES_MAX: usize = 100;
/// For the cheaper end there may be a twelfth more evictions.
const EVICTIONS_MORE: usize = 12;

/// What to do now, where `next` is the next step by itself.
pub(super) fn command<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    totals: &Totals,
    next: (Move<'a>, Method),
) -> Command {
    let (step, method) = next;
    let plain = methods.command(step.clone(), method);
    if candidates.len() > CANDIDATES_MAX {
        return plain;
    }
    let mut others: Vec<Command> = Vec::new();
    for per_eviction in PER_EVICTION {
        let budgets = methods.budgets(methods.now, Reason::Underutilized);
        let search = joint::Search::new(methods.now, candidates, totals, budgets, per_eviction);
        let found = search.from(&step);
        let held = found.and_then(|found| methods.validated(found, Method::MultiNode));
        if let Some((step, method)) = held {
            let command = methods.command(step, method);
            if others.iter().all(|known| known.delete != command.delete) {
                others.push(command);
            }
        }
    }
    if others.is_empty() {
        return plain;
    }
    let stance = Stance {
        sight: Sight::Next,
        simulated: usize::MAX,
        ..methods.now.stance
    };
    let look = |snapshot: &Snapshot| -> Pass { super::first(snapshot, stance) };
    let end = |command: &Command| course::follow(methods.now.snapshot, command, look);
    let known = end(&plain);
    let courses = others.into_iter().map(|command| (end(&command), command));
    let better = courses.filter(|(course, _)| is_better(*course, known));
    let best = better.min_by_key(|(course, _)| (course.cost, course.moved));
    best.map_or(plain, |(_, command)| command)
}

fn is_better(course: Course, known: Course) -> bool {
    let more = course.moved.saturating_sub(known.moved);
    (course.cost, course.moved) < (known.cost, known.moved)
        && more.saturating_mul(EVICTIONS_MORE) <= known.moved
}
