//! Choices that no rule decides. Where upstream leaves them to chance, a small question that leaves pods without a place is
//! answered again the other way; under [`Optimize::Cost`] it is answered in several ways and the cheapest answer is taken.

use std::collections::BTreeSet;

use model::snapshot::Optimize;

use crate::{
    input::Input,
    outcome::{self, Answer},
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

/// Filling the oldest claim first opens fewer nodes than keeping all equally full.
const DENSE: Strategy = Strategy {
    order: Order::OldestFirst,
    ties: Ties::Cheapest,
};

/// The other ways to answer, the most promising first.
const OTHERS: [Strategy; 3] = [
    DENSE,
    Strategy {
        order: Order::EmptiestFirst,
        ties: Ties::FirstByName,
    },
    Strategy {
        order: Order::OldestFirst,
        ties: Ties::FirstByName,
    },
];

/// Up to so many pods, all ways are compared; up to [`COMPARED_PODS_MAX`], two; beyond, one has to do: a turn must stay quick.
const FEW_PODS: usize = 250;
const COMPARED_PODS_MAX: usize = 1_000;

pub(crate) fn best(input: &Input<'_>) -> Answer {
    let for_cost = input.options.optimize == Optimize::Cost;
    if for_cost && input.pods.len() > COMPARED_PODS_MAX {
        return answer(input, DENSE);
    }
    let mut best = answer(input, Strategy::default());
    let others = match input.pods.len() {
        0..=FEW_PODS => OTHERS.len(),
        _ => 1,
    };
    for strategy in OTHERS.into_iter().take(others) {
        let as_upstream = strategy.order == Order::EmptiestFirst;
        let worthwhile = !best.unplaced.is_empty() || for_cost && cost(&best) > 0;
        if worthwhile && (for_cost || as_upstream) {
            let other = answer(input, strategy);
            if is_better(&other, &best, for_cost) {
                best = other;
            }
        }
    }
    best
}

/// More pods have a place, or the same ones more cheaply.
fn is_better(other: &Answer, best: &Answer, for_cost: bool) -> bool {
    other.unplaced.len() < best.unplaced.len()
        || for_cost && unplaced(other) == unplaced(best) && cost(other) < cost(best)
}

fn answer(input: &Input<'_>, strategy: Strategy) -> Answer {
    let mut solver = Solver::new(input, strategy);
    let left = solver.run();
    outcome::conclude(&mut solver, left)
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
