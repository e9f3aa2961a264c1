//! How a disruption command lives: one total function from where it stands and what is seen of it to where it stands then and
//! what is to be done (docs/spec/lifecycle.md#validation, docs/spec/lifecycle.md#orchestration). What is seen is judged in
//! [`advance`], which also makes the steps concrete.
//!
//! A step is done after its command has moved, so that it can be taken up again from the ledger alone (docs/protocol.md#d1).
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

/// What is seen of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    nodes: Nodes,
    /// Whether new pods are kept away from all of them.
    marked: bool,
    replacements: Replacements,
    /// One of them is in service of which the command does not know it yet.
    news: bool,
    /// It has waited for its replacements for longer than it may.
    overdue: bool,
}

/// Its nodes that are not being deleted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// None are left.
    Gone,
    /// All may go.
    Free,
    /// Some must stay after all, and the others may go without them.
    Divided,
    /// They must stay after all.
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacements {
    /// All are initialized, or none are needed.
    Ready,
    Coming,
    /// One of them will never come. What was in service once has come.
    Lost,
}

/// What is to be done. Steps that are done already change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Remembers the replacements that are in service: they count from now on, whatever becomes of them.
    Remember,
    /// Keeps new pods away from its nodes.
    Mark,
    AwaitReplacements,
    /// Deletes those of its nodes that may go.
    Delete,
    /// Lets nodes that stay be used again.
    Unmark,
}

/// The next step of a command that binds.
fn next(state: CommandState, seen: Seen) -> (CommandState, Vec<Step>) {
    use CommandState::{Deleting, Done, Newer, Proposed, Replacing, RolledBack};
    match (state, seen.nodes, seen.replacements) {
        // A proposal is judged by planning it again.
        (Proposed | Done | RolledBack, ..) => (state, Vec::new()),
        // Whoever began it goes on with it.
        (Newer, ..) => (state, Vec::new()),
        (Replacing | Deleting, Nodes::Gone, _) => (Done, Vec::new()),
        (Replacing, Nodes::Kept, _) => (RolledBack, vec![Step::Unmark]),
        (Replacing, _, Replacements::Lost) => (RolledBack, vec![Step::Unmark]),
        (Replacing, _, replacements)
            if seen.overdue && !(seen.marked && replacements == Replacements::Ready) =>
        {
            (RolledBack, vec![Step::Unmark])
        }
        // What runs there is judged once more when nothing new can come.
        (Replacing, _, Replacements::Ready) if !seen.marked => {
            (Replacing, remembering(seen, vec![Step::Mark]))
        }
        (Replacing, Nodes::Free, Replacements::Ready) => (Deleting, vec![Step::Delete]),
        (Replacing, Nodes::Divided, Replacements::Ready) => {
            (Deleting, vec![Step::Delete, Step::Unmark])
        }
        (Replacing, _, Replacements::Coming) => {
            let steps = vec![Step::Mark, Step::AwaitReplacements];
            (Replacing, remembering(seen, steps))
        }
        // What deletes never rolls back, whatever becomes of its replacements.
        (Deleting, Nodes::Free, _) => (Deleting, vec![Step::Delete]),
        (Deleting, Nodes::Divided, _) => (Deleting, vec![Step::Delete, Step::Unmark]),
        (Deleting, Nodes::Kept, _) => (Done, vec![Step::Unmark]),
    }
}

/// What is not deleted for at once may vanish before it is.
fn remembering(seen: Seen, mut steps: Vec<Step>) -> Vec<Step> {
    if seen.news {
        steps.insert(0, Step::Remember);
    }
    steps
}

#[cfg(test)]
mod tests;
