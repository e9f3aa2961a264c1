//! Measured process: the turns of one lane, in a separate process, like a function.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use fakes::Sim;
use k8s::KubeCluster;
use model::{Lane, ids::TurnId, ledger::RelayBeat, view::ViewPointer};
use ports::Cluster;
use serde::{Deserialize, Serialize};
use turns::{Outcome, Report};

use crate::support::{self, CLUSTER, access, forget_peak, memory};

/// Environment variable with the address of the API server of a measurement.
pub(crate) const ANNOUNCED: &str = "WHITTLE_BENCH_SERVER";
/// The file of the view that the subject's relay has published; without it, there is none.
pub(crate) const VIEW: &str = "WHITTLE_BENCH_VIEW";
const EPOCH: &str = "bench";

/// Figures measured over the turns of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Duration of the first turn of a process, in milliseconds.
    pub(crate) cold: u64,
    /// Median duration of later turns, in milliseconds.
    pub(crate) warm: u64,
    /// 99th percentile of their durations, in milliseconds.
    pub(crate) warm_p99: u64,
    /// Time from the start of the first turn to its first CreateFleet call.
    pub(crate) fleet: Option<u64>,
    /// Total time from the start of each turn to its commit, which precedes launching.
    pub(crate) planned: u64,
    /// Peak memory of all turns, in MiB.
    pub(crate) peak: u64,
    /// Of the first turn, and of the last.
    pub(crate) cold_traffic: (u64, u64),
    pub(crate) warm_traffic: (u64, u64),
    /// Number of turns until none had work left, and their total time.
    pub(crate) turns: u64,
    pub(crate) together: u64,
    pub(crate) launched: u64,
}

/// Condition on which a process stops running turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Upper bound on turns without work; fewer if time runs out.
    Quiet(usize),
    /// No pod is left to the next turn.
    AllPlanned,
}

/// Turns of a large cluster may take seconds each.
const QUIET_MAX: Duration = Duration::from_secs(20);

/// Runs turns of a lane on the announced cluster, and prints their costs.
pub(crate) async fn measure(lane: Lane, until: Until) -> Result<Measured> {
    let subject = Subject::new()?;
    subject.take_over().await?;
    forget_peak()?;
    let mut measured = Measured::default();
    let mut times = Vec::new();
    let begun = Instant::now();
    loop {
        let before = subject.api.traffic();
        let started = Instant::now();
        let report = subject.turn(lane).await?;
        times.push(millis(started.elapsed()));
        let committed = COMMITTED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        measured.planned += committed.map_or(0, |at| millis(at.duration_since(started)));
        let saw_view = matches!(report.reads.pods, turns::PodsFrom::View(_));
        if lane != Lane::Terminator && saw_view != variable(VIEW).is_some() {
            bail!("{lane} saw pods elsewhere: {:?}", report.warnings);
        }
        let traffic = subject.api.traffic().since(before);
        measured.warm_traffic = (traffic.requests, traffic.bytes);
        if times.len() == 1 {
            measured.cold_traffic = measured.warm_traffic;
            measured.fleet = FLEET.get().map(|at| millis(at.duration_since(started)));
        }
        measured.launched += u64::try_from(report.launched.len())?;
        if until == Until::AllPlanned && report.launched.is_empty() {
            bail!(
                "nothing was launched: {:?} {:?}",
                report.unplaced.first(),
                report.problems
            );
        }
        match until {
            Until::Quiet(_) if !report.planned.is_empty() => {
                bail!(
                    "a quiet turn has nothing to do: {:?}",
                    report.planned.first()
                )
            }
            Until::Quiet(turns) if times.len() < turns && begun.elapsed() < QUIET_MAX => {}
            Until::AllPlanned if report.postponed > 0 => {}
            Until::Quiet(_) | Until::AllPlanned => break,
        }
    }
    measured.together = millis(begun.elapsed());
    measured.turns = u64::try_from(times.len())?;
    measured.peak = memory("self", "VmHWM:")?;
    let mut rest = times.split_off(1);
    rest.sort_unstable();
    measured.cold = times.first().copied().unwrap_or_default();
    let percentile = |hundredths: usize| {
        let index = rest.len() * hundredths / 100;
        rest.get(index).copied().unwrap_or_default()
    };
    (measured.warm, measured.warm_p99) = (percentile(50), percentile(99));
    Ok(measured)
}

/// Brings a cluster to rest: writes everything that turns write only once into its objects.
pub(crate) async fn settle() -> Result<()> {
    let subject = Subject::new()?;
    subject.take_over().await?;
    for _ in 0..ROUNDS_MAX {
        let mut planned = 0;
        for lane in Lane::WOKEN {
            planned += subject.turn(lane).await?.planned.len();
        }
        if planned == 0 {
            return Ok(());
        }
    }
    bail!("the cluster does not come to rest within {ROUNDS_MAX} rounds of turns")
}

const ROUNDS_MAX: usize = 50;

/// Until so many pods wait for nodes.
pub(crate) async fn wait_for(pods: usize) -> Result<()> {
    let subject = Subject::new()?;
    while subject.api.unassigned_pods().await?.len() < pods {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Writes the cluster's pods to a file, as a relay publishes them.
pub(crate) async fn publish(path: &str) -> Result<()> {
    let subject = Subject::new()?;
    let mut publisher = view::Publisher::new(CLUSTER.into(), EPOCH.to_owned());
    publisher.begin_list();
    for pod in subject.api.pods().await? {
        publisher.upsert(pod);
    }
    publisher.end_list();
    std::fs::write(path, publisher.issue()?.object)?;
    Ok(())
}

/// Time of the last committed plan.
static COMMITTED: Mutex<Option<Instant>> = Mutex::new(None);
/// Time of the first CreateFleet call.
static FLEET: OnceLock<Instant> = OnceLock::new();

struct Subject {
    api: Arc<dyn Cluster>,
    sim: Sim,
    world: turns::World,
}

impl Subject {
    fn new() -> Result<Self> {
        let client = access(&variable(ANNOUNCED).context(ANNOUNCED)?)?.client()?;
        let api: Arc<dyn Cluster> = Arc::new(KubeCluster::new(client, "kube-system"));
        let sim = Sim::new(CLUSTER);
        let world = support::world(&sim, api.clone())?;
        Ok(Self { api, sim, world })
    }

    async fn take_over(&self) -> Result<()> {
        self.sim.with(|world| world.now = self.world.clock.now());
        turns::housekeep(&self.world, &TurnId("sweep".to_owned())).await?;
        if let Some(path) = variable(VIEW) {
            self.hear_of(std::fs::read(path)?);
        }
        Ok(())
    }

    /// A relay has published these pods, and beats.
    fn hear_of(&self, object: Vec<u8>) {
        let pointer = ViewPointer {
            epoch: EPOCH.to_owned(),
            version: 1,
            full: 1,
            digest: view::document::digest(&object),
            at: self.world.clock.now(),
            counters: BTreeMap::new(),
        };
        let cluster = CLUSTER.into();
        self.sim.with(|world| {
            let name = model::view::object_name(&cluster, EPOCH, 1);
            world.ledger.archive.insert(name, object);
            world.ledger.of(&cluster).beat = Some(RelayBeat {
                epoch: EPOCH.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                view: Some(pointer),
                ..RelayBeat::default()
            });
        });
    }

    async fn turn(&self, lane: Lane) -> Result<Report> {
        let now = self.world.clock.now();
        self.sim.with(|world| {
            world.now = now;
            world.on_call = Some(("commit", |world| {
                *COMMITTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                world.on_call = Some(("launch", |_| {
                    FLEET.get_or_init(Instant::now);
                }));
            }));
        });
        let (cluster, id) = (CLUSTER.into(), TurnId("turn".to_owned()));
        let deadline = now + turns::budget(lane);
        let report = Box::pin(turns::run(&self.world, &cluster, lane, &id, deadline)).await?;
        match &report.outcome {
            Outcome::Done => Ok(report),
            outcome @ (Outcome::Held
            | Outcome::Unregistered
            | Outcome::Elsewhere(_)
            | Outcome::Postponed(_)
            | Outcome::Failed(_)) => {
                bail!("{lane}: {outcome:?}")
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Value of an environment variable that the comparing process set for this one.
#[expect(
    clippy::disallowed_methods,
    reason = "a measurement has no configuration but this"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
