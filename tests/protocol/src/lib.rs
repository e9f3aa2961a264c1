//! Explores every order in which the steps of a small model of the protocol (docs/protocol.md) can happen, with each of its rules
//! on, and with each switched off alone.
//!
//! A model says what may happen next in a state and what must never be so. It is about the rules, not about the code: the
//! simulation is about that. It must depend on nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Debug,
};

/// The steps of some parties.
pub trait Model {
    type State: Clone + Ord + Debug;

    fn initial(&self) -> Self::State;

    /// Everything that may happen next, with its name. Where nothing may, the state is final.
    fn next(&self, state: &Self::State) -> Vec<(&'static str, Self::State)>;

    /// What must not be so in any state; `last` where nothing can happen any more.
    fn broken(&self, state: &Self::State, last: bool) -> Option<&'static str>;
}

/// What came of exploring a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In all its states.
    Holds { states: usize },
    /// The shortest way to where it does not.
    Broken {
        rule: &'static str,
        steps: Vec<&'static str>,
    },
}

impl Verdict {
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds { .. })
    }
}

/// More states are a mistake in the model.
const STATES_MOST: usize = 2_000_000;

/// Breadth first, so that what is found is as short as can be.
///
/// # Panics
/// If the model has too many states to be explored.
pub fn explore<M: Model>(model: &M) -> Verdict {
    let first = model.initial();
    let mut came: BTreeMap<M::State, Option<(M::State, &'static str)>> = BTreeMap::new();
    came.insert(first.clone(), None);
    let mut queue = VecDeque::from([first]);
    while let Some(state) = queue.pop_front() {
        let next = model.next(&state);
        if let Some(rule) = model.broken(&state, next.is_empty()) {
            let steps = way(&came, &state);
            return Verdict::Broken { rule, steps };
        }
        for (step, state_after) in next {
            if !came.contains_key(&state_after) {
                came.insert(state_after.clone(), Some((state.clone(), step)));
                queue.push_back(state_after);
            }
        }
        assert!(came.len() <= STATES_MOST, "the model is too large");
    }
    Verdict::Holds { states: came.len() }
}

fn way<S: Ord + Clone>(came: &BTreeMap<S, Option<(S, &'static str)>>, to: &S) -> Vec<&'static str> {
    let mut steps = Vec::new();
    let mut at = to.clone();
    while let Some(Some((before, step))) = came.get(&at) {
        steps.push(*step);
        at = before.clone();
    }
    steps.reverse();
    steps
}
