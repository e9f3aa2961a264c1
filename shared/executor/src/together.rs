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
    // Made before anything is awaited, so that the whole can be sent between threads as each of them can.
    let asked: Vec<F> = things.into_iter().map(ask).collect();
    stream::iter(asked).buffered(AT_ONCE).collect()
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
    some_at_once(AT_ONCE, things, outcome, step)
}

/// As [`together`], with so many under way at a time.
pub(crate) fn some_at_once<T, R, F>(
    at_once: usize,
    things: impl IntoIterator<Item = T>,
    outcome: &mut Outcome,
    step: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = (R, Outcome)>,
{
    let steps: Vec<F> = things.into_iter().map(step).collect();
    async move {
        let taken: Vec<(R, Outcome)> = stream::iter(steps).buffered(at_once).collect().await;
        let answers = taken.into_iter().map(|(answer, came)| {
            outcome.absorb(came);
            answer
        });
        answers.collect()
    }
}
