//! Choices that no rule decides. Where upstream leaves them to chance, a small question that leaves pods without a place is
//! answered again the other way; under [`Optimize::Cost`] it is answered in several ways and the cheapest answer is taken.

use std::collections::BTreeSet;

use model::snapshot::Optimize;

use crate::{
    guided::Destination,
    input::Input,
    outcome::{self, Answer},
    repack::repack,
    setup::Setup,
    solve::Solver,
};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strategy {
    pub(crate) order: Order,
    pub(crate) ties: Ties,
}

/// Which claim in flight is tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// As upstream.
    #[default]
    EmptiestFirst,
    OldestFirst,
}

/// Which of several equally empty domains is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ties {
    #[default]
    Cheapest,
    FirstByName,
}

/// All ways to answer. Filling the oldest claim first leaves fuller nodes, so it comes first where cost decides.
const WAYS: [Strategy; 4] = [
    Strategy {
        order: Order::OldestFirst,
        ties: Ties::Cheapest,
    },
    Strategy {
        order: Order::EmptiestFirst,
        ties: Ties::Cheapest,
    },
    Strategy {
        order: Order::OldestFirst,
        ties: Ties::FirstByName,
    },
    Strategy {
        order: Order::EmptiestFirst,
        ties: Ties::FirstByName,
    },
];

/// Up to so many pods, all ways are compared for cost; up to [`COMPARED_PODS_MAX`], the two orders, and the other ways are
/// tried only if pods are left without a place; beyond, one has to do: a turn must stay quick.
const FEW_PODS: usize = 250;
const COMPARED_PODS_MAX: usize = 1_000;

pub(crate) fn best<'a>(input: &Input<'a>, set_up: impl Fn() -> Setup<'a>) -> Answer {
    let for_cost = input.options.optimize == Optimize::Cost;
    let pods = input.pods.len();
    let mut ways = WAYS
        .into_iter()
        .filter(|way| for_cost || way.order == Order::EmptiestFirst);
    let mut best = answer(input, set_up(), ways.next().unwrap_or_default());
    for way in ways {
        let retry = pods <= COMPARED_PODS_MAX && best.unplaced.iter().any(|left| !left.deferred);
        let few = pods <= FEW_PODS || pods <= COMPARED_PODS_MAX && way.ties == Ties::Cheapest;
        let compare = for_cost && few && cost(&best) > 0;
        if retry || compare {
            let other = answer(input, set_up(), way);
            if is_better(&other, &best, for_cost) {
                best = other;
            }
        }
    }
    best
}

/// Pods that wait come first, then those that are wanted somewhere, then whoever is left.
pub(crate) fn guided<'a>(
    input: &Input<'a>,
    setup: Setup<'a>,
    waiting: usize,
    wanted: &[(usize, Destination)],
) -> Answer {
    let [first, ..] = WAYS;
    let mut solver = Solver::new(input, setup, first);
    let mut left = solver.place((0..waiting).collect());
    let placed = solver.guide(wanted);
    let others = (waiting..input.pods.len()).filter(|pod| !placed.contains(pod));
    left.extend(solver.place(others.collect()));
    let unplaced = outcome::explain(&mut solver, left);
    outcome::conclude(&mut solver, unplaced)
}

/// More pods have a place, or the same ones more cheaply.
fn is_better(other: &Answer, best: &Answer, for_cost: bool) -> bool {
    other.unplaced.len() < best.unplaced.len()
        || for_cost && unplaced(other) == unplaced(best) && cost(other) < cost(best)
}

fn answer<'a>(input: &Input<'a>, setup: Setup<'a>, strategy: Strategy) -> Answer {
    let mut solver = Solver::new(input, setup, strategy);
    let left = solver.run();
    let unplaced = outcome::explain(&mut solver, left);
    if input.options.optimize == Optimize::Cost {
        repack(&mut solver);
    }
    outcome::conclude(&mut solver, unplaced)
}

fn unplaced(answer: &Answer) -> BTreeSet<usize> {
    answer.unplaced.iter().map(|left| left.pod).collect()
}

fn cost(answer: &Answer) -> i64 {
    let cheapest = answer
        .new_nodes
        .iter()
        .filter_map(|node| node.choices.first());
    cheapest.fold(0, |sum, choice| sum.saturating_add(choice.price.0))
}

#[cfg(test)]
mod tests;
