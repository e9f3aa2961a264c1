//! What happens in one run, drawn from its seed before it begins: a list, so that it can be cut down to what matters.

mod combined;
mod gated;
mod lasting;
mod setting;
mod table;

use std::fmt;

use fakes::{Admission, Fault, Protection, TableFaults};
use model::{
    CapacityType,
    ledger::{PauseLevel, PauseScope},
};

pub(crate) use self::setting::{TEAM, WINDOW};
pub use self::{
    gated::{Ailment, Cause, Gated},
    lasting::Refusing,
    setting::{BudgetSetting, PoolSetting, Setting},
};
use crate::dice::Dice;

/// How a cluster is set up, and what happens to it.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub setting: Setting,
    /// In the order of their times.
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Seconds after the cluster was ready.
    pub at: i64,
    /// Index of the cluster that it concerns.
    pub cluster: usize,
    pub what: What,
}

/// Something that others do, or that goes wrong for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Scale {
        deployment: &'static str,
        replicas: usize,
    },
    /// AWS takes back so many spot instances: announced, and gone two minutes later.
    SpotStorm {
        nodes: usize,
    },
    Rebalance,
    InstanceDies,
    NoCapacity {
        choice: usize,
        seconds: i64,
    },
    /// No offering of a capacity type is to be had.
    OutOfCapacity {
        capacity_type: CapacityType,
        seconds: i64,
    },
    Blind {
        seconds: i64,
    },
    Truncated {
        hidden: usize,
        seconds: i64,
    },
    /// Nothing answers for it, neither EC2 nor kubelets.
    ZoneOutage {
        seconds: i64,
    },
    NodeDeleted,
    NodeClaimDeleted,
    /// Finalizer and all: nobody is asked to end its instance.
    NodeClaimForced,
    PodDeleted,
    NodeClassEdited,
    LimitEdited {
        cores: i64,
    },
    BudgetEdited {
        nodes: &'static str,
    },
    KubeletSilent {
        seconds: i64,
    },
    RelayDead {
        seconds: i64,
    },
    Shadow {
        seconds: i64,
    },
    KarpenterLeads {
        seconds: i64,
    },
    /// A person holds back what is chosen.
    Paused {
        level: PauseLevel,
        scope: PauseScope,
        seconds: i64,
    },
    /// A person lets a NodePool be watched only.
    Watched {
        pool: &'static str,
        seconds: i64,
    },
    Down {
        port: Port,
        seconds: i64,
    },
    /// So many of a thousand calls fail so.
    Faults {
        port: Port,
        fault: Fault,
        permille: u64,
        seconds: i64,
    },
    /// Calls of one name are not answered, or end their process, after they took effect or before.
    CallFails {
        call: &'static str,
        /// `None` if the process ends after the call.
        fault: Option<Fault>,
        permille: u64,
        seconds: i64,
    },
    Slow {
        permille: u64,
        most: i64,
        seconds: i64,
    },
    Crashes {
        permille: u64,
        seconds: i64,
    },
    WakesLost {
        permille: u64,
        seconds: i64,
    },
    WakesDoubled {
        permille: u64,
        seconds: i64,
    },
    WakesLate {
        permille: u64,
        most: i64,
        seconds: i64,
    },
    SweepsMissed {
        seconds: i64,
    },
    /// EC2 refuses to end an instance until a person sees to it; a person may delete its NodeClaim meanwhile.
    InstanceRefuses {
        why: Protection,
        is_deleted: bool,
    },
    /// Admission policies refuse all changes of an object until a person sees to it, who may delete its NodeClaim before.
    ObjectRefuses {
        object: Refusing,
        how: Admission,
        is_deleted: bool,
    },
    /// A row of one launch, NodeClaim, command or notice cannot be read until a person sees to it.
    RowUnreadable {
        choice: usize,
    },
    /// The registry's parameter of a cluster cannot be read.
    EntryUnreadable {
        seconds: i64,
    },
    /// The ledger's table fails in these ways.
    TableFails {
        faults: TableFaults,
        seconds: i64,
    },
    /// The API server answers each call after many seconds, or not at all.
    ApiServerSlow {
        hangs: bool,
        seconds: i64,
    },
    NodeFails {
        ailment: Ailment,
    },
    /// Nodes fail alike until a person sees to the cause.
    Outbreak {
        cause: Cause,
        ailment: Ailment,
    },
    /// Nodes that the static NodePool is to have.
    Replicas {
        count: usize,
    },
    /// The cluster is deleted, and another one made under its name; `is_known_gone` if EKS tells of it.
    MadeAnew {
        is_known_gone: bool,
    },
}

/// Who does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    Cloud,
    Cluster,
    Ledger,
    Queue,
}

impl Port {
    pub const ALL: [Self; 4] = [Self::Cloud, Self::Cluster, Self::Ledger, Self::Queue];
}

/// Trouble lasts no longer, in seconds; then the cluster must come to rest.
pub(crate) const TROUBLE: i64 = 900;
const EVENTS_LEAST: i64 = 3;
const EVENTS_MOST: i64 = 18;
/// Seeds in which trouble meets what it troubles, per mille.
const COMBINED: u64 = 700;

/// Deployments of every cluster; `team` only where there is a NodePool for it.
pub(crate) const DEPLOYMENTS: [&str; 4] = ["web", "batch", "held", TEAM];

impl Script {
    pub fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let mut setting = Setting::draw(&mut dice);
        let mut events = lasting::draw(&mut Dice::new(seed, 11), &mut setting);
        for cluster in 0..setting.clusters {
            let at = 1;
            let what = scale(&mut dice, &setting);
            events.push(Event { at, cluster, what });
            events.extend(drawn(&mut dice, &setting, cluster));
            let mut forced = Dice::new(seed, 7);
            if forced.chance(300) {
                let what = What::NodeClaimForced;
                events.extend((0..3).map(|_| Event {
                    at: forced.between(1, TROUBLE - 1),
                    cluster,
                    what: what.clone(),
                }));
            }
            let mut people = Dice::new(seed, 8);
            if people.chance(300) {
                let count = people.between(1, 3);
                events.extend((0..count).map(|_| Event {
                    at: people.between(1, TROUBLE - 1),
                    cluster,
                    what: held_back(&mut people, &setting),
                }));
            }
            let mut combined = Dice::new(seed, 9);
            if combined.chance(COMBINED) {
                for _ in 0..combined.between(1, 2) {
                    events.extend(combined::draw(&mut combined, cluster, &mut setting));
                }
            }
        }
        events.extend(Gated::draw(seed, &mut setting));
        events.extend(table::draw(&mut Dice::new(seed, 12), &setting));
        if setting.wave {
            events.extend(wave(&mut Dice::new(seed, 10)));
        }
        events.sort_by_key(|event| event.at);
        Self {
            seed,
            setting,
            events,
        }
    }
}

/// Hundreds of pods come, each of which needs a node of its own, and most of them go again.
fn wave(dice: &mut Dice) -> [Event; 2] {
    let begin = dice.between(30, TROUBLE / 3);
    let event = |at, replicas| Event {
        at,
        cluster: 0,
        what: What::Scale {
            deployment: "web",
            replicas,
        },
    };
    [
        event(begin, dice.index(130) + 120),
        event(begin + dice.between(120, TROUBLE / 2), dice.index(20)),
    ]
}

/// Events that know nothing of each other. Each run knows only some of what can happen, so that rare things meet.
fn drawn(dice: &mut Dice, setting: &Setting, cluster: usize) -> Vec<Event> {
    let known: Vec<usize> = (0..KINDS).filter(|_| dice.chance(400)).collect();
    let count = dice.between(EVENTS_LEAST, EVENTS_MOST);
    let mut events = Vec::new();
    for _ in 0..count {
        let kind = match dice.chance(350) {
            true => 0,
            false => dice.pick(&known).copied().unwrap_or(0),
        };
        events.push(Event {
            at: dice.between(1, TROUBLE - 1),
            cluster,
            what: what(kind, dice, setting),
        });
    }
    events
}

fn scale(dice: &mut Dice, setting: &Setting) -> What {
    let count = DEPLOYMENTS.len() - usize::from(!setting.has_team());
    let deployment = DEPLOYMENTS.get(dice.index(count));
    let deployment = deployment.copied().unwrap_or("web");
    let most = if deployment == "held" { 2 } else { 9 };
    What::Scale {
        deployment,
        replicas: dice.index(most + 1),
    }
}

const KINDS: usize = 27;

fn what(kind: usize, dice: &mut Dice, setting: &Setting) -> What {
    let port = dice.pick(&Port::ALL).copied().unwrap_or(Port::Cluster);
    let faults = [
        Fault::Throttled,
        Fault::Unavailable,
        Fault::LostAnswer,
        Fault::Conflict,
    ];
    let fault = dice.pick(&faults).copied().unwrap_or(Fault::Unavailable);
    let seconds = dice.between(20, 240);
    let permille = dice.pick(&[20, 100, 300, 800]).copied().unwrap_or(100);
    match kind {
        1 => What::SpotStorm {
            nodes: dice.index(4) + 1,
        },
        2 => What::Rebalance,
        3 => What::InstanceDies,
        4 => What::NoCapacity {
            choice: dice.index(12),
            seconds,
        },
        5 => What::Blind { seconds },
        6 => What::Truncated {
            hidden: dice.index(4) + 1,
            seconds: seconds * 3,
        },
        7 => What::ZoneOutage {
            seconds: seconds * 3,
        },
        8 => What::NodeDeleted,
        9 => What::NodeClaimDeleted,
        10 => What::PodDeleted,
        11 => What::NodeClassEdited,
        12 => What::LimitEdited {
            cores: dice.between(4, 30),
        },
        13 => What::BudgetEdited {
            nodes: match dice.chance(200) {
                true => "0",
                false => setting::budget(dice),
            },
        },
        14 => What::KubeletSilent { seconds },
        15 => What::RelayDead {
            seconds: seconds * 2,
        },
        16 => What::Shadow { seconds },
        17 => What::KarpenterLeads { seconds },
        18 => What::Down { port, seconds },
        19 => What::Faults {
            port,
            fault,
            permille,
            seconds,
        },
        20 => What::Slow {
            permille,
            most: dice.between(1, 25),
            seconds,
        },
        21 => What::Crashes {
            permille: permille / 10,
            seconds,
        },
        22 => What::WakesLost { permille, seconds },
        23 => What::WakesDoubled { permille, seconds },
        24 => What::WakesLate {
            permille,
            most: dice.between(5, 120),
            seconds,
        },
        25 => What::SweepsMissed { seconds },
        26 => What::OutOfCapacity {
            capacity_type: match dice.chance(700) {
                true => CapacityType::Spot,
                false => CapacityType::OnDemand,
            },
            seconds,
        },
        _ => scale(dice, setting),
    }
}

fn held_back(dice: &mut Dice, setting: &Setting) -> What {
    let seconds = dice.between(20, 480);
    let pools: Vec<_> = setting.pools.iter().map(|pool| pool.name).collect();
    let pool = dice.pick(&pools).copied().unwrap_or_default();
    if dice.chance(300) {
        return What::Watched { pool, seconds };
    }
    let levels = [PauseLevel::Voluntary, PauseLevel::All];
    let scopes = [
        PauseScope::Account,
        PauseScope::Cluster,
        PauseScope::NodePool(pool.into()),
    ];
    What::Paused {
        level: dice.pick(&levels).copied().unwrap_or(PauseLevel::All),
        scope: dice.pick(&scopes).cloned().unwrap_or(PauseScope::Cluster),
        seconds,
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}s {} {:?}", self.at, self.cluster, self.what)
    }
}
