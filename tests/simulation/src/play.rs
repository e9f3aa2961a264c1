//! A script, played second by second: events happen, messages are delivered, invocations go on, and laws judge.

mod invocations;
mod log;

use std::collections::BTreeMap;

use fakes::{Sim, SpoiltRow, Tokens};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, InstanceId, Interruption, Lane, Wake};

use self::invocations::Invocation;
use crate::{
    Bug, Failure, Script, deeds,
    deeds::Relay,
    dice::Dice,
    laws::{AllLaws, Broken},
    rest,
    script::{Ailment, Cause, TROUBLE, What},
    sky::Sky,
    watched::Warm,
};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    pub turns: u64,
    pub calls: u64,
    /// Virtual seconds until the cluster was at rest.
    pub seconds: i64,
    pub launched: usize,
}

/// A cluster, and who watches it.
pub(crate) struct Place {
    pub(crate) name: ClusterName,
    /// The world with this cluster's API server.
    pub(crate) sim: Sim,
    pub(crate) relay: Relay,
    /// Rows that nobody can read.
    pub(crate) spoilt: Vec<SpoiltRow>,
    /// Why nodes fail, and how.
    pub(crate) outbreaks: Vec<(Cause, Ailment)>,
    /// The registry's entry, while nobody can read it.
    pub(crate) entry: Option<serde_json::Value>,
}

pub(crate) struct Play {
    pub(crate) sim: Sim,
    pub(crate) clusters: Vec<Place>,
    pub(crate) laws: AllLaws,
    pub(crate) sky: Sky,
    pub(crate) seconds: i64,
    /// Wakes that come a second time, and when.
    again: Vec<(Timestamp, Wake)>,
    /// Facts that wait for delivery.
    pub(crate) facts: Vec<(Timestamp, Interruption)>,
    /// Spot instances that EC2 takes back, and when.
    pub(crate) doomed: Vec<(Timestamp, InstanceId)>,
    /// What ends by itself.
    pub(crate) reliefs: Vec<(Timestamp, usize, What)>,
    pub(crate) last_change: i64,
    dice: Dice,
    bug: Option<Bug>,
    skews: BTreeMap<Lane, i64>,
    /// Memories of each lane's process.
    warm: BTreeMap<Lane, Warm>,
    running: Vec<Invocation>,
    started: u64,
    log: Vec<String>,
    calls: u64,
}

pub(crate) fn play(script: &Script, bug: Option<Bug>) -> Result<Played, Box<Failure>> {
    let mut play = Play::new(script, bug);
    let played = play.all(script);
    played.map_err(|broken| {
        play.note_what_stands();
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
            deeds::set_up(&sim, setting);
            let relay = Relay::new(setting.relay, setting.publishes, &name);
            Place {
                name,
                sim,
                relay,
                spoilt: Vec::new(),
                outbreaks: Vec::new(),
                entry: None,
            }
        });
        let clusters: Vec<Place> = clusters.collect();
        let now = sim.look(|world| world.now);
        let names = clusters.iter().map(|place| place.name.clone());
        let sky = Sky::new(script.seed, setting.latency, names, now);
        sim.with(|world| {
            world.budgeted = setting.budgeted;
            if setting.wave {
                world.catalog.truncate(1);
            }
            world.weather = Some(Box::new(sky.clone()));
            world.account.describe_lag = SignedDuration::from_secs(setting.describe_lag);
            if setting.tokens_ignored {
                world.account.tokens = Tokens::Ignored;
            }
        });
        Self {
            sim,
            clusters,
            laws: AllLaws::new(script),
            sky,
            seconds: 0,
            again: Vec::new(),
            facts: Vec::new(),
            doomed: Vec::new(),
            reliefs: Vec::new(),
            last_change: 0,
            dice: Dice::new(script.seed, 3),
            bug,
            skews: setting.skews.iter().copied().collect(),
            warm: BTreeMap::new(),
            running: Vec::new(),
            started: 0,
            log: Vec::new(),
            calls: 0,
        }
    }

    fn all(&mut self, script: &Script) -> Result<Played, Broken> {
        // The first sweeps find and resolve everything.
        self.pass(130)?;
        let begun = self.seconds;
        for event in &script.events {
            while self.seconds < begun + event.at {
                self.second()?;
            }
            self.note(&format!("! {} {:?}", event.cluster, event.what));
            deeds::happen(self, event.cluster, &event.what);
        }
        while self.seconds < begun + TROUBLE {
            self.second()?;
        }
        self.note("! the trouble is over");
        deeds::calm(self);
        rest::come_to_rest(self)?;
        Ok(Played {
            turns: self.started,
            calls: self.calls,
            seconds: self.seconds,
            launched: self.sim.look(|world| world.account.instances.len()),
        })
    }

    pub(crate) fn pass(&mut self, seconds: i64) -> Result<(), Broken> {
        (0..seconds).try_for_each(|_| self.second())
    }

    /// One second of everything.
    pub(crate) fn second(&mut self) -> Result<(), Broken> {
        self.sim.advance(SignedDuration::from_secs(1));
        self.seconds += 1;
        let now = self.now();
        self.sky.pass(now, self.running.len() > 1);
        deeds::proceed(self, now);
        for place in &mut self.clusters {
            if place.relay.watches(&place.sim, self.seconds) {
                self.last_change = self.seconds;
            }
        }
        if self.seconds % 60 == 1 && !self.misses_sweep() {
            self.sweep();
        }
        self.deliver(now);
        self.poll(now);
        self.clusters.iter().try_for_each(|place| {
            let clear_for = self.sky.clear_for(&place.name, now);
            let broken = place.sim.look(|world| {
                self.laws.with(&place.name, |laws| {
                    laws.clear_for = clear_for;
                    laws.look(world);
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
                .sky
                .any(|_, spell| matches!(spell, What::SweepsMissed { .. }).then_some(()))
                .is_some()
    }

    fn count_turn(&self, wake: &Wake) {
        let now = self.now();
        self.laws
            .with(&wake.cluster, |laws| laws.turn_begins(now, wake));
    }

    /// Messages, as a queue that keeps no order delivers them.
    fn deliver(&mut self, now: Timestamp) {
        for wake in self.sim.take_wakes() {
            let lost = self.sky.any(|dice, spell| match spell {
                What::WakesLost { permille, .. } => dice.chance(*permille).then_some(()),
                _ => None,
            });
            if lost.is_some() || self.bug == Some(Bug::NeverSweep) {
                continue;
            }
            let late = self.sky.any(|dice, spell| match spell {
                What::WakesLate { permille, most, .. } => {
                    dice.chance(*permille).then(|| dice.seconds(1, *most))
                }
                _ => None,
            });
            if let Some(late) = late {
                self.sim.with(|world| world.wakes.push((now + late, wake)));
                continue;
            }
            let doubled = self.sky.any(|dice, spell| match spell {
                What::WakesDoubled { permille, .. } => dice.chance(*permille).then_some(()),
                _ => None,
            });
            if doubled.is_some() {
                let again = now + SignedDuration::from_secs(self.dice.between(0, 30));
                self.again.push((again, wake.clone()));
            }
            self.count_turn(&wake);
            self.turn(&wake);
        }
        let again: Vec<_> = self.again.extract_if(.., |(at, _)| *at <= now).collect();
        // What a queue delivers twice is no storm of ours.
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
