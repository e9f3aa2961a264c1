//! Faults of one object or one cluster: refusals and rows that cannot be read until a person sees to them, API servers that are slow or
//! hang, and clusters that are made anew under their name.

use fakes::{Admission, Protection};

use super::{Event, Setting, TROUBLE, What};
use crate::dice::Dice;

/// Seeds that know faults of objects or of one cluster, per mille.
const CHANCE: u64 = 350;
/// Of those that concern one cluster's API server, the share that has a second cluster beside it, per mille.
const NEIGHBOURS: u64 = 500;
/// Seconds until there are objects that can refuse.
const OBJECTS_AFTER: i64 = 120;
/// Seconds before the end of the trouble after which no cluster is made anew.
const ANEW_LAST: i64 = 240;

/// Kinds of such faults.
const KINDS: usize = 8;
/// Those of objects come first.
const KINDS_OF_OBJECTS: usize = 5;

/// An object that an admission policy may keep from being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusing {
    Node,
    NodeClaim,
    Pod,
}

/// Draws the faults of a seed, most of them of the first cluster, whose neighbour has to go on.
pub(super) fn draw(dice: &mut Dice, setting: &mut Setting) -> Vec<Event> {
    if !dice.chance(CHANCE) {
        return Vec::new();
    }
    // Waves take long enough in one cluster that stays.
    let kinds = match setting.wave {
        true => KINDS_OF_OBJECTS,
        false => KINDS,
    };
    let mut events = Vec::new();
    for _ in 0..dice.between(1, 3) {
        let what = what(dice, kinds);
        if what.is_of_api_server() && dice.chance(NEIGHBOURS) {
            setting.clusters = 2;
        }
        let last = match what {
            What::MadeAnew { .. } => TROUBLE - ANEW_LAST,
            _ => TROUBLE - 1,
        };
        events.push(Event {
            at: dice.between(OBJECTS_AFTER, last),
            cluster: dice.index(setting.clusters),
            what,
        });
    }
    events
}

fn what(dice: &mut Dice, kinds: usize) -> What {
    let is_deleted = dice.chance(600);
    let admissions = [Admission::Denied, Admission::Invalid];
    let how = dice.pick(&admissions).copied();
    let how = how.unwrap_or(Admission::Denied);
    let refuses = |object| What::ObjectRefuses {
        object,
        how,
        is_deleted,
    };
    let protections = [
        Protection::Termination,
        Protection::Unauthorized,
        Protection::State,
    ];
    let why = dice.pick(&protections).copied();
    let seconds = dice.between(60, 420);
    match dice.index(kinds) {
        0 => What::InstanceRefuses {
            why: why.unwrap_or(Protection::Termination),
            is_deleted,
        },
        1 => refuses(Refusing::Node),
        2 => refuses(Refusing::NodeClaim),
        3 => refuses(Refusing::Pod),
        4 => What::RowUnreadable {
            choice: dice.index(1000),
        },
        5 => What::EntryUnreadable { seconds },
        6 => What::ApiServerSlow {
            hangs: dice.chance(500),
            seconds,
        },
        _ => What::MadeAnew {
            is_known_gone: dice.chance(500),
        },
    }
}

impl What {
    fn is_of_api_server(&self) -> bool {
        matches!(self, Self::ApiServerSlow { .. } | Self::MadeAnew { .. })
    }
}
