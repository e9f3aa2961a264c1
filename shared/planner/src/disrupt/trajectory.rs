//! Trajectory of a command: price of the cluster once no further move pays, and the number of pods moved until then.

use jiff::SignedDuration;
use model::{Snapshot, ledger::Cursor};

use super::{Command, DisruptionResult, simulate_apply};

/// Upper bound on the steps of a trajectory. Longer ones are compared by the cluster after this many steps.
const STEPS_MAX: usize = 100;
/// Simulated time between two steps.
const STEP_DURATION: SignedDuration = SignedDuration::from_mins(5);

/// End state of a sequence of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trajectory {
    /// Price of all nodes at the end, per hour.
    pub(super) cost: i64,
    pub(super) moved: usize,
}

/// Applies a command, then the commands of each following evaluation; the first evaluation continues `plan`.
pub(super) fn follow(
    snapshot: &Snapshot,
    command: Option<&Command>,
    plan: Option<Cursor>,
    evaluate: impl Fn(&Snapshot) -> DisruptionResult,
) -> Trajectory {
    let mut snapshot = snapshot.clone();
    let mut moved = command.map_or(0, |command| {
        simulate_apply::carry_out(command, &mut snapshot)
    });
    snapshot.cursor = plan;
    for _ in 1..STEPS_MAX {
        snapshot.now += STEP_DURATION;
        let result = evaluate(&snapshot);
        if result.commands.is_empty() {
            break;
        }
        let carried_out = result.commands.iter();
        moved += carried_out
            .map(|command| simulate_apply::carry_out(command, &mut snapshot))
            .sum::<usize>();
        snapshot.cursor = result.cursor.filter(|cursor| !cursor.is_unfinished());
    }
    Trajectory {
        cost: simulate_apply::cost(&snapshot).0,
        moved,
    }
}
