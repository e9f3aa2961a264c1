//! Concurrent invocations of functions: their start, progress, crash and end.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use fakes::Process;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Interruption, Lane, Wake, ids::TurnId};
use turns::{Report, SweepReport};

use super::Play;
use crate::{
    Bug, HOLDER, Laws,
    checked_ports::{CheckedPorts, ProcessCaches},
    rng::Rng,
};

/// One invocation of a function.
pub(super) struct Invocation {
    process: u64,
    lane: Lane,
    /// Time at which Lambda ends the invocation.
    until: Timestamp,
    future: Pin<Box<dyn Future<Output = Ended>>>,
    /// The fact to be handled, whose message stays in the queue until it is recorded.
    fact: Option<Interruption>,
}

pub(super) enum Ended {
    Turn(Box<Report>),
    Interrupted { kept: bool },
    Swept(Box<SweepReport>),
    Failed(String),
}

/// Time after which a message is delivered again.
const REDELIVERY: SignedDuration = SignedDuration::from_secs(45);
/// Lambda's timeout of a turn beyond the turn's own budget.
const LAMBDA_MARGIN: SignedDuration = SignedDuration::from_secs(10);
/// One in this many processes is a cold start although the previous process did not crash.
const COLD_STARTS: u64 = 16;
/// Upper bound on rounds per second; more mean that an invocation never waits.
const ROUNDS_MAX: usize = 20_000;

impl Play {
    /// Creates a process for a cluster; the housekeeper and interruption functions switch to other clusters as they go.
    fn process(&mut self, lane: Lane, cluster: &ClusterName) -> (Process, TurnId, CheckedPorts) {
        self.started += 1;
        let skew = self.skews.get(&lane).copied().unwrap_or_default();
        let process = Process {
            id: self.started,
            skew: SignedDuration::from_secs(skew),
        };
        let watched = CheckedPorts::new(&self.sim, process, lane, cluster, self.bug, &self.laws);
        for simulated in &self.clusters {
            simulated.sim.look(|world| {
                let begin = |laws: &mut Laws| laws.process_begins(world, process.id);
                self.laws.with(&simulated.name, begin);
            });
        }
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
            until: now + turns::budget(lane) + LAMBDA_MARGIN,
            future: Box::pin(future),
            fact,
        });
    }

    pub(super) fn sweep(&mut self) {
        let cluster = self.first_cluster();
        let (process, turn, watched) = self.process(Lane::Housekeeper, &cluster);
        let world = watched.world(HOLDER, self.warm(process, Lane::Housekeeper));
        self.start(process, Lane::Housekeeper, None, async move {
            match turns::housekeep(&world, &turn).await {
                Ok(report) => Ended::Swept(Box::new(report)),
                Err(error) => Ended::Failed(error.to_string()),
            }
        });
    }

    fn first_cluster(&self) -> ClusterName {
        let first = self.clusters.first();
        first.map_or_else(ClusterName::default, |simulated| simulated.name.clone())
    }

    /// Caches of a warm process; empty at a cold start, which happens now and then.
    fn warm(&mut self, process: Process, lane: Lane) -> ProcessCaches {
        if Rng::new(process.id, 5).below(COLD_STARTS) == 0 {
            self.warm.remove(&lane);
        }
        self.warm.entry(lane).or_default().clone()
    }

    pub(super) fn turn(&mut self, wake: &Wake) {
        let (process, turn, watched) = self.process(wake.lane, &wake.cluster);
        let (lane, wake) = (wake.lane, wake.clone());
        let deadline = ports::Clock::now(&watched.sim) + turns::budget(lane);
        let world = watched.world(HOLDER, self.warm(process, lane));
        self.start(process, lane, None, async move {
            match turns::woken(&world, &wake, &turn, deadline).await {
                Ok(report) => Ended::Turn(Box::new(report)),
                Err(error) => Ended::Failed(error.to_string()),
            }
        });
    }

    pub(super) fn interrupt(&mut self, fact: Interruption) {
        let cluster = self.first_cluster();
        let (process, turn, watched) = self.process(Lane::Interruption, &cluster);
        let world = watched.world(HOLDER, ProcessCaches::default());
        let given = fact.clone();
        self.start(process, Lane::Interruption, Some(fact), async move {
            let outcomes = turns::interrupt(&world, &[given], &turn).await;
            Ended::Interrupted {
                kept: outcomes.iter().any(Result::is_err),
            }
        });
    }

    /// Polls all invocations in random order until all wait for time to pass.
    pub(super) fn poll(&mut self, now: Timestamp) {
        let mut context = Context::from_waker(Waker::noop());
        let mut idle = 0;
        for _ in 0..ROUNDS_MAX {
            if self.running.is_empty() || idle > 3 {
                return;
            }
            self.calls += u64::try_from(self.sim.take_calls()).unwrap_or(0);
            if self.running.len() > 1 {
                self.rng.shuffle(&mut self.running);
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
                        let what = format!("{}: {}", invocation.lane, panic_message(&*panic));
                        for simulated in &self.clusters {
                            let what = what.clone();
                            let panics = |laws: &mut Laws| laws.breaks("no turn panics", now, what);
                            self.laws.with(&simulated.name, panics);
                        }
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
        for simulated in &self.clusters {
            self.laws
                .with(&simulated.name, |laws| laws.process_ends(process));
        }
        let kept = match ended {
            None => {
                self.note(&format!("{lane} turn-{process} died"));
                let started_at = until - turns::budget(lane) - LAMBDA_MARGIN;
                for simulated in &self.clusters {
                    self.laws
                        .with(&simulated.name, |laws| laws.turn_died(started_at));
                }
                self.warm.remove(&lane);
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
            self.facts.push((now + REDELIVERY, fact));
            return;
        }
        for simulated in &self.clusters {
            simulated.sim.look(|world| {
                let judge = |laws: &mut Laws| laws.acknowledged(world, &fact);
                self.laws.with(&simulated.name, judge);
            });
        }
    }

    /// Runs one more turn of each lane of each cluster without faults; returns the planned actions.
    pub(crate) fn run_all_lanes(&mut self) -> Vec<String> {
        let names = self.clusters.iter().map(|simulated| simulated.name.clone());
        let names: Vec<_> = names.collect();
        let mut planned = Vec::new();
        for cluster in names {
            for lane in Lane::WOKEN {
                let lines = self.run_lane(&cluster, lane).into_iter();
                planned.extend(lines.map(|line| format!("{cluster}: {lane}: {line}")));
            }
        }
        planned
    }

    fn run_lane(&mut self, cluster: &ClusterName, lane: Lane) -> Vec<String> {
        let (process, turn, watched) = self.process(lane, cluster);
        let deadline = ports::Clock::now(&watched.sim) + turns::budget(lane);
        let world = watched.world(HOLDER, ProcessCaches::default());
        let mut run =
            Box::pin(async move { turns::run(&world, cluster, lane, &turn, deadline).await });
        let mut context = Context::from_waker(Waker::noop());
        let ended = (0..ROUNDS_MAX).find_map(|_| match run.as_mut().poll(&mut context) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        });
        for simulated in &self.clusters {
            self.laws
                .with(&simulated.name, |laws| laws.process_ends(process.id));
        }
        match ended {
            Some(Ok(report)) => {
                let lines = report
                    .planned
                    .iter()
                    .chain(&report.proposed)
                    .chain(&report.failed)
                    .chain(&report.unplaced);
                lines.map(ToString::to_string).collect()
            }
            Some(Err(error)) => vec![error.to_string()],
            None => vec!["does not end".to_owned()],
        }
    }
}

/// The message of a panic, if it is text.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
