//! Explores every order of steps of small models of the protocol (docs/protocol.md), with all rules on and with each switched off
//! alone.
//!
//! A model defines the possible next steps of a state and the states that violate a rule. Models test the rules; the simulation
//! tests the code. The crate must depend on nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Debug,
};

/// A state machine of concurrent parties.
pub trait Model {
    type State: Clone + Ord + Debug;

    fn initial(&self) -> Self::State;

    /// Every possible next step with its name. A state without one is final.
    fn next(&self, state: &Self::State) -> Vec<(&'static str, Self::State)>;

    /// The rule that a state violates, if any; `last` is set for final states.
    fn violation(&self, state: &Self::State, last: bool) -> Option<&'static str>;
}

/// Whether every reachable state of a model satisfies the rules, or the shortest violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every reachable state satisfies the rules.
    Holds { states: usize },
    /// Shortest sequence of steps to a violation.
    Violated {
        rule: &'static str,
        steps: Vec<&'static str>,
    },
}

impl Verdict {
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds { .. })
    }
}

/// Upper bound on states; a model with more is wrong.
const STATES_MAX: usize = 2_000_000;

/// Explores a model breadth first, so that a violation's steps are as few as possible.
///
/// # Panics
/// If the model has too many states to be explored.
pub fn explore<M: Model>(model: &M) -> Verdict {
    let first = model.initial();
    let mut predecessors: BTreeMap<M::State, Option<(M::State, &'static str)>> = BTreeMap::new();
    predecessors.insert(first.clone(), None);
    let mut queue = VecDeque::from([first]);
    while let Some(state) = queue.pop_front() {
        let next = model.next(&state);
        if let Some(rule) = model.violation(&state, next.is_empty()) {
            let steps = path_to(&predecessors, &state);
            return Verdict::Violated { rule, steps };
        }
        for (step, state_after) in next {
            if !predecessors.contains_key(&state_after) {
                predecessors.insert(state_after.clone(), Some((state.clone(), step)));
                queue.push_back(state_after);
            }
        }
        assert!(predecessors.len() <= STATES_MAX, "the model is too large");
    }
    Verdict::Holds {
        states: predecessors.len(),
    }
}

fn path_to<S: Ord + Clone>(
    predecessors: &BTreeMap<S, Option<(S, &'static str)>>,
    to: &S,
) -> Vec<&'static str> {
    let mut steps = Vec::new();
    let mut at = to.clone();
    while let Some(Some((before, step))) = predecessors.get(&at) {
        steps.push(*step);
        at = before.clone();
    }
    steps.reverse();
    steps
}
