//! Where a command leads: what nodes cost once nothing is left to do, and how many pods have been moved until then.

use jiff::SignedDuration;
use model::Snapshot;

use super::{Command, Pass, foresight};

/// Longer courses are compared as far as they have come.
const STEPS_MAX: usize = 60;
const PER_STEP: SignedDuration = SignedDuration::from_mins(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    /// Of all nodes at the end, per hour.
    pub(super) cost: i64,
    pub(super) moved: usize,
}

/// Carries the commands out, and then whatever a look finds, step by step.
pub(super) fn follow(
    snapshot: &Snapshot,
    commands: &[Command],
    look: impl Fn(&Snapshot) -> Pass,
) -> Course {
    let mut snapshot = snapshot.clone();
    let mut moved = 0;
    for (at, command) in commands.iter().enumerate() {
        let mut command = command.clone();
        for launch in &mut command.replacements {
            launch.name.0 = format!("{}-{at}", launch.name);
        }
        moved += foresight::carry_out(&command, &mut snapshot);
    }
    for _ in 1..STEPS_MAX {
        snapshot.now += PER_STEP;
        let pass = look(&snapshot);
        if pass.commands.is_empty() {
            break;
        }
        let carried_out = pass.commands.iter();
        moved += carried_out
            .map(|command| foresight::carry_out(command, &mut snapshot))
            .sum::<usize>();
    }
    Course {
        cost: foresight::cost(&snapshot).0,
        moved,
    }
}
