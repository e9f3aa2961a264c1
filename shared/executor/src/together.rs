use std::future::Future;

use futures::{StreamExt, stream};

use crate::Outcome;

/// Calls of one step under way at a time: enough to hide how long each takes, few enough for an API server that has others to
/// serve.
const AT_ONCE: usize = 10;

/// Asks the same of each of several things, some at a time; answers in their order.
pub(crate) fn each<T, R, F>(
    things: impl IntoIterator<Item = T>,
    ask: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = R>,
{
    each_at_once(AT_ONCE, things, ask)
}

/// As [`each`], with so many under way at a time.
pub(crate) fn each_at_once<T, R, F>(
    at_once: usize,
    things: impl IntoIterator<Item = T>,
    ask: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = R>,
{
    // Made before anything is awaited, so that the whole can be sent between threads as each of them can.
    let asked: Vec<F> = things.into_iter().map(ask).collect();
    stream::iter(asked).buffered(at_once).collect()
}

/// Takes the same step for each of several things, some at a time. Answers and what came of them keep the order of the things,
/// so that equal turns tell equal stories.
pub(crate) fn together<T, R, F>(
    things: impl IntoIterator<Item = T>,
    outcome: &mut Outcome,
    step: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = (R, Outcome)>,
{
    let taken = each(things, step);
    async move {
        let answers = taken.await.into_iter().map(|(answer, came)| {
            outcome.absorb(came);
            answer
        });
        answers.collect()
    }
}
