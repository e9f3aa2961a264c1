//! Features behind gates, which few seeds know: node repair, static NodePools and capacity reservations.

use super::{Event, Setting, TROUBLE, What};
use crate::dice::Dice;

/// Seeds that know each feature, per mille.
const REPAIR: u64 = 160;
const STATIC: u64 = 130;
const RESERVED: u64 = 130;
/// Of the seeds that know repair, the share in which many nodes fail alike, per mille.
const OUTBREAKS: u64 = 400;
/// Seconds until there are nodes that can fail.
const NODES_AFTER: i64 = 200;
/// Attempts to let a node fail: there may be none that is well, and no second one fails beside the first.
const ATTEMPTS: usize = 4;
/// Most nodes of a static NodePool.
const REPLICAS_MAX: usize = 4;

/// Features that are switched on in a whole run.
#[derive(Clone, Debug, Default)]
pub struct Gated {
    /// Nodes that stay unhealthy are replaced.
    pub repairs: bool,
    /// Nodes that a static NodePool is to have at first.
    pub replicas: Option<usize>,
    /// Instances of a capacity reservation that all NodePools may launch into.
    pub reserved: Option<u32>,
    /// Nodes that have to may go before their replacement.
    pub terminates_first: bool,
}

/// A part of a machine that fails for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ailment {
    Storage,
    Accelerator,
}

/// Why nodes fail alike: those that come later with it fail, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The AMI that a NodeClass selects from then on.
    Image,
    Zone(&'static str),
    /// The API server hears of no kubelet any more.
    ApiServer,
}

impl Gated {
    pub(super) fn draw(seed: u64, setting: &mut Setting) -> Vec<Event> {
        let mut dice = Dice::new(seed, 13);
        // A wave has nodes of one type, and takes long enough without.
        if setting.wave {
            return Vec::new();
        }
        let mut events = Vec::new();
        if dice.chance(REPAIR) {
            setting.gated.repairs = true;
            events.extend(failures(&mut dice, setting.clusters));
        }
        if dice.chance(STATIC) {
            setting.gated.replicas = Some(dice.index(REPLICAS_MAX));
            events.extend((0..dice.between(1, 2)).map(|_| Event {
                at: dice.between(1, TROUBLE - 1),
                cluster: dice.index(setting.clusters),
                what: What::Replicas {
                    count: dice.index(REPLICAS_MAX + 1),
                },
            }));
        }
        // Clusters that share a reservation cannot count on it.
        if setting.clusters == 1 && dice.chance(RESERVED) {
            setting.gated.reserved = u32::try_from(dice.between(1, 3)).ok();
        }
        setting.gated.terminates_first = dice.chance(500);
        events
    }
}

fn failures(dice: &mut Dice, clusters: usize) -> Vec<Event> {
    let cluster = dice.index(clusters);
    let ailments = [Ailment::Storage, Ailment::Accelerator];
    let ailment = dice.pick(&ailments).copied().unwrap_or(Ailment::Storage);
    let single = |dice: &mut Dice| Event {
        at: dice.between(NODES_AFTER, TROUBLE - 1),
        cluster,
        what: What::NodeFails { ailment },
    };
    if !dice.chance(OUTBREAKS) {
        let scaled = Event {
            at: NODES_AFTER / 4,
            cluster,
            what: What::Scale {
                deployment: "web",
                replicas: 4,
            },
        };
        let attempts = (0..ATTEMPTS).map(|_| single(dice));
        return [scaled].into_iter().chain(attempts).collect();
    }
    let causes = [
        Cause::Image,
        Cause::Zone("us-east-1a"),
        Cause::Zone("us-east-1b"),
        Cause::ApiServer,
    ];
    let cause = dice.pick(&causes).copied().unwrap_or(Cause::ApiServer);
    let outbreak = Event {
        at: dice.between(NODES_AFTER, TROUBLE - 1),
        cluster,
        what: What::Outbreak { cause, ailment },
    };
    vec![outbreak]
}
