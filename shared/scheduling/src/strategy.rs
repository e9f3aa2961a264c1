//! Choices that no rule decides. Under [`Optimize::Cost`] a small question is answered in several ways and the cheapest
//! answer is taken; a large one, like every one under [`Optimize::Upstream`], in upstream's way alone.

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

/// The other ways to answer.
const OTHERS: [Strategy; 3] = [
    Strategy {
        order: Order::EmptiestFirst,
        ties: Ties::FirstByName,
    },
    Strategy {
        order: Order::OldestFirst,
        ties: Ties::Cheapest,
    },
    Strategy {
        order: Order::OldestFirst,
        ties: Ties::FirstByName,
    },
];

/// Beyond this many pods one answer has to do: a turn must stay quick.
const COMPARED_PODS_MAX: usize = 1_000;

pub(crate) fn best(input: &Input<'_>) -> Answer {
    let mut best = answer(input, Strategy::default());
    if input.options.optimize == Optimize::Upstream || input.pods.len() > COMPARED_PODS_MAX {
        return best;
    }
    let waiting = unplaced(&best);
    for strategy in OTHERS {
        let other = answer(input, strategy);
        // Cheaper counts only for the same pods.
        if cost(&other) < cost(&best) && unplaced(&other) == waiting {
            best = other;
        }
    }
    best
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
