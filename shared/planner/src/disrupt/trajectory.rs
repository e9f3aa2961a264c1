//! Trajectory of a command: price of the cluster once no further move pays, with the preferences given up on the way, and the
//! number of pods moved until then.

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
    /// Price of all nodes at the end, and value of the preferences that its commands gave up, per hour.
    pub(super) cost: i64,
    /// Price of all nodes at the end, per hour.
    pub(super) price: i64,
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
    let (mut moved, mut lost) = (0, 0_i64);
    let mut carry_out = |command: &Command, snapshot: &mut Snapshot| {
        moved += simulate_apply::carry_out(command, snapshot);
        lost = lost.saturating_add(command.preferences_lost.0);
    };
    if let Some(command) = command {
        carry_out(command, &mut snapshot);
    }
    snapshot.cursor = plan;
    for _ in 1..STEPS_MAX {
        snapshot.now += STEP_DURATION;
        let result = evaluate(&snapshot);
        if result.commands.is_empty() {
            break;
        }
        for command in &result.commands {
            carry_out(command, &mut snapshot);
        }
        snapshot.cursor = result.cursor.filter(|cursor| !cursor.is_unfinished());
    }
    let price = simulate_apply::cost(&snapshot).0;
    Trajectory {
        cost: price.saturating_add(lost),
        price,
        moved,
    }
}
