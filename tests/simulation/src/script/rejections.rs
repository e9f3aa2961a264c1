//! Faults of one object or one cluster: rejected changes and unreadable rows until a user intervenes, slow or hanging API
//! servers, and clusters that are recreated under their name.

use fakes::{Admission, Protection};

use super::{Event, EventKind, FAULT_SECONDS, Setting};
use crate::rng::Rng;

/// Probability that a seed has such faults, per mille.
const CHANCE: u64 = 350;
/// Probability of a second cluster beside one with an API server fault, per mille.
const NEIGHBOURS: u64 = 500;
/// Seconds until there are objects whose changes can be rejected.
const OBJECTS_AFTER: i64 = 120;
/// Seconds before the end of the fault phase after which no cluster is recreated.
const RECREATED_BEFORE_END: i64 = 240;

/// Kinds of such faults.
const KINDS: usize = 8;
/// Number of kinds that concern a single object; these come first.
const KINDS_OF_OBJECTS: usize = 5;

/// An object whose changes an admission policy may reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedObject {
    Node,
    NodeClaim,
    Pod,
    NodePool,
    NodeClass,
}

/// Draws such faults. Most concern the first cluster; its neighbour must not be affected.
pub(super) fn draw(rng: &mut Rng, setting: &mut Setting) -> Vec<Event> {
    if !rng.chance(CHANCE) {
        return Vec::new();
    }
    // A burst takes long enough in one cluster that is not recreated.
    let kinds = match setting.burst {
        true => KINDS_OF_OBJECTS,
        false => KINDS,
    };
    let mut events = Vec::new();
    for _ in 0..rng.between(1, 3) {
        let kind = draw_kind(rng, kinds);
        if kind.is_of_api_server() && rng.chance(NEIGHBOURS) {
            setting.clusters = 2;
        }
        let last = match kind {
            EventKind::ClusterRecreated { .. } => FAULT_SECONDS - RECREATED_BEFORE_END,
            _ => FAULT_SECONDS - 1,
        };
        events.push(Event {
            at: rng.between(OBJECTS_AFTER, last),
            cluster: rng.index(setting.clusters),
            kind,
        });
    }
    events
}

fn draw_kind(rng: &mut Rng, kinds: usize) -> EventKind {
    let is_deleted = rng.chance(600);
    let admissions = [Admission::Denied, Admission::Invalid];
    let how = rng.pick(&admissions).copied();
    let how = how.unwrap_or(Admission::Denied);
    let refuses = |object| EventKind::ObjectRefuses {
        object,
        how,
        is_deleted,
    };
    let protections = [
        Protection::Termination,
        Protection::Unauthorized,
        Protection::State,
    ];
    let why = rng.pick(&protections).copied();
    let seconds = rng.between(60, 420);
    match rng.index(kinds) {
        0 => EventKind::InstanceRefuses {
            why: why.unwrap_or(Protection::Termination),
            is_deleted,
        },
        1 => refuses(RejectedObject::Node),
        2 => refuses(RejectedObject::NodeClaim),
        3 => {
            let objects = [
                RejectedObject::Pod,
                RejectedObject::NodePool,
                RejectedObject::NodeClass,
            ];
            let object = rng.pick(&objects).copied();
            refuses(object.unwrap_or(RejectedObject::Pod))
        }
        4 => EventKind::RowUnreadable {
            choice: rng.index(1000),
        },
        5 => EventKind::EntryUnreadable { seconds },
        6 => EventKind::ApiServerSlow {
            hangs: rng.chance(500),
            seconds,
        },
        _ => EventKind::ClusterRecreated {
            is_known_gone: rng.chance(500),
        },
    }
}

impl EventKind {
    fn is_of_api_server(&self) -> bool {
        matches!(
            self,
            Self::ApiServerSlow { .. } | Self::ClusterRecreated { .. }
        )
    }
}
