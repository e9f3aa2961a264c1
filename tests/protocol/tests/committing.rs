//! Commit and rebase (docs/protocol.md#c1, docs/protocol.md#c2, docs/protocol.md#o1): two planners never launch for the same pod
//! twice, and the slow one is not starved.

use protocol::{Model, explore};

/// A fast and a slow planner. Both see one pod; only the fast one commits other work.
#[derive(Clone, Copy)]
struct CommitModel {
    /// A commit is conditional on the generation (docs/protocol.md#c1).
    fence: bool,
    /// The generation is read before the rows (docs/protocol.md#o1).
    generation_first: bool,
    /// The loser of a race removes launches from its plan that others have made (docs/protocol.md#c2).
    recheck: bool,
    /// A planner that lost three times requests another turn (docs/protocol.md#c2).
    wake: bool,
    /// The loser of a race commits the rest of its plan without planning again (docs/protocol.md#c2).
    rebase: bool,
}

const RULES: CommitModel = CommitModel {
    fence: true,
    generation_first: true,
    recheck: true,
    wake: true,
    rebase: true,
};

/// Number of unrelated commits of the fast planner.
const OTHER_COMMITS: u8 = 5;
const TRIES: u8 = 3;
/// Number of steps that planning takes the slow planner.
const PLANNING: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    generation: u8,
    /// Nodes launched for the pod.
    launched: u8,
    others: u8,
    fast: Planner,
    slow: Planner,
    /// Plans made by the slow planner.
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

impl CommitModel {
    fn observe(
        &self,
        state: &State,
        planner: &Planner,
        planning: u8,
    ) -> Option<(&'static str, Planner)> {
        let wants = state.launched == 0;
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
            false => Planner::Rows(state.launched == 0),
        }
    }
}

impl Model for CommitModel {
    type State = State;

    fn initial(&self) -> State {
        State {
            generation: 0,
            launched: 0,
            others: OTHER_COMMITS,
            fast: Planner::Away,
            slow: Planner::Away,
            plans: 0,
            wakes: 1,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        // The fast planner may see the pod and launch for it as well.
        if state.fast == Planner::Away && state.others > 0 {
            let mut after = state.clone();
            after.others -= 1;
            after.fast = self.begin(state);
            steps.push(("the fast planner starts", after));
            let mut after = state.clone();
            after.others -= 1;
            after.generation += 1;
            steps.push(("the fast planner commits other work", after));
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
                after.launched += 1;
            }
            steps.push(("the fast planner commits", after));
        }
        if state.slow == Planner::Away && state.wakes > 0 {
            let mut after = state.clone();
            after.wakes -= 1;
            after.slow = self.begin(state);
            steps.push(("the slow planner starts", after));
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
                steps.push(("the slow planner plans", after));
            } else if !wants {
                after.slow = Planner::Away;
                steps.push(("the slow planner has no work", after));
            } else if !self.fence || base == state.generation {
                after.generation += 1;
                after.launched += 1;
                after.slow = Planner::Away;
                steps.push(("the slow planner commits", after));
            } else if tries + 1 == TRIES {
                after.slow = Planner::Away;
                after.wakes += u8::from(self.wake);
                steps.push(("the slow planner gives up", after));
            } else {
                let wants = wants && !(self.recheck && state.launched > 0);
                after.slow = match self.rebase {
                    true => Planner::Plans {
                        base: state.generation,
                        wants,
                        left: 0,
                        tries: tries + 1,
                    },
                    false => self.begin(state),
                };
                steps.push(("the slow planner loses the race", after));
            }
        }
        steps
    }

    fn violation(&self, state: &State, last: bool) -> Option<&'static str> {
        if state.launched > 1 {
            return Some("two nodes were launched for a pod");
        }
        if last && state.launched == 0 {
            return Some("no node was launched for the pod");
        }
        // One plan, and one more for each turn that lost every try.
        (state.plans > 1 + OTHER_COMMITS / TRIES).then_some("the slow planner plans without bound")
    }
}

#[test]
fn each_pod_gets_one_node_and_the_slow_planner_is_not_starved() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn c1_without_the_fence_a_pod_gets_two_nodes() {
    assert!(
        !explore(&CommitModel {
            fence: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn o1_the_generation_must_be_read_before_the_rows() {
    assert!(
        !explore(&CommitModel {
            generation_first: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn c2_loser_must_recheck_what_others_committed() {
    assert!(
        !explore(&CommitModel {
            recheck: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn c2_planner_that_gave_up_must_be_woken() {
    assert!(
        !explore(&CommitModel {
            wake: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn c2_without_rebase_the_slow_planner_replans_without_bound() {
    assert!(
        !explore(&CommitModel {
            rebase: false,
            ..RULES
        })
        .holds()
    );
}
