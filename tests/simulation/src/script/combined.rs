//! Trouble that meets what it troubles. Most rules matter only while two things happen at once, which independent events bring about too
//! seldom for a planted bug to be found within some dozens of seeds.

use fakes::Fault;
use model::CapacityType;

use super::{Event, Port, TROUBLE, What};
use crate::dice::Dice;

/// Kinds of encounters.
const KINDS: usize = 7;
/// Seconds before the end of the trouble after which none begins.
const LAST: i64 = 300;

/// Events of one encounter, all of one cluster.
pub(super) fn draw(dice: &mut Dice, cluster: usize) -> Vec<Event> {
    let begin = dice.between(30, TROUBLE - LAST);
    let seconds = dice.between(60, 120);
    let web = |replicas| What::Scale {
        deployment: "web",
        replicas,
    };
    let faults = |port, fault, permille| What::Faults {
        port,
        fault,
        permille,
        seconds,
    };
    let (few, many) = (dice.index(2) + 1, dice.index(4) + 6);
    let events = match dice.index(KINDS) {
        // Launches whose answers are lost.
        0 => vec![
            (0, faults(Port::Cloud, Fault::LostAnswer, 600)),
            (1, web(many)),
        ],
        // Launches whose processes die.
        1 => vec![
            (
                0,
                What::Crashes {
                    permille: 60,
                    seconds,
                },
            ),
            (1, web(many)),
        ],
        // Notices that cannot be recorded at once.
        2 => vec![
            (0, faults(Port::Ledger, Fault::Unavailable, 500)),
            (1, What::SpotStorm { nodes: 2 }),
            (20, What::SpotStorm { nodes: 2 }),
        ],
        // A cluster is put to shadow mode, or another leads it, while nodes drain.
        3 => vec![
            (0, web(many)),
            (120, What::NodeClaimDeleted),
            (121, What::NodeClaimDeleted),
            (
                122,
                What::Shadow {
                    seconds: seconds * 2,
                },
            ),
        ],
        4 => vec![
            (0, web(many)),
            (120, What::NodeClaimDeleted),
            (121, What::NodeDeleted),
            (122, What::KarpenterLeads { seconds }),
        ],
        // A capacity type is not to be had, while pods wait for it.
        5 => {
            let types = [CapacityType::Spot, CapacityType::OnDemand];
            let capacity_type = dice.pick(&types).copied().unwrap_or(CapacityType::Spot);
            let lacks = What::OutOfCapacity {
                capacity_type,
                seconds: seconds * 4,
            };
            vec![(0, lacks), (1, web(many)), (90, web(few)), (150, web(many))]
        }
        // Turns fail, and nobody but their lane's row says that they must look again.
        _ => vec![
            (0, faults(Port::Cluster, Fault::Unavailable, 300)),
            (
                0,
                What::WakesLost {
                    permille: 800,
                    seconds: seconds * 2,
                },
            ),
            (1, web(many)),
            (60, web(few)),
        ],
    };
    let events = events.into_iter();
    let events = events.map(|(after, what)| Event {
        at: begin + after,
        cluster,
        what,
    });
    events.collect()
}
