//! Faults of the ledger's table: what DynamoDB refuses, leaves out or puts off, below the ledger that copes with it.

use fakes::TableFaults;

use super::{Event, Setting, TROUBLE, What};
use crate::dice::Dice;

/// Seeds that know faults of the table, per mille.
const CHANCE: u64 = 300;
/// Most requests that others' transactions hold up, or batches that are cut short: more than a request is tried again.
const REQUESTS_MAX: i64 = 40;

/// Draws them for all clusters of a seed, which share the table. Each replaces the one before it.
pub(super) fn draw(dice: &mut Dice, setting: &Setting) -> Vec<Event> {
    if !dice.chance(CHANCE) {
        return Vec::new();
    }
    let event = |dice: &mut Dice| Event {
        at: dice.between(1, TROUBLE - 1),
        cluster: dice.index(setting.clusters),
        what: What::TableFails {
            faults: faults(dice),
            seconds: dice.between(20, 240),
        },
    };
    (0..dice.between(1, 3)).map(|_| event(dice)).collect()
}

fn faults(dice: &mut Dice) -> TableFaults {
    let none = TableFaults::default();
    let count = u32::try_from(dice.between(1, REQUESTS_MAX)).unwrap_or(1);
    match dice.index(4) {
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
