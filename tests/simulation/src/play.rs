//! Plays a script second by second: applies events, delivers messages, advances invocations and checks the laws.

mod invocations;
mod log;

use std::collections::BTreeMap;

use fakes::{CorruptedRow, Sim, Tokens};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, InstanceId, Interruption, Lane, Wake};

use self::invocations::Invocation;
use crate::{
    Bug, Failure, Script,
    checked_ports::ProcessCaches,
    convergence, events,
    events::Relay,
    fault_schedule::ActiveFaults,
    laws::{AllLaws, BrokenLaw},
    rng::Rng,
    script::{CommonCause, EventKind, FAULT_SECONDS, FailureMode},
};

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    pub turns: u64,
    pub calls: u64,
    /// Virtual seconds until the cluster converged.
    pub seconds: i64,
    pub launched: usize,
}

/// A cluster and its relay.
pub(crate) struct SimulatedCluster {
    pub(crate) name: ClusterName,
    /// Handle on the world with this cluster's API server.
    pub(crate) sim: Sim,
    pub(crate) relay: Relay,
    /// Rows that were made unreadable.
    pub(crate) unreadable: Vec<CorruptedRow>,
    /// Ongoing outbreaks.
    pub(crate) outbreaks: Vec<(CommonCause, FailureMode)>,
    /// Content of the registry entry while it cannot be read.
    pub(crate) entry: Option<serde_json::Value>,
}

pub(crate) struct Play {
    pub(crate) sim: Sim,
    pub(crate) clusters: Vec<SimulatedCluster>,
    pub(crate) laws: AllLaws,
    pub(crate) faults: ActiveFaults,
    pub(crate) seconds: i64,
    /// Duplicated wakes, with the time of the second delivery.
    again: Vec<(Timestamp, Wake)>,
    /// Facts to be delivered, with the time of their delivery.
    pub(crate) facts: Vec<(Timestamp, Interruption)>,
    /// Spot instances that EC2 reclaims, with the time.
    pub(crate) reclaimed: Vec<(Timestamp, InstanceId)>,
    /// Ends of temporary events.
    pub(crate) pending_ends: Vec<(Timestamp, usize, EventKind)>,
    pub(crate) last_change: i64,
    rng: Rng,
    bug: Option<Bug>,
    skews: BTreeMap<Lane, i64>,
    /// Caches of each lane's warm process.
    warm: BTreeMap<Lane, ProcessCaches>,
    running: Vec<Invocation>,
    started: u64,
    log: Vec<String>,
    calls: u64,
}

pub(crate) fn play(script: &Script, bug: Option<Bug>) -> Result<RunSummary, Box<Failure>> {
    let mut play = Play::new(script, bug);
    let played = play.all(script);
    played.map_err(|broken| {
        play.log_final_state();
        Box::new(Failure {
            script: script.clone(),
            broken,
            log: std::mem::take(&mut play.log),
        })
    })
}

impl Play {
    fn new(script: &Script, bug: Option<Bug>) -> Self {
        let setting = &script.setting;
        let mut names = setting.cluster_names();
        let sim = Sim::new(names.next().unwrap_or_default());
        names.for_each(|name| sim.add_cluster(name));
        let clusters = setting.cluster_names().map(|name| {
            let name = ClusterName::from(name);
            let sim = sim.in_cluster(&name);
            events::set_up(&sim, setting);
            let relay = Relay::new(setting.relay, setting.publishes, &name);
            SimulatedCluster {
                name,
                sim,
                relay,
                unreadable: Vec::new(),
                outbreaks: Vec::new(),
                entry: None,
            }
        });
        let clusters: Vec<SimulatedCluster> = clusters.collect();
        let now = sim.look(|world| world.now);
        let names = clusters.iter().map(|simulated| simulated.name.clone());
        let faults = ActiveFaults::new(script.seed, setting.latency, names, now);
        sim.with(|world| {
            world.budgeted = setting.budgeted;
            if setting.burst {
                world.catalog.truncate(1);
            }
            world.fault_schedule = Some(Box::new(faults.clone()));
            world.account.describe_lag = SignedDuration::from_secs(setting.describe_lag);
            if setting.tokens_ignored {
                world.account.tokens = Tokens::Ignored;
            }
        });
        Self {
            sim,
            clusters,
            laws: AllLaws::new(script),
            faults,
            seconds: 0,
            again: Vec::new(),
            facts: Vec::new(),
            reclaimed: Vec::new(),
            pending_ends: Vec::new(),
            last_change: 0,
            rng: Rng::new(script.seed, 3),
            bug,
            skews: setting.skews.iter().copied().collect(),
            warm: BTreeMap::new(),
            running: Vec::new(),
            started: 0,
            log: Vec::new(),
            calls: 0,
        }
    }

    fn all(&mut self, script: &Script) -> Result<RunSummary, BrokenLaw> {
        // The first sweeps discover the clusters and resolve NodeClasses.
        self.pass(130)?;
        let started_at = self.seconds;
        for event in &script.events {
            while self.seconds < started_at + event.at {
                self.second()?;
            }
            self.note(&format!("! {} {:?}", event.cluster, event.kind));
            events::apply(self, event.cluster, &event.kind);
        }
        while self.seconds < started_at + FAULT_SECONDS {
            self.second()?;
        }
        self.note("! the faults end");
        events::end_all_faults(self);
        convergence::converge(self)?;
        Ok(RunSummary {
            turns: self.started,
            calls: self.calls,
            seconds: self.seconds,
            launched: self.sim.look(|world| world.account.instances.len()),
        })
    }

    pub(crate) fn pass(&mut self, seconds: i64) -> Result<(), BrokenLaw> {
        (0..seconds).try_for_each(|_| self.second())
    }

    /// Plays one second.
    pub(crate) fn second(&mut self) -> Result<(), BrokenLaw> {
        self.sim.advance(SignedDuration::from_secs(1));
        self.seconds += 1;
        let now = self.now();
        self.faults.advance(now, self.running.len() > 1);
        events::end_due_events(self, now);
        for simulated in &mut self.clusters {
            if simulated.relay.check(&simulated.sim, self.seconds) {
                self.last_change = self.seconds;
            }
        }
        if self.seconds % 60 == 1 && !self.misses_sweep() {
            self.sweep();
        }
        self.deliver(now);
        self.poll(now);
        self.clusters.iter().try_for_each(|simulated| {
            let clear_for = self.faults.clear_for(&simulated.name, now);
            let broken = simulated.sim.look(|world| {
                self.laws.with(&simulated.name, |laws| {
                    laws.clear_for = clear_for;
                    laws.check(world);
                    laws.broken.take()
                })
            });
            broken.map_or(Ok(()), Err)
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.sim.look(|world| world.now)
    }

    fn misses_sweep(&self) -> bool {
        self.bug == Some(Bug::NeverSweep) && self.seconds > 130
            || self
                .faults
                .find(|_, event| matches!(event, EventKind::SweepsMissed { .. }).then_some(()))
                .is_some()
    }

    fn count_turn(&self, wake: &Wake) {
        let now = self.now();
        self.laws
            .with(&wake.cluster, |laws| laws.turn_begins(now, wake));
    }

    /// Delivers messages without preserving their order.
    fn deliver(&mut self, now: Timestamp) {
        for wake in self.sim.take_wakes() {
            let lost = self.faults.find(|rng, event| match event {
                EventKind::WakesLost { permille, .. } => rng.chance(*permille).then_some(()),
                _ => None,
            });
            if lost.is_some() || self.bug == Some(Bug::NeverSweep) {
                continue;
            }
            let late = self.faults.find(|rng, event| match event {
                EventKind::WakesLate { permille, most, .. } => {
                    rng.chance(*permille).then(|| rng.seconds(1, *most))
                }
                _ => None,
            });
            if let Some(late) = late {
                self.sim.with(|world| world.wakes.push((now + late, wake)));
                continue;
            }
            let doubled = self.faults.find(|rng, event| match event {
                EventKind::WakesDoubled { permille, .. } => rng.chance(*permille).then_some(()),
                _ => None,
            });
            if doubled.is_some() {
                let again = now + SignedDuration::from_secs(self.rng.between(0, 30));
                self.again.push((again, wake.clone()));
            }
            self.count_turn(&wake);
            self.turn(&wake);
        }
        let again: Vec<_> = self.again.extract_if(.., |(at, _)| *at <= now).collect();
        // Duplicates by the queue do not count as a storm of turns.
        for (_, wake) in again {
            self.turn(&wake);
        }
        let due: Vec<_> = self.facts.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, fact) in due {
            self.interrupt(fact);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.facts.is_empty()
    }
}
