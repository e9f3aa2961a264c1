//! State machine of a disruption command: a total function from its state and observations to the next state and the steps to
//! take (docs/spec/lifecycle.md#validation, docs/spec/lifecycle.md#orchestration). The function [`advance`] makes the
//! observations and performs the steps.
//!
//! A step is performed after the new state is recorded, so that it can be resumed from the ledger alone (docs/protocol.md#d1).
//! `orchestration/table.txt` lists the whole function.

mod advance;
mod marks;
mod reboot;
mod spent;

use model::ledger::CommandState;

pub use self::{
    advance::{Advance, advance},
    marks::forgotten_marks,
    spent::spent,
};

/// Observations about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Observations {
    nodes: Nodes,
    /// Whether all of its nodes have the disruption taint and condition.
    marked: bool,
    replacements: Replacements,
    /// Whether a replacement is initialized that the command does not record yet.
    news: bool,
    /// Whether the command has waited for its replacements for too long.
    overdue: bool,
}

/// Nodes of the command that are not being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// None is left.
    Gone,
    /// All may be deleted.
    Free,
    /// Some must be kept, and the others may be deleted without them.
    Divided,
    /// All must be kept.
    Kept,
}

/// Progress of a command's replacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacements {
    /// All are initialized, or none is needed.
    Ready,
    Coming,
    /// One of them failed. A replacement that was initialized once counts as ready.
    Lost,
}

/// Step to take. Steps are idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Records the initialized replacements, which count as ready from now on, even if they fail later.
    Remember,
    /// Sets taint and condition on the nodes.
    Mark,
    AwaitReplacements,
    /// Deletes the NodeClaims that may be deleted.
    Delete,
    /// Removes taint and condition from nodes that are kept.
    Unmark,
}

/// Returns the next state of a command and the steps to take.
fn next(state: CommandState, observations: Observations) -> (CommandState, Vec<Step>) {
    use CommandState::{Deleting, Done, Newer, Proposed, Replacing, RolledBack};
    match (state, observations.nodes, observations.replacements) {
        // A proposal is validated by planning it again.
        (Proposed | Done | RolledBack, ..) => (state, Vec::new()),
        // A newer version of Whittle knows this state and continues the command.
        (Newer, ..) => (state, Vec::new()),
        (Replacing | Deleting, Nodes::Gone, _) => (Done, Vec::new()),
        (Replacing, Nodes::Kept, _) => (RolledBack, vec![Step::Unmark]),
        (Replacing, _, Replacements::Lost) => (RolledBack, vec![Step::Unmark]),
        (Replacing, _, replacements)
            if observations.overdue
                && !(observations.marked && replacements == Replacements::Ready) =>
        {
            (RolledBack, vec![Step::Unmark])
        }
        // Pods on the nodes are judged once more after the taint keeps new ones away.
        (Replacing, _, Replacements::Ready) if !observations.marked => {
            (Replacing, remembering(observations, vec![Step::Mark]))
        }
        (Replacing, Nodes::Free, Replacements::Ready) => (Deleting, vec![Step::Delete]),
        (Replacing, Nodes::Divided, Replacements::Ready) => {
            (Deleting, vec![Step::Delete, Step::Unmark])
        }
        (Replacing, _, Replacements::Coming) => {
            let steps = vec![Step::Mark, Step::AwaitReplacements];
            (Replacing, remembering(observations, steps))
        }
        // A command that deletes nodes never rolls back, even if replacements fail.
        (Deleting, Nodes::Free, _) => (Deleting, vec![Step::Delete]),
        (Deleting, Nodes::Divided, _) => (Deleting, vec![Step::Delete, Step::Unmark]),
        (Deleting, Nodes::Kept, _) => (Done, vec![Step::Unmark]),
    }
}

/// Records new replacements before waiting: one that is initialized now may fail before the nodes are deleted.
fn remembering(observations: Observations, mut steps: Vec<Step>) -> Vec<Step> {
    if observations.news {
        steps.insert(0, Step::Remember);
    }
    steps
}

#[cfg(test)]
mod tests;
