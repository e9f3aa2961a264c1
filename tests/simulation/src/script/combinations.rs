//! Faults that coincide with the events that they affect. Most rules matter only while two events coincide, which independent events
//! cause too rarely for a planted bug to be found within some dozens of seeds.

use fakes::Fault;
use model::CapacityType;

use super::{Event, EventKind, FAULT_SECONDS, Setting};
use crate::rng::Rng;

/// Kinds of combinations.
const KINDS: usize = 9;
/// Seconds before the end of the fault phase after which no combination begins.
const BEGUN_BEFORE_END: i64 = 300;
/// Seconds after which the pods of a scaled Deployment run.
const RUNS_AFTER: i64 = 150;

/// Draws the events of one combination, all of one cluster, and adapts the setting so that they can coincide.
pub(super) fn draw(rng: &mut Rng, cluster: usize, setting: &mut Setting) -> Vec<Event> {
    let begin = rng.between(30, FAULT_SECONDS - BEGUN_BEFORE_END);
    let seconds = rng.between(60, 120);
    let scale = |deployment, replicas| EventKind::Scale {
        deployment,
        replicas,
    };
    let fails = |call, fault, permille| EventKind::CallFails {
        call,
        fault,
        permille,
        seconds,
    };
    let mut is_spot = false;
    let (few, many) = (rng.index(2) + 1, rng.index(4) + 6);
    let web = |replicas| scale("web", replicas);
    let events = match rng.index(KINDS) {
        // Launches whose responses are lost.
        0 => vec![
            (0, fails("launch", Some(Fault::LostAnswer), 700)),
            (1, web(many)),
        ],
        // Launches whose processes crash.
        1 => vec![(0, fails("launch", None, 500)), (1, web(many))],
        // Notices that cannot be recorded immediately.
        2 => {
            is_spot = true;
            let storm = EventKind::SpotStorm { nodes: 2 };
            let refused = fails("record_unfenced", Some(Fault::Unavailable), 600);
            let at = RUNS_AFTER;
            vec![
                (0, web(many)),
                (at, refused),
                (at + 1, storm.clone()),
                (at + 40, storm),
            ]
        }
        // A cluster is switched to shadow mode, or another controller leads it, while nodes drain.
        3 => {
            let idle = match rng.chance(500) {
                true => EventKind::Shadow {
                    seconds: seconds * 2,
                },
                false => EventKind::KarpenterLeads { seconds },
            };
            let at = RUNS_AFTER;
            vec![
                (0, web(many)),
                (at, EventKind::NodeClaimDeleted),
                (at + 1, EventKind::NodeDeleted),
                (at + 2, idle),
            ]
        }
        // A capacity type is unavailable while pods wait for it.
        4 => {
            let types = [CapacityType::Spot, CapacityType::OnDemand];
            let capacity_type = rng.pick(&types).copied().unwrap_or(CapacityType::Spot);
            is_spot = capacity_type == CapacityType::Spot;
            let lacks = EventKind::OutOfCapacity {
                capacity_type,
                seconds: seconds * 4,
            };
            vec![(0, lacks), (1, web(many)), (90, web(few)), (150, web(many))]
        }
        // Turns fail, and only their lane's row says that the lane is due again.
        5 => {
            let lost = EventKind::WakesLost {
                permille: 800,
                seconds: seconds * 2,
            };
            vec![
                (0, fails("nodes", Some(Fault::Unavailable), 500)),
                (0, lost),
                (1, web(many)),
                (60, web(few)),
            ]
        }
        // Nodes drift while pods arrive, and calls are slow enough for turns to overlap.
        6 => {
            let slow = EventKind::Slow {
                permille: 500,
                most: 6,
                seconds: seconds * 2,
            };
            let at = RUNS_AFTER;
            vec![
                (0, web(many)),
                (at, slow),
                (at, EventKind::NodeClassEdited),
                (at + 5, scale("batch", many)),
                (at + 20, scale("batch", few)),
                (at + 35, web(many + 1)),
                (at + 50, scale("batch", many)),
            ]
        }
        // All nodes drift, and few may be replaced concurrently.
        7 => vec![
            (0, EventKind::BudgetEdited { nodes: "1" }),
            (1, web(many)),
            (2, scale("batch", many)),
            (RUNS_AFTER + 30, EventKind::NodeClassEdited),
        ],
        // Nodes are deleted whose pods must not be disrupted.
        _ => {
            setting.do_not_disrupt = true;
            let at = RUNS_AFTER;
            vec![
                (0, scale("held", 2)),
                (1, web(few)),
                (at, EventKind::NodeClaimDeleted),
                (at + 60, EventKind::NodeDeleted),
                (at + 61, scale("web", 0)),
            ]
        }
    };
    if let Some(pool) = setting.pools.first_mut() {
        pool.spot |= is_spot;
    }
    let events = events.into_iter();
    let events = events.map(|(after, kind)| Event {
        at: begin + after,
        cluster,
        kind,
    });
    events.collect()
}
