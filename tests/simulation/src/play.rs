mod log;

use std::{
    any::Any,
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use fakes::{Process, Sim, Tokens};
use jiff::{SignedDuration, Timestamp};
use model::{InstanceId, Interruption, Lane, Wake, ids::TurnId};
use turns::{Heartbeats, Report, SweepReport};

use crate::{
    Bug, Failure, HOLDER, Laws, Script, cluster, deeds,
    deeds::Relay,
    dice::Dice,
    laws::Broken,
    rest,
    script::{TROUBLE, What},
    sky::Sky,
    watched::Watched,
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

/// A run of a function.
struct Invocation {
    process: u64,
    lane: Lane,
    /// Lambda ends it then.
    until: Timestamp,
    future: Pin<Box<dyn Future<Output = Ended>>>,
    /// The fact it was given, which stays in its queue until somebody has it on record.
    fact: Option<Interruption>,
}

enum Ended {
    Turn(Box<Report>),
    Interrupted { kept: bool },
    Swept(Box<SweepReport>),
    Failed(String),
}

/// A message is delivered again after this.
const REDELIVERED: SignedDuration = SignedDuration::from_secs(45);
/// What Lambda gives a turn beyond its own budget.
const GRACE: SignedDuration = SignedDuration::from_secs(10);
/// Of so many sweeps one has a process that has just begun, although the last one did not die.
const BEGUN_AFRESH: u64 = 16;
/// More rounds in one second mean that somebody never gives way.
const ROUNDS_MOST: usize = 20_000;

pub(crate) struct Play {
    pub(crate) sim: Sim,
    laws: Arc<Mutex<Laws>>,
    pub(crate) sky: Sky,
    pub(crate) relay: Relay,
    pub(crate) seconds: i64,
    /// Wakes that come a second time, and when.
    again: Vec<(Timestamp, Wake)>,
    /// Facts that wait for delivery.
    pub(crate) facts: Vec<(Timestamp, Interruption)>,
    /// Spot instances that EC2 takes back, and when.
    pub(crate) doomed: Vec<(Timestamp, InstanceId)>,
    /// What ends by itself.
    pub(crate) reliefs: Vec<(Timestamp, What)>,
    pub(crate) last_change: i64,
    dice: Dice,
    bug: Option<Bug>,
    skews: BTreeMap<Lane, i64>,
    /// What the housekeeper's process remembers.
    heartbeats: Arc<Heartbeats>,
    running: Vec<Invocation>,
    started: u64,
    log: Vec<String>,
    calls: u64,
}

pub(crate) fn play(script: &Script, bug: Option<Bug>) -> Result<Played, Box<Failure>> {
    let mut play = Play::new(script, bug);
    let played = play.all(script);
    played.map_err(|broken| {
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
        let sim = Sim::new("demo");
        deeds::set_up(&sim, setting);
        let now = sim.look(|world| world.now);
        let sky = Sky::new(script.seed, setting.latency, now);
        sim.with(|world| {
            world.api.joins_once = true;
            if !setting.tells {
                world.api.status = None;
            }
            world.weather = Some(Box::new(sky.clone()));
            world.account.describe_lag = SignedDuration::from_secs(setting.describe_lag);
            if setting.tokens_ignored {
                world.account.tokens = Tokens::Ignored;
            }
        });
        let laws = Laws::new(script);
        Self {
            sim,
            laws: Arc::new(Mutex::new(laws)),
            sky,
            relay: Relay::new(setting.relay),
            seconds: 0,
            again: Vec::new(),
            facts: Vec::new(),
            doomed: Vec::new(),
            reliefs: Vec::new(),
            last_change: 0,
            dice: Dice::new(script.seed, 3),
            bug,
            skews: setting.skews.iter().copied().collect(),
            heartbeats: Arc::default(),
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
            self.note(&format!("! {:?}", event.what));
            deeds::happen(self, &event.what);
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
        if self.relay.watches(&self.sim, self.seconds) {
            self.last_change = self.seconds;
        }
        if self.seconds % 60 == 1 && !self.misses_sweep() {
            self.count_turn();
            self.sweep(now);
        }
        self.deliver(now);
        self.poll(now);
        let clear_for = self.sky.clear_for(now);
        let mut laws = self.laws();
        laws.clear_for = clear_for;
        self.sim.look(|world| laws.look(world));
        laws.broken.take().map_or(Ok(()), Err)
    }

    pub(crate) fn laws(&self) -> MutexGuard<'_, Laws> {
        self.laws.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn process(&mut self, lane: Lane) -> (Process, TurnId, Watched) {
        self.started += 1;
        let skew = self.skews.get(&lane).copied().unwrap_or_default();
        let process = Process {
            id: self.started,
            skew: SignedDuration::from_secs(skew),
        };
        let watched = Watched::new(&self.sim, process, lane, self.bug, &self.laws);
        (process, TurnId(format!("turn-{}", self.started)), watched)
    }

    fn start(
        &mut self,
        process: Process,
        lane: Lane,
        fact: Option<Interruption>,
        future: impl Future<Output = Ended> + 'static,
    ) {
        let now = self.now();
        self.running.push(Invocation {
            process: process.id,
            lane,
            until: now + turns::budget(lane) + GRACE,
            future: Box::pin(future),
            fact,
        });
    }

    fn sweep(&mut self, _: Timestamp) {
        let (process, turn, watched) = self.process(Lane::Housekeeper);
        if Dice::new(process.id, 5).below(BEGUN_AFRESH) == 0 {
            self.heartbeats = Arc::default();
        }
        let mut world = watched.world(HOLDER);
        world.heartbeats = self.heartbeats.clone();
        self.start(process, Lane::Housekeeper, None, async move {
            match turns::housekeep(&world, &turn).await {
                Ok(report) => Ended::Swept(Box::new(report)),
                Err(error) => Ended::Failed(error.to_string()),
            }
        });
    }

    fn turn(&mut self, wake: &Wake) {
        let (process, turn, watched) = self.process(wake.lane);
        let (lane, name) = (wake.lane, wake.cluster.clone());
        let deadline = ports::Clock::now(&watched.sim) + turns::budget(lane);
        let world = watched.world(HOLDER);
        self.start(process, lane, None, async move {
            match turns::run(&world, &name, lane, &turn, deadline).await {
                Ok(report) => Ended::Turn(Box::new(report)),
                Err(error) => Ended::Failed(error.to_string()),
            }
        });
    }

    fn interrupt(&mut self, fact: Interruption) {
        let (process, turn, watched) = self.process(Lane::Interruption);
        let world = watched.world(HOLDER);
        let given = fact.clone();
        self.start(process, Lane::Interruption, Some(fact), async move {
            let outcomes = turns::interrupt(&world, &[given], &turn).await;
            Ended::Interrupted {
                kept: outcomes.iter().any(Result::is_err),
            }
        });
    }

    fn count_turn(&self) {
        let now = self.now();
        let mut laws = self.laws();
        laws.turn_begins(now);
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
            self.count_turn();
            self.turn(&wake);
        }
        let again: Vec<_> = self.again.extract_if(.., |(at, _)| *at <= now).collect();
        // What a queue delivers twice is no storm of ours.
        for (_, wake) in again {
            self.turn(&wake);
        }
        let due: Vec<_> = self.facts.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, fact) in due {
            self.count_turn();
            self.interrupt(fact);
        }
    }

    /// Lets everybody go on who can, in any order, until all wait for time to pass.
    fn poll(&mut self, now: Timestamp) {
        let mut context = Context::from_waker(Waker::noop());
        let mut idle = 0;
        for _ in 0..ROUNDS_MOST {
            if self.running.is_empty() || idle > 3 {
                return;
            }
            self.calls += u64::try_from(self.sim.take_calls()).unwrap_or(0);
            if self.running.len() > 1 {
                self.dice.shuffle(&mut self.running);
            }
            let mut over = Vec::new();
            for (index, invocation) in self.running.iter_mut().enumerate() {
                let mut future = invocation.future.as_mut();
                let polled = AssertUnwindSafe(|| future.as_mut().poll(&mut context));
                match catch_unwind(polled) {
                    Ok(Poll::Pending) => {}
                    Ok(Poll::Ready(ended)) => {
                        over.push((index, Some(ended)));
                        continue;
                    }
                    Err(panic) => {
                        let what = format!("{}: {}", invocation.lane, said(&*panic));
                        let mut laws = self.laws.lock().unwrap_or_else(PoisonError::into_inner);
                        laws.breaks("no turn panics", now, what);
                        over.push((index, None));
                        continue;
                    }
                }
                let process = invocation.process;
                let died = self.sim.has_died(process);
                if died || invocation.until <= now {
                    over.push((index, None));
                }
            }
            let is_idle = over.is_empty() && self.sim.look(|world| world.calls.is_empty());
            idle = if is_idle { idle + 1 } else { 0 };
            for (index, ended) in over.into_iter().rev() {
                let invocation = self.running.swap_remove(index);
                self.end(invocation, ended, now);
            }
        }
    }

    fn end(&mut self, invocation: Invocation, ended: Option<Ended>, now: Timestamp) {
        let Invocation {
            process,
            lane,
            fact,
            ..
        } = invocation;
        let kept = match ended {
            None => {
                self.note(&format!("{lane} turn-{process} died"));
                if lane == Lane::Housekeeper {
                    self.heartbeats = Arc::default();
                }
                true
            }
            Some(Ended::Turn(report)) => {
                self.report(&report);
                false
            }
            Some(Ended::Interrupted { kept }) => kept && self.bug != Some(Bug::AcknowledgeFirst),
            Some(Ended::Swept(report)) => {
                self.swept(&report);
                false
            }
            Some(Ended::Failed(error)) => {
                self.note(&format!("{lane} turn-{process}: {error}"));
                false
            }
        };
        let Some(fact) = fact else { return };
        if kept {
            self.facts.push((now + REDELIVERED, fact));
            return;
        }
        self.sim.look(|world| {
            let mut laws = self.laws();
            laws.acknowledged(world, &fact);
        });
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.facts.is_empty()
    }

    /// One turn of each lane, with nothing in its way: what they would do now.
    pub(crate) fn look_once(&mut self) -> Vec<String> {
        let mut planned = Vec::new();
        for lane in Lane::WOKEN {
            let (_, turn, watched) = self.process(lane);
            let deadline = ports::Clock::now(&watched.sim) + turns::budget(lane);
            let world = watched.world(HOLDER);
            let mut run =
                Box::pin(async move { turns::run(&world, cluster(), lane, &turn, deadline).await });
            let mut context = Context::from_waker(Waker::noop());
            let ended = (0..ROUNDS_MOST).find_map(|_| match run.as_mut().poll(&mut context) {
                Poll::Ready(ended) => Some(ended),
                Poll::Pending => None,
            });
            match ended {
                Some(Ok(report)) => {
                    let lines = report
                        .planned
                        .iter()
                        .chain(&report.proposed)
                        .chain(&report.failed)
                        .chain(&report.unplaced);
                    planned.extend(lines.map(|line| format!("{lane}: {line}")));
                }
                Some(Err(error)) => planned.push(format!("{lane}: {error}")),
                None => planned.push(format!("{lane} does not end")),
            }
        }
        planned
    }
}

/// What a panic says, where that is text.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it says nothing")
}
