//! The state machine as a table, reviewed as a file, and its observations.

mod forgetting;
mod judging;
mod marking;
mod rebooting;
mod repairing;

use std::fmt::Write as _;

use expect_test::expect_file;

use super::{CommandState, Nodes, Observations, Replacements, Step, next};

const STATES: [CommandState; 5] = [
    CommandState::Proposed,
    CommandState::Replacing,
    CommandState::Deleting,
    CommandState::Done,
    CommandState::RolledBack,
];
const NODES: [Nodes; 4] = [Nodes::Gone, Nodes::Free, Nodes::Divided, Nodes::Kept];
const REPLACEMENTS: [Replacements; 3] = [
    Replacements::Ready,
    Replacements::Coming,
    Replacements::Lost,
];

/// Number of observations that differ in the last three columns only.
const ALIKE: usize = 8;

/// All observations, those that differ in the last three columns next to each other.
fn all() -> Vec<Observations> {
    let mut all = Vec::new();
    for nodes in NODES {
        for replacements in REPLACEMENTS {
            for marked in [true, false] {
                for overdue in [false, true] {
                    for news in [false, true] {
                        all.push(Observations {
                            nodes,
                            marked,
                            replacements,
                            news,
                            overdue,
                        });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn steps_match_the_recorded_state_table() {
    let mut table = String::from(
        "state      | nodes   replacements marks  time    news | then       | steps\n",
    );
    for state in STATES {
        for alike in all().chunks(ALIKE) {
            let same = alike
                .windows(2)
                .all(|two| next(state, two[0]) == next(state, two[1]));
            for observations in alike.iter().take(if same { 1 } else { ALIKE }) {
                let (then, steps) = next(state, *observations);
                let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
                let word = |is_so: bool, yes, no| match (same, is_so) {
                    (true, _) => "any",
                    (false, true) => yes,
                    (false, false) => no,
                };
                let marks = word(observations.marked, "marked", "not");
                let time = word(observations.overdue, "overdue", "early");
                let news = word(observations.news, "some", "none");
                let line = format!(
                    "{:<10} | {:<7} {:<12} {marks:<6} {time:<7} {news:<4} | {:<10} | {}",
                    format!("{state:?}"),
                    format!("{:?}", observations.nodes),
                    format!("{:?}", observations.replacements),
                    format!("{then:?}"),
                    steps.join(", ")
                );
                let _ = writeln!(table, "{}", line.trim_end_matches([' ', '|']));
            }
        }
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn d1_deleting_command_is_never_rolled_back() {
    for observations in all() {
        let (then, _) = next(CommandState::Deleting, observations);
        assert!(
            matches!(then, CommandState::Deleting | CommandState::Done),
            "{observations:?}"
        );
        for over in [CommandState::Done, CommandState::RolledBack] {
            assert_eq!(next(over, observations), (over, Vec::new()));
        }
    }
}

/// A waiting command continues even if a replacement fails after its initialization.
#[test]
fn waiting_commands_record_initialized_replacements() {
    for observations in all() {
        let (then, steps) = next(CommandState::Replacing, observations);
        let waits = then == CommandState::Replacing;
        let remembers = steps.first() == Some(&Step::Remember);
        assert_eq!(remembers, waits && observations.news, "{observations:?}");
    }
}

#[test]
fn deletion_requires_ready_replacements_and_marks() {
    for observations in all() {
        let (_, steps) = next(CommandState::Replacing, observations);
        let ready = observations.marked && observations.replacements == Replacements::Ready;
        assert!(ready || !steps.contains(&Step::Delete), "{observations:?}");
        assert!(
            observations.nodes != Nodes::Kept || !steps.contains(&Step::Delete),
            "{observations:?}"
        );
    }
}
