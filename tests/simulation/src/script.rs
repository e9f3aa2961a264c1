//! What happens in one run, drawn from its seed before it begins: a list, so that it can be cut down to what matters.

use std::fmt;

use fakes::Fault;
use model::{
    Lane,
    ledger::{PauseLevel, PauseScope},
};

use crate::{deeds::POOL, dice::Dice};

/// How a cluster is set up, and what happens to it.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub setting: Setting,
    /// In the order of their times.
    pub events: Vec<Event>,
}

/// What holds for a whole run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Whether the relay watches when it is not said to be dead.
    pub relay: bool,
    pub spot: bool,
    pub consolidate_after: &'static str,
    /// Nodes that may be disrupted at once.
    pub budget: i64,
    /// Of each NodePool, in cores.
    pub limit: Option<i64>,
    pub termination_grace_period: Option<&'static str>,
    pub expire_after: Option<&'static str>,
    /// Pods of the Deployment `held` carry `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: bool,
    /// A PodDisruptionBudget keeps all but one pod of `web`.
    pub disruption_budget: bool,
    pub tokens_ignored: bool,
    /// Seconds for which descriptions miss new instances.
    pub describe_lag: i64,
    /// So many of a thousand calls take up to so many seconds.
    pub latency: (u64, i64),
    /// Whether there is a document that functions tell the relay's metrics in: nothing depends on it.
    pub tells: bool,
    /// Seconds by which the clock of each function is ahead.
    pub skews: Vec<(Lane, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Seconds after the cluster was ready.
    pub at: i64,
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
        nodes: i64,
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
    /// A person lets the NodePools be watched only.
    Watched {
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

pub(crate) const DEPLOYMENTS: [&str; 3] = ["web", "batch", "held"];

impl Script {
    pub fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let mut setting = Setting::draw(&mut dice);
        setting.tells = Dice::new(seed, 6).chance(300);
        // Each run knows only some of what can happen, so that rare things meet each other.
        let known: Vec<usize> = (0..KINDS).filter(|_| dice.chance(400)).collect();
        let count = dice.between(EVENTS_LEAST, EVENTS_MOST);
        let mut events = vec![Event {
            at: 1,
            what: scale(&mut dice),
        }];
        for _ in 0..count {
            let kind = match dice.chance(350) {
                true => 0,
                false => dice.pick(&known).copied().unwrap_or(0),
            };
            events.push(Event {
                at: dice.between(1, TROUBLE - 1),
                what: what(kind, &mut dice),
            });
        }
        let mut forced = Dice::new(seed, 7);
        if forced.chance(300) {
            let what = What::NodeClaimForced;
            events.extend((0..3).map(|_| Event {
                at: forced.between(1, TROUBLE - 1),
                what: what.clone(),
            }));
        }
        let mut people = Dice::new(seed, 8);
        if people.chance(300) {
            let count = people.between(1, 3);
            events.extend((0..count).map(|_| Event {
                at: people.between(1, TROUBLE - 1),
                what: held_back(&mut people),
            }));
        }
        events.sort_by_key(|event| event.at);
        Self {
            seed,
            setting,
            events,
        }
    }
}

impl Setting {
    fn draw(dice: &mut Dice) -> Self {
        let skewed = dice.chance(300);
        let lanes = Lane::WOKEN
            .into_iter()
            .chain([Lane::Interruption, Lane::Housekeeper]);
        Self {
            relay: dice.chance(700),
            spot: dice.chance(500),
            consolidate_after: dice
                .pick(&["15s", "60s", "Never"])
                .copied()
                .unwrap_or("Never"),
            budget: dice.pick(&[1, 2, 100]).copied().unwrap_or(100),
            limit: dice.chance(400).then(|| dice.between(6, 24)),
            termination_grace_period: dice.chance(250).then_some("5m"),
            expire_after: dice.chance(150).then_some("10m"),
            do_not_disrupt: dice.chance(300),
            disruption_budget: dice.chance(500),
            tokens_ignored: dice.chance(200),
            describe_lag: if dice.chance(300) {
                dice.between(1, 150)
            } else {
                0
            },
            latency: dice
                .pick(&[(0, 0), (0, 0), (100, 2), (300, 5)])
                .copied()
                .unwrap_or_default(),
            tells: true,
            skews: lanes
                .map(|lane| (lane, if skewed { dice.between(-20, 20) } else { 0 }))
                .collect(),
        }
    }
}

fn scale(dice: &mut Dice) -> What {
    let deployment = dice.pick(&DEPLOYMENTS).copied().unwrap_or("web");
    let most = if deployment == "held" { 2 } else { 9 };
    What::Scale {
        deployment,
        replicas: dice.index(most + 1),
    }
}

const KINDS: usize = 26;

fn what(kind: usize, dice: &mut Dice) -> What {
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
            nodes: dice.between(0, 3),
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
        _ => scale(dice),
    }
}

fn held_back(dice: &mut Dice) -> What {
    let seconds = dice.between(20, 480);
    if dice.chance(300) {
        return What::Watched { seconds };
    }
    let levels = [PauseLevel::Voluntary, PauseLevel::All];
    let scopes = [
        PauseScope::Account,
        PauseScope::Cluster,
        PauseScope::NodePool(POOL.into()),
    ];
    What::Paused {
        level: dice.pick(&levels).copied().unwrap_or(PauseLevel::All),
        scope: dice.pick(&scopes).cloned().unwrap_or(PauseScope::Cluster),
        seconds,
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}s {:?}", self.at, self.what)
    }
}
