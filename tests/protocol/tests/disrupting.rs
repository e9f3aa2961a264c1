//! Disruption commands (docs/protocol.md#d1, docs/protocol.md#d2): a node is deleted only once its replacement is ready, never
//! after a rollback, and no other node of its name is deleted.

use protocol::{Model, Verdict, explore};

/// A node, its replacement, an actor that executes the command and one that rolls it back. Each actor may crash at any step.
#[derive(Clone, Copy)]
struct CommandModel {
    /// The deletion waits for the replacement (docs/protocol.md#d1).
    waits: bool,
    /// The command is in state `deleting` before anything is deleted (docs/protocol.md#d1).
    marks_deleting: bool,
    /// The write of `deleting` is conditional on `replacing` (docs/protocol.md#d1).
    marks_conditionally: bool,
    /// The rollback is conditional on the state not being `deleting` (docs/protocol.md#d1).
    rolls_back_conditionally: bool,
    /// Deletions carry the uid of the decision (docs/protocol.md#d2).
    preconditions: bool,
}

const RULES: CommandModel = CommandModel {
    waits: true,
    marks_deleting: true,
    marks_conditionally: true,
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

/// Next step of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Away,
    Decided,
    Marked,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    command: Command,
    replacement: Replacement,
    /// Whether the replacement was ever ready.
    was_ready: bool,
    /// Uid of the node of this name; it was 0 when the command was created.
    node: Option<u8>,
    deleter: Actor,
    rollback: Actor,
    /// A rollback has announced that the node stays.
    stays: bool,
    violation: Option<&'static str>,
}

impl CommandModel {
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
                    step("resumes the deletion", &|after| {
                        after.deleter = Actor::Marked
                    });
                }
            }
            Actor::Decided => step("writes the deleting state", &|after| {
                let holds = state.command == Command::Replacing || !self.marks_conditionally;
                after.deleter = if holds || !self.marks_deleting {
                    Actor::Marked
                } else {
                    Actor::Away
                };
                if self.marks_deleting && holds {
                    after.command = Command::Deleting;
                }
            }),
            Actor::Marked => step("deletes", &|after| {
                after.deleter = Actor::Away;
                let same = state.node == Some(0);
                if state.node.is_none() || self.preconditions && !same {
                    return;
                }
                after.node = None;
                after.violation = match (same, state.stays, state.was_ready) {
                    (false, _, _) => Some("a node of the same name is deleted"),
                    (_, true, _) => Some("a node is deleted after its rollback"),
                    (_, _, false) => Some("a node is deleted before its replacement is ready"),
                    (true, false, true) => None,
                };
            }),
        }
        if state.deleter != Actor::Away {
            step("the deletion crashes", &|after| after.deleter = Actor::Away);
        }
    }
}

impl Model for CommandModel {
    type State = State;

    fn initial(&self) -> State {
        State {
            command: Command::Replacing,
            replacement: Replacement::Coming,
            was_ready: false,
            node: Some(0),
            deleter: Actor::Away,
            rollback: Actor::Away,
            stays: false,
            violation: None,
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
            step("the node is recreated", &|after| after.node = Some(1));
        }
        match state.rollback {
            Actor::Away => {
                if state.command == Command::Replacing && state.replacement == Replacement::Gone {
                    step("finds the replacement lost", &|after| {
                        after.rollback = Actor::Decided
                    });
                }
            }
            Actor::Decided | Actor::Marked => {
                step("rolls back", &|after| {
                    after.rollback = Actor::Away;
                    if state.command == Command::Replacing || !self.rolls_back_conditionally {
                        (after.command, after.stays) = (Command::RolledBack, true);
                    }
                });
                step("the rollback crashes", &|after| {
                    after.rollback = Actor::Away
                });
            }
        }
        steps
    }

    fn violation(&self, state: &State, last: bool) -> Option<&'static str> {
        let stuck = last && state.command != Command::RolledBack && state.node == Some(0);
        state
            .violation
            .or(stuck.then_some("a command never finishes"))
    }
}

fn assert_violation(rules: CommandModel, expected: &str) {
    match explore(&rules) {
        Verdict::Violated { rule, .. } => assert_eq!(rule, expected),
        Verdict::Holds { states } => panic!("no violation in {states} states: {expected}"),
    }
}

#[test]
fn d1_d2_node_is_deleted_only_after_its_replacement_is_ready() {
    assert!(explore(&RULES).holds(), "{:?}", explore(&RULES));
}

#[test]
fn d1_without_waiting_nodes_are_deleted_before_their_replacements() {
    let rules = CommandModel {
        waits: false,
        ..RULES
    };
    assert_violation(rules, "a node is deleted before its replacement is ready");
}

#[test]
fn d1_without_the_deleting_state_a_rolled_back_node_is_deleted() {
    let rules = CommandModel {
        marks_deleting: false,
        ..RULES
    };
    assert_violation(rules, "a node is deleted after its rollback");
}

#[test]
fn d1_unconditional_deleting_state_deletes_a_rolled_back_node() {
    let rules = CommandModel {
        marks_conditionally: false,
        ..RULES
    };
    assert_violation(rules, "a node is deleted after its rollback");
}

#[test]
fn d1_unconditional_rollback_keeps_a_node_that_is_deleted() {
    let rules = CommandModel {
        rolls_back_conditionally: false,
        ..RULES
    };
    assert_violation(rules, "a node is deleted after its rollback");
}

#[test]
fn d2_without_preconditions_a_node_of_the_same_name_is_deleted() {
    let rules = CommandModel {
        preconditions: false,
        ..RULES
    };
    assert_violation(rules, "a node of the same name is deleted");
}
