//! The script of one run, drawn from its seed before the run begins: a list of events, so that it can be shrunk.

mod combinations;
mod gated_features;
mod rejections;
mod setting;
mod table_faults;

use std::fmt;

use fakes::{Admission, Fault, Protection, TableFaults};
use model::{
    CapacityType,
    ledger::{PauseLevel, PauseScope},
};

pub(crate) use self::setting::{TEAM, WINDOW};
pub use self::{
    gated_features::{CommonCause, FailureMode, GatedFeatures},
    rejections::RejectedObject,
    setting::{BudgetSetting, PoolSetting, Setting},
};
use crate::rng::Rng;

/// Setup of the clusters, and the events of a run.
#[derive(Clone, Debug)]
pub struct Script {
    pub seed: u64,
    pub setting: Setting,
    /// Sorted by time.
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Seconds after the cluster was ready.
    pub at: i64,
    /// Index of the cluster concerned.
    pub cluster: usize,
    pub kind: EventKind,
}

/// An action of a user or of AWS, or a temporary fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    Scale {
        deployment: &'static str,
        replicas: usize,
    },
    /// AWS reclaims this many spot instances, two minutes after announcing it.
    SpotStorm {
        nodes: usize,
    },
    Rebalance,
    InstanceDies,
    NoCapacity {
        choice: usize,
        seconds: i64,
    },
    /// No offering of a capacity type has capacity.
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
    /// Neither EC2 nor kubelets of the cluster respond.
    ZoneOutage {
        seconds: i64,
    },
    NodeDeleted,
    NodeClaimDeleted,
    /// The NodeClaim is removed with its finalizer, so no component is asked to terminate its instance.
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
    /// A user pauses this scope.
    Paused {
        level: PauseLevel,
        scope: PauseScope,
        seconds: i64,
    },
    /// A user switches a NodePool to shadow mode.
    CheckedPorts {
        pool: &'static str,
        seconds: i64,
    },
    Down {
        port: Port,
        seconds: i64,
    },
    /// Calls of a port fail with this fault; `permille` is their failure rate.
    Faults {
        port: Port,
        fault: Fault,
        permille: u64,
        seconds: i64,
    },
    /// Calls of one name fail, or crash their process.
    CallFails {
        call: &'static str,
        /// `None` if the process crashes after the call.
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
    /// EC2 refuses to terminate an instance until a user allows it; the user may delete its NodeClaim before.
    InstanceRefuses {
        why: Protection,
        is_deleted: bool,
    },
    /// An admission policy rejects all changes of an object until a user removes it; the user may delete the NodeClaim before.
    ObjectRefuses {
        object: RejectedObject,
        how: Admission,
        is_deleted: bool,
    },
    /// A ledger row of one launch, NodeClaim, command or notice cannot be read until a user restores it.
    RowUnreadable {
        choice: usize,
    },
    /// The registry entry of a cluster cannot be read.
    EntryUnreadable {
        seconds: i64,
    },
    /// The ledger's table fails in these ways.
    TableFails {
        faults: TableFaults,
        seconds: i64,
    },
    /// The API server answers each call after many seconds, or never.
    ApiServerSlow {
        hangs: bool,
        seconds: i64,
    },
    NodeFails {
        failure_mode: FailureMode,
    },
    /// Several nodes fail for a common cause until a user fixes it.
    Outbreak {
        cause: CommonCause,
        failure_mode: FailureMode,
    },
    /// Changes the number of nodes of the static NodePool.
    Replicas {
        count: usize,
    },
    /// The cluster is deleted, and another one created under its name; `is_known_gone` if EKS reports it.
    ClusterRecreated {
        is_known_gone: bool,
    },
}

/// A port whose calls can fail.
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

/// Length of the fault phase in seconds; after it the cluster must converge.
pub(crate) const FAULT_SECONDS: i64 = 900;
const EVENTS_MIN: i64 = 3;
const EVENTS_MAX: i64 = 18;
/// Probability of events that are drawn to coincide, per mille.
const COMBINATIONS: u64 = 700;

/// Deployments of every cluster; `team` only if there is a NodePool for it.
pub(crate) const DEPLOYMENTS: [&str; 4] = ["web", "batch", "held", TEAM];

impl Script {
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 1);
        let mut setting = Setting::draw(&mut rng);
        let mut events = rejections::draw(&mut Rng::new(seed, 11), &mut setting);
        for cluster in 0..setting.clusters {
            let at = 1;
            let kind = scale(&mut rng, &setting);
            events.push(Event { at, cluster, kind });
            events.extend(independent_events(&mut rng, &setting, cluster));
            let mut forced = Rng::new(seed, 7);
            if forced.chance(300) {
                let kind = EventKind::NodeClaimForced;
                events.extend((0..3).map(|_| Event {
                    at: forced.between(1, FAULT_SECONDS - 1),
                    cluster,
                    kind: kind.clone(),
                }));
            }
            let mut people = Rng::new(seed, 8);
            if people.chance(300) {
                let count = people.between(1, 3);
                events.extend((0..count).map(|_| Event {
                    at: people.between(1, FAULT_SECONDS - 1),
                    cluster,
                    kind: pause_event(&mut people, &setting),
                }));
            }
            let mut combined = Rng::new(seed, 9);
            if combined.chance(COMBINATIONS) {
                for _ in 0..combined.between(1, 2) {
                    events.extend(combinations::draw(&mut combined, cluster, &mut setting));
                }
            }
        }
        events.extend(GatedFeatures::draw(seed, &mut setting));
        events.extend(table_faults::draw(&mut Rng::new(seed, 12), &setting));
        if setting.burst {
            events.extend(burst(&mut Rng::new(seed, 10)));
        }
        events.sort_by_key(|event| event.at);
        Self {
            seed,
            setting,
            events,
        }
    }
}

/// Creates hundreds of pods, each of which needs a separate node, and later removes most of them.
fn burst(rng: &mut Rng) -> [Event; 2] {
    let begin = rng.between(30, FAULT_SECONDS / 3);
    let event = |at, replicas| Event {
        at,
        cluster: 0,
        kind: EventKind::Scale {
            deployment: "web",
            replicas,
        },
    };
    [
        event(begin, rng.index(130) + 120),
        event(begin + rng.between(120, FAULT_SECONDS / 2), rng.index(20)),
    ]
}

/// Draws independent events. Each run uses only some kinds of events, so that rare ones coincide.
fn independent_events(rng: &mut Rng, setting: &Setting, cluster: usize) -> Vec<Event> {
    let known: Vec<usize> = (0..KINDS).filter(|_| rng.chance(400)).collect();
    let count = rng.between(EVENTS_MIN, EVENTS_MAX);
    let mut events = Vec::new();
    for _ in 0..count {
        let number = match rng.chance(350) {
            true => 0,
            false => rng.pick(&known).copied().unwrap_or(0),
        };
        events.push(Event {
            at: rng.between(1, FAULT_SECONDS - 1),
            cluster,
            kind: draw_kind(number, rng, setting),
        });
    }
    events
}

fn scale(rng: &mut Rng, setting: &Setting) -> EventKind {
    let count = DEPLOYMENTS.len() - usize::from(!setting.has_team());
    let deployment = DEPLOYMENTS.get(rng.index(count));
    let deployment = deployment.copied().unwrap_or("web");
    let most = if deployment == "held" { 2 } else { 9 };
    EventKind::Scale {
        deployment,
        replicas: rng.index(most + 1),
    }
}

const KINDS: usize = 27;

fn draw_kind(number: usize, rng: &mut Rng, setting: &Setting) -> EventKind {
    let port = rng.pick(&Port::ALL).copied().unwrap_or(Port::Cluster);
    let faults = [
        Fault::Throttled,
        Fault::Unavailable,
        Fault::LostAnswer,
        Fault::Conflict,
    ];
    let fault = rng.pick(&faults).copied().unwrap_or(Fault::Unavailable);
    let seconds = rng.between(20, 240);
    let permille = rng.pick(&[20, 100, 300, 800]).copied().unwrap_or(100);
    match number {
        1 => EventKind::SpotStorm {
            nodes: rng.index(4) + 1,
        },
        2 => EventKind::Rebalance,
        3 => EventKind::InstanceDies,
        4 => EventKind::NoCapacity {
            choice: rng.index(12),
            seconds,
        },
        5 => EventKind::Blind { seconds },
        6 => EventKind::Truncated {
            hidden: rng.index(4) + 1,
            seconds: seconds * 3,
        },
        7 => EventKind::ZoneOutage {
            seconds: seconds * 3,
        },
        8 => EventKind::NodeDeleted,
        9 => EventKind::NodeClaimDeleted,
        10 => EventKind::PodDeleted,
        11 => EventKind::NodeClassEdited,
        12 => EventKind::LimitEdited {
            cores: rng.between(4, 30),
        },
        13 => EventKind::BudgetEdited {
            nodes: match rng.chance(200) {
                true => "0",
                false => setting::budget(rng),
            },
        },
        14 => EventKind::KubeletSilent { seconds },
        15 => EventKind::RelayDead {
            seconds: seconds * 2,
        },
        16 => EventKind::Shadow { seconds },
        17 => EventKind::KarpenterLeads { seconds },
        18 => EventKind::Down { port, seconds },
        19 => EventKind::Faults {
            port,
            fault,
            permille,
            seconds,
        },
        20 => EventKind::Slow {
            permille,
            most: rng.between(1, 25),
            seconds,
        },
        21 => EventKind::Crashes {
            permille: permille / 10,
            seconds,
        },
        22 => EventKind::WakesLost { permille, seconds },
        23 => EventKind::WakesDoubled { permille, seconds },
        24 => EventKind::WakesLate {
            permille,
            most: rng.between(5, 120),
            seconds,
        },
        25 => EventKind::SweepsMissed { seconds },
        26 => EventKind::OutOfCapacity {
            capacity_type: match rng.chance(700) {
                true => CapacityType::Spot,
                false => CapacityType::OnDemand,
            },
            seconds,
        },
        _ => scale(rng, setting),
    }
}

fn pause_event(rng: &mut Rng, setting: &Setting) -> EventKind {
    let seconds = rng.between(20, 480);
    let pools: Vec<_> = setting.pools.iter().map(|pool| pool.name).collect();
    let pool = rng.pick(&pools).copied().unwrap_or_default();
    if rng.chance(300) {
        return EventKind::CheckedPorts { pool, seconds };
    }
    let levels = [PauseLevel::Voluntary, PauseLevel::All];
    let scopes = [
        PauseScope::Account,
        PauseScope::Cluster,
        PauseScope::NodePool(pool.into()),
    ];
    EventKind::Paused {
        level: rng.pick(&levels).copied().unwrap_or(PauseLevel::All),
        scope: rng.pick(&scopes).cloned().unwrap_or(PauseScope::Cluster),
        seconds,
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}s {} {:?}", self.at, self.cluster, self.kind)
    }
}
