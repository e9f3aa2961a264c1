use std::future::Future;

use futures::{StreamExt, stream};

use crate::ExecutionOutcome;

/// Calls of one step under way at a time: enough to hide a call's latency, few enough for an API server that has other clients.
const CONCURRENT_CALLS: usize = 10;

/// Makes a call for each of several items, some at a time; returns the results in order.
pub(crate) fn each<T, R, F>(
    items: impl IntoIterator<Item = T>,
    call: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = R>,
{
    each_limited(CONCURRENT_CALLS, items, call)
}

/// [`each`], with `at_once` calls under way at a time.
pub(crate) fn each_limited<T, R, F>(
    at_once: usize,
    items: impl IntoIterator<Item = T>,
    call: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = R>,
{
    // Collected before the first await, so that the whole future is `Send` if each of them is.
    let calls: Vec<F> = items.into_iter().map(call).collect();
    stream::iter(calls).buffered(at_once).collect()
}

/// Takes a step for each of several items, some at a time. Results and outcomes keep the order of the items, so that equal
/// turns have equal reports.
pub(crate) fn each_with_outcome<T, R, F>(
    items: impl IntoIterator<Item = T>,
    outcome: &mut ExecutionOutcome,
    step: impl Fn(T) -> F,
) -> impl Future<Output = Vec<R>>
where
    F: Future<Output = (R, ExecutionOutcome)>,
{
    let taken = each(items, step);
    async move {
        let answers = taken.await.into_iter().map(|(answer, own)| {
            outcome.absorb(own);
            answer
        });
        answers.collect()
    }
}
