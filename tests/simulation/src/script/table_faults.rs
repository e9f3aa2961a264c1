//! Faults of the ledger's table: conflicts, unprocessed items and throttling, which the ledger has to handle.

use fakes::TableFaults;

use super::{Event, EventKind, FAULT_SECONDS, Setting};
use crate::rng::Rng;

/// Probability that a seed has faults of the table, per mille.
const CHANCE: u64 = 300;
/// Most requests that conflict, or batches that are cut short: more than the retries of one request.
const REQUESTS_MAX: i64 = 40;

/// Draws faults for all clusters of a seed, which share the table. Each fault replaces the one before.
pub(super) fn draw(rng: &mut Rng, setting: &Setting) -> Vec<Event> {
    if !rng.chance(CHANCE) {
        return Vec::new();
    }
    let event = |rng: &mut Rng| Event {
        at: rng.between(1, FAULT_SECONDS - 1),
        cluster: rng.index(setting.clusters),
        kind: EventKind::TableFails {
            faults: faults(rng),
            seconds: rng.between(20, 240),
        },
    };
    (0..rng.between(1, 3)).map(|_| event(rng)).collect()
}

fn faults(rng: &mut Rng) -> TableFaults {
    let none = TableFaults::default();
    let count = u32::try_from(rng.between(1, REQUESTS_MAX)).unwrap_or(1);
    match rng.index(4) {
        0 => TableFaults {
            conflicts_of_transactions: count,
            ..none
        },
        1 => TableFaults {
            conflicts_of_writes: count,
            ..none
        },
        2 => TableFaults {
            unprocessed: count,
            ..none
        },
        _ => TableFaults {
            throttles: true,
            ..none
        },
    }
}
