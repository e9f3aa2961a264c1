//! Pods of a case arriving over time, batched as by a relay: the cost of their nodes beside that of a single batch.

use std::collections::BTreeSet;

use clap::ValueEnum;
use model::{Batch, NodeClaimName, Snapshot, pod::Pod};
use planner::{Share, foresight};
use serde_json::{Value, json};

use crate::{decision, rehearsal};

/// Milliseconds of the relay's window (`batchIdleDuration`, `batchMaxDuration`), and of the interval between early turns in it.
const IDLE: u64 = 1_000;
const MAX: u64 = 10_000;
const FIRST_GLANCE: u64 = 150;
const GLANCE_PAUSE: u64 = 500;
/// Pods that justify an early turn in an open window.
const GLANCE_AT: usize = 10;

/// Arrival pattern of pods.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Arrivals {
    /// Evenly within 8 seconds: one window
    Even,
    /// A fifth of them every 0.9 seconds: one window
    Bursts,
    /// Evenly within 30 seconds: windows that end because they are full
    Slow,
}

impl Arrivals {
    /// Arrival time of the pod with this index among `all` pods.
    fn at(self, place: usize, all: usize) -> u64 {
        let part = |whole: u64, parts: usize| {
            let place = u64::try_from(place * parts / all.max(1)).unwrap_or(u64::MAX);
            place * whole / u64::try_from(parts.max(1)).unwrap_or(u64::MAX)
        };
        match self {
            Self::Even => part(8_000, all),
            Self::Bursts => part(4_500, 5),
            Self::Slow => part(30_000, all),
        }
    }
}

/// Costs of the nodes for a case's pods: in a single batch, over time with turns for complete batches only, and over time with early turns
/// in open windows.
pub(super) fn replay(snapshot: &Snapshot, arrivals: Arrivals) -> Value {
    let at_once = Replay::new(snapshot).run(&[(u64::MAX, Batch::Closed)], &[]);
    let waits = snapshot.pods.iter().enumerate();
    let waits: Vec<usize> = waits
        .filter(|(_, pod)| planner::is_provisionable(pod))
        .map(|(at, _)| at)
        .collect();
    let comes: Vec<(usize, u64)> = waits
        .iter()
        .enumerate()
        .map(|(place, at)| (*at, arrivals.at(place, waits.len())))
        .collect();
    let times: Vec<u64> = comes.iter().map(|(_, time)| *time).collect();
    let looks = looks(&times);
    let whole = looks.iter().copied();
    let whole: Vec<_> = whole.filter(|(_, batch)| batch.is_closed()).collect();
    let whole = Replay::new(snapshot).run(&whole, &comes);
    let early = Replay::new(snapshot).run(&looks, &comes);
    json!({"atOnce": at_once.told(), "wholeBatches": whole.told(), "openBatches": early.told()})
}

/// Times of the provisioner's turns, each with its kind of batch.
fn looks(times: &[u64]) -> Vec<(u64, Batch)> {
    let mut looks = Vec::new();
    let mut left = times;
    while let Some(first) = left.first().copied() {
        let (mut glance, mut pause, mut gathered) = (first + FIRST_GLANCE, GLANCE_PAUSE, 0);
        let mut end = first + IDLE;
        for time in left {
            if gathered >= GLANCE_AT && glance < end.min(*time) {
                looks.push((glance, Batch::Open));
                (glance, pause, gathered) = (glance + pause, pause * 2, 0);
            }
            if *time >= end {
                break;
            }
            gathered += 1;
            if gathered == GLANCE_AT {
                glance = glance.max(*time);
            }
            end = (*time + IDLE).min(first + MAX);
        }
        if gathered >= GLANCE_AT && glance < end {
            looks.push((glance, Batch::Open));
        }
        looks.push((end, Batch::Closed));
        let gone = left.iter().take_while(|time| **time < end).count();
        left = left.get(gone..).unwrap_or_default();
    }
    looks
}

struct Replay {
    snapshot: Snapshot,
    before: i64,
    launched: usize,
    /// Number of turns that launched something.
    rounds: usize,
    unplaced: usize,
}

impl Replay {
    fn new(snapshot: &Snapshot) -> Self {
        Self {
            before: foresight::cost(snapshot).0,
            snapshot: snapshot.clone(),
            launched: 0,
            rounds: 0,
            unplaced: 0,
        }
    }

    /// Runs turns at these times; pods arrive at theirs.
    fn run(mut self, looks: &[(u64, Batch)], comes: &[(usize, u64)]) -> Self {
        let all = std::mem::take(&mut self.snapshot.pods);
        let late: BTreeSet<usize> = comes.iter().map(|(at, _)| *at).collect();
        let there = all.iter().enumerate().filter(|(at, _)| !late.contains(at));
        self.snapshot.pods = there.map(|(_, pod)| pod.clone()).collect();
        let mut to_come = comes.iter().peekable();
        for (time, batch) in looks {
            while let Some((at, _)) = to_come.next_if(|(_, comes)| comes <= time) {
                self.snapshot.pods.extend(all.get(*at).cloned());
            }
            self.look(*batch);
        }
        let waits = |pod: &&Pod| planner::is_provisionable(pod);
        self.unplaced = self.snapshot.pods.iter().filter(waits).count();
        self
    }

    fn look(&mut self, batch: Batch) {
        let plan = match batch {
            Batch::Closed => planner::provision(&self.snapshot, Share::WHOLE),
            Batch::Open => planner::provision_full(&self.snapshot, Share::WHOLE),
        };
        let launched = &mut self.launched;
        let launches = rehearsal::carry_out(plan, &mut self.snapshot, |pool| {
            *launched += 1;
            NodeClaimName(format!("{pool}-{launched}"))
        });
        self.rounds += usize::from(!launches.is_empty());
    }

    fn told(&self) -> Value {
        let cost = foresight::cost(&self.snapshot).0 - self.before;
        json!({
            "cost": decision::dollars(model::NanosPerHour(cost)),
            "nodes": self.launched,
            "turns": self.rounds,
            "unplaced": self.unplaced,
        })
    }
}
