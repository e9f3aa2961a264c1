//! Convergence: commands are carried out five minutes after each other until none is left.

use jiff::SignedDuration;
use model::Snapshot;
use planner::{DisruptionResult, simulate_apply};
use serde_json::{Value, json};

use crate::decision;

/// Upper bound on the steps, which ends a cycle.
const STEPS_MAX: usize = 1_000;
const PER_STEP: SignedDuration = SignedDuration::from_mins(5);

/// The first evaluation, and the final state after all of them.
pub(super) fn converge(
    mut snapshot: Snapshot,
    evaluate: fn(&Snapshot) -> DisruptionResult,
) -> (DisruptionResult, Value) {
    let first = evaluate(&snapshot);
    let (mut steps, mut pods_moved) = (0, 0);
    let mut pass = first.clone();
    while !pass.commands.is_empty() && steps < STEPS_MAX {
        for command in &pass.commands {
            pods_moved += simulate_apply::carry_out(command, &mut snapshot);
        }
        steps += 1;
        snapshot.now += PER_STEP;
        snapshot.cursor = pass.cursor.filter(|cursor| !cursor.is_unfinished());
        pass = evaluate(&snapshot);
    }
    let end = json!({
        "finalCost": decision::dollars(simulate_apply::cost(&snapshot)),
        "podsMoved": pods_moved,
        "steps": steps,
    });
    (first, end)
}
