//! Invocations of functions, several at once: how they begin, go on, die and end.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
};

use fakes::Process;
use jiff::{SignedDuration, Timestamp};
use model::{Interruption, Lane, Wake, ids::TurnId};
use turns::{Report, SweepReport};

use super::Play;
use crate::{Bug, HOLDER, cluster, dice::Dice, watched::Watched};

/// A run of a function.
pub(super) struct Invocation {
    process: u64,
    lane: Lane,
    /// Lambda ends it then.
    until: Timestamp,
    future: Pin<Box<dyn Future<Output = Ended>>>,
    /// The fact it was given, which stays in its queue until somebody has it on record.
    fact: Option<Interruption>,
}

pub(super) enum Ended {
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

impl Play {
    fn process(&mut self, lane: Lane) -> (Process, TurnId, Watched) {
        self.started += 1;
        let skew = self.skews.get(&lane).copied().unwrap_or_default();
        let process = Process {
            id: self.started,
            skew: SignedDuration::from_secs(skew),
        };
        let watched = Watched::new(&self.sim, process, lane, self.bug, &self.laws);
        self.sim
            .look(|world| self.laws().process_begins(world, process.id));
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

    pub(super) fn sweep(&mut self) {
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

    pub(super) fn turn(&mut self, wake: &Wake) {
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

    pub(super) fn interrupt(&mut self, fact: Interruption) {
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

    /// Lets everybody go on who can, in any order, until all wait for time to pass.
    pub(super) fn poll(&mut self, now: Timestamp) {
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
            until,
            fact,
            ..
        } = invocation;
        self.laws().process_ends(process);
        let kept = match ended {
            None => {
                self.note(&format!("{lane} turn-{process} died"));
                self.laws().turn_died(until - turns::budget(lane) - GRACE);
                if lane == Lane::Housekeeper {
                    self.heartbeats = Arc::default();
                }
                self.bug != Some(Bug::AcknowledgeFirst)
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
