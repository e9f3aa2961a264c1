//! Commit and rebase (docs/protocol.md#c1, docs/protocol.md#c2, docs/protocol.md#o1): two planners never provide for the same
//! thing twice, and the slow one comes to its turn.

use protocol::{Model, explore};

/// A fast and a slow planner; a pod asks for a node, and others come that only the fast one sees to.
#[derive(Clone, Copy)]
struct Commits {
    /// A commit is on condition of the generation (docs/protocol.md#c1).
    fence: bool,
    /// The generation is read before the rows (docs/protocol.md#o1).
    generation_first: bool,
    /// Who lost takes out of its plan what others have provided for (docs/protocol.md#c2).
    recheck: bool,
    /// Who lost three times asks for another turn (docs/protocol.md#c2).
    wake: bool,
    /// Who lost commits what is left, without planning from the beginning (docs/protocol.md#c2).
    rebase: bool,
}

const RULES: Commits = Commits {
    fence: true,
    generation_first: true,
    recheck: true,
    wake: true,
    rebase: true,
};

/// Other work of the fast planner.
const OTHERS: u8 = 5;
const TRIES: u8 = 3;
/// Planning takes the slow one so many steps.
const PLANNING: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    generation: u8,
    /// Nodes that were bought for the pod.
    bought: u8,
    others: u8,
    fast: Planner,
    slow: Planner,
    /// Plans that the slow one made.
    plans: u8,
    wakes: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Planner {
    Away,
    Generation(u8),
    Rows(bool),
    Plans {
        base: u8,
        wants: bool,
        left: u8,
        tries: u8,
    },
}

impl Commits {
    fn observe(
        &self,
        state: &State,
        planner: &Planner,
        planning: u8,
    ) -> Option<(&'static str, Planner)> {
        let wants = state.bought == 0;
        let plans = |base, wants| Planner::Plans {
            base,
            wants,
            left: planning,
            tries: 0,
        };
        match planner {
            Planner::Away | Planner::Plans { .. } => None,
            Planner::Generation(base) => Some(("reads the rows", plans(*base, wants))),
            Planner::Rows(wanted) => {
                Some(("reads the generation", plans(state.generation, *wanted)))
            }
        }
    }

    fn begin(&self, state: &State) -> Planner {
        match self.generation_first {
            true => Planner::Generation(state.generation),
            false => Planner::Rows(state.bought == 0),
        }
    }
}

impl Model for Commits {
    type State = State;

    fn initial(&self) -> State {
        State {
            generation: 0,
            bought: 0,
            others: OTHERS,
            fast: Planner::Away,
            slow: Planner::Away,
            plans: 0,
            wakes: 1,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        // The fast one provides for the pod, too, if it happens to see it.
        if state.fast == Planner::Away && state.others > 0 {
            let mut after = state.clone();
            after.others -= 1;
            after.fast = self.begin(state);
            steps.push(("the fast one begins", after));
            let mut after = state.clone();
            after.others -= 1;
            after.generation += 1;
            steps.push(("the fast one commits other things", after));
        }
        if let Some((step, fast)) = self.observe(state, &state.fast, 0) {
            steps.push((
                step,
                State {
                    fast,
                    ..state.clone()
                },
            ));
        }
        if let Planner::Plans { base, wants, .. } = state.fast {
            let mut after = state.clone();
            after.fast = Planner::Away;
            if wants && (!self.fence || base == state.generation) {
                after.generation += 1;
                after.bought += 1;
            }
            steps.push(("the fast one commits", after));
        }
        if state.slow == Planner::Away && state.wakes > 0 {
            let mut after = state.clone();
            after.wakes -= 1;
            after.slow = self.begin(state);
            steps.push(("the slow one begins", after));
        }
        if let Some((step, slow)) = self.observe(state, &state.slow, PLANNING) {
            steps.push((
                step,
                State {
                    slow,
                    ..state.clone()
                },
            ));
        }
        if let Planner::Plans {
            base,
            wants,
            left,
            tries,
        } = state.slow
        {
            let mut after = state.clone();
            if left > 0 {
                after.plans += u8::from(left == PLANNING);
                after.slow = Planner::Plans {
                    base,
                    wants,
                    left: left - 1,
                    tries,
                };
                steps.push(("the slow one plans", after));
            } else if !wants {
                after.slow = Planner::Away;
                steps.push(("the slow one has nothing to do", after));
            } else if !self.fence || base == state.generation {
                after.generation += 1;
                after.bought += 1;
                after.slow = Planner::Away;
                steps.push(("the slow one commits", after));
            } else if tries + 1 == TRIES {
                after.slow = Planner::Away;
                after.wakes += u8::from(self.wake);
                steps.push(("the slow one gives up", after));
            } else {
                let wants = wants && !(self.recheck && state.bought > 0);
                after.slow = match self.rebase {
                    true => Planner::Plans {
                        base: state.generation,
                        wants,
                        left: 0,
                        tries: tries + 1,
                    },
                    false => self.begin(state),
                };
                steps.push(("the slow one lost", after));
            }
        }
        steps
    }

    fn broken(&self, state: &State, last: bool) -> Option<&'static str> {
        if state.bought > 1 {
            return Some("a pod was provided for twice");
        }
        if last && state.bought == 0 {
            return Some("nobody provided for the pod");
        }
        // Once, and once more for each turn that lost every try.
        (state.plans > 1 + OTHERS / TRIES).then_some("the slow planner begins again and again")
    }
}

#[test]
fn a_pod_is_provided_for_once_and_the_slow_planner_comes_to_its_turn() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn c1_without_the_fence_a_pod_is_provided_for_twice() {
    assert!(
        !explore(&Commits {
            fence: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn o1_the_generation_must_be_read_before_the_rows() {
    assert!(
        !explore(&Commits {
            generation_first: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn c2_who_lost_must_look_at_what_others_did() {
    assert!(
        !explore(&Commits {
            recheck: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn c2_who_gave_up_must_be_woken() {
    assert!(
        !explore(&Commits {
            wake: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn c2_without_rebase_the_slow_planner_begins_again_and_again() {
    assert!(
        !explore(&Commits {
            rebase: false,
            ..RULES
        })
        .holds()
    );
}
