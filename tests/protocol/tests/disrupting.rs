//! Disruption commands (docs/protocol.md#d1, docs/protocol.md#d2): a node goes when its replacement has come, never after its
//! command was rolled back, and nothing goes in its place.

use protocol::{Model, Verdict, explore};

/// One node, its replacement, somebody who carries the command out and somebody who rolls it back, each of whom may die anywhere.
#[derive(Clone, Copy)]
struct Commands {
    /// Replacements come first (docs/protocol.md#d1).
    waits: bool,
    /// The command is `deleting` before anything is deleted (docs/protocol.md#d1).
    binds: bool,
    /// `deleting` is written on condition of `replacing` (docs/protocol.md#d1).
    binds_conditionally: bool,
    /// Rolling back is on condition of not `deleting` (docs/protocol.md#d1).
    rolls_back_conditionally: bool,
    /// Deletions carry the uid of what was decided on (docs/protocol.md#d2).
    preconditions: bool,
}

const RULES: Commands = Commands {
    waits: true,
    binds: true,
    binds_conditionally: true,
    rolls_back_conditionally: true,
    preconditions: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Command {
    Replacing,
    Deleting,
    RolledBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Replacement {
    Coming,
    Ready,
    Gone,
}

/// What an actor is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Away,
    Decided,
    Bound,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    command: Command,
    replacement: Replacement,
    /// Whether it ever was.
    was_ready: bool,
    /// The uid of the node of this name; it was 0 when the command was made.
    node: Option<u8>,
    deleter: Actor,
    roller: Actor,
    /// Somebody was told that the node stays.
    stays: bool,
    broken: Option<&'static str>,
}

impl Commands {
    fn deletes(&self, state: &State, steps: &mut Vec<(&'static str, State)>) {
        let mut step = |name, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((name, after));
        };
        match state.deleter {
            Actor::Away => {
                let ready = state.replacement == Replacement::Ready || !self.waits;
                if state.command == Command::Replacing && ready {
                    step("finds the replacement ready", &|after| {
                        after.deleter = Actor::Decided
                    });
                }
                if state.command == Command::Deleting && state.node == Some(0) {
                    step("goes on with the deletion", &|after| {
                        after.deleter = Actor::Bound
                    });
                }
            }
            Actor::Decided => step("binds", &|after| {
                let holds = state.command == Command::Replacing || !self.binds_conditionally;
                after.deleter = if holds || !self.binds {
                    Actor::Bound
                } else {
                    Actor::Away
                };
                if self.binds && holds {
                    after.command = Command::Deleting;
                }
            }),
            Actor::Bound => step("deletes", &|after| {
                after.deleter = Actor::Away;
                let same = state.node == Some(0);
                if state.node.is_none() || self.preconditions && !same {
                    return;
                }
                after.node = None;
                after.broken = match (same, state.stays, state.was_ready) {
                    (false, _, _) => Some("another node goes in its place"),
                    (_, true, _) => Some("a node goes although it was to stay"),
                    (_, _, false) => Some("a node goes before its replacement has come"),
                    (true, false, true) => None,
                };
            }),
        }
        if state.deleter != Actor::Away {
            step("the deleter dies", &|after| after.deleter = Actor::Away);
        }
    }
}

impl Model for Commands {
    type State = State;

    fn initial(&self) -> State {
        State {
            command: Command::Replacing,
            replacement: Replacement::Coming,
            was_ready: false,
            node: Some(0),
            deleter: Actor::Away,
            roller: Actor::Away,
            stays: false,
            broken: None,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        self.deletes(state, &mut steps);
        let mut step = |name, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((name, after));
        };
        if state.replacement == Replacement::Coming {
            step("the replacement is ready", &|after| {
                (after.replacement, after.was_ready) = (Replacement::Ready, true);
            });
        }
        if state.replacement != Replacement::Gone {
            step("the replacement is lost", &|after| {
                after.replacement = Replacement::Gone
            });
        }
        if state.node == Some(0) {
            step("somebody makes the node anew", &|after| {
                after.node = Some(1)
            });
        }
        match state.roller {
            Actor::Away => {
                if state.command == Command::Replacing && state.replacement == Replacement::Gone {
                    step("finds the replacement lost", &|after| {
                        after.roller = Actor::Decided
                    });
                }
            }
            Actor::Decided | Actor::Bound => {
                step("rolls back", &|after| {
                    after.roller = Actor::Away;
                    if state.command == Command::Replacing || !self.rolls_back_conditionally {
                        (after.command, after.stays) = (Command::RolledBack, true);
                    }
                });
                step("who rolls back dies", &|after| after.roller = Actor::Away);
            }
        }
        steps
    }

    fn broken(&self, state: &State, last: bool) -> Option<&'static str> {
        let stuck = last && state.command != Command::RolledBack && state.node == Some(0);
        state.broken.or(stuck.then_some("a command never ends"))
    }
}

fn breaks(rules: Commands, law: &str) {
    match explore(&rules) {
        Verdict::Broken { rule, .. } => assert_eq!(rule, law),
        Verdict::Holds { states } => panic!("{law}: not in {states} states"),
    }
}

#[test]
fn d1_d2_a_node_goes_when_its_replacement_has_come_and_nothing_in_its_place() {
    assert!(explore(&RULES).holds(), "{:?}", explore(&RULES));
}

#[test]
fn d1_without_waiting_nodes_go_before_their_replacements_come() {
    let rules = Commands {
        waits: false,
        ..RULES
    };
    breaks(rules, "a node goes before its replacement has come");
}

#[test]
fn d1_who_deletes_without_saying_so_first_deletes_what_was_rolled_back() {
    let rules = Commands {
        binds: false,
        ..RULES
    };
    breaks(rules, "a node goes although it was to stay");
}

#[test]
fn d1_who_says_so_unconditionally_deletes_what_was_rolled_back() {
    let rules = Commands {
        binds_conditionally: false,
        ..RULES
    };
    breaks(rules, "a node goes although it was to stay");
}

#[test]
fn d1_who_rolls_back_unconditionally_keeps_what_is_being_deleted() {
    let rules = Commands {
        rolls_back_conditionally: false,
        ..RULES
    };
    breaks(rules, "a node goes although it was to stay");
}

#[test]
fn d2_without_preconditions_a_node_of_the_same_name_goes() {
    let rules = Commands {
        preconditions: false,
        ..RULES
    };
    breaks(rules, "another node goes in its place");
}
