//! Pods of a case arriving over time, batched as by a relay: the cost of their nodes beside that of a single batch.

use std::collections::BTreeSet;

use clap::ValueEnum;
use model::{Batch, NodeClaimName, Snapshot, pod::Pod};
use planner::{Share, simulate_apply};
use serde_json::{Value, json};

use crate::{backtest, decision};

/// Milliseconds of the relay's window (`batchIdleDuration`, `batchMaxDuration`), and of the interval between early turns in it.
const IDLE: u64 = 1_000;
const MAX: u64 = 10_000;
const FIRST_EARLY_TURN: u64 = 150;
const EARLY_TURN_PAUSE: u64 = 500;
/// Pods that justify an early turn in an open window.
const EARLY_TURN_PODS: usize = 10;

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
    let turns = turns(&times);
    let whole = turns.iter().copied();
    let whole: Vec<_> = whole.filter(|(_, batch)| batch.is_closed()).collect();
    let whole = Replay::new(snapshot).run(&whole, &comes);
    let early = Replay::new(snapshot).run(&turns, &comes);
    json!({"atOnce": at_once.to_json(), "wholeBatches": whole.to_json(), "openBatches": early.to_json()})
}

/// Times of the provisioner's turns, each with its kind of batch.
fn turns(times: &[u64]) -> Vec<(u64, Batch)> {
    let mut turns = Vec::new();
    let mut left = times;
    while let Some(first) = left.first().copied() {
        let (mut early_turn, mut pause, mut gathered) =
            (first + FIRST_EARLY_TURN, EARLY_TURN_PAUSE, 0);
        let mut end = first + IDLE;
        for time in left {
            if gathered >= EARLY_TURN_PODS && early_turn < end.min(*time) {
                turns.push((early_turn, Batch::Open));
                (early_turn, pause, gathered) = (early_turn + pause, pause * 2, 0);
            }
            if *time >= end {
                break;
            }
            gathered += 1;
            if gathered == EARLY_TURN_PODS {
                early_turn = early_turn.max(*time);
            }
            end = (*time + IDLE).min(first + MAX);
        }
        if gathered >= EARLY_TURN_PODS && early_turn < end {
            turns.push((early_turn, Batch::Open));
        }
        turns.push((end, Batch::Closed));
        let gone = left.iter().take_while(|time| **time < end).count();
        left = left.get(gone..).unwrap_or_default();
    }
    turns
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
            before: simulate_apply::cost(snapshot).0,
            snapshot: snapshot.clone(),
            launched: 0,
            rounds: 0,
            unplaced: 0,
        }
    }

    /// Runs turns at these times; pods arrive at theirs.
    fn run(mut self, turns: &[(u64, Batch)], comes: &[(usize, u64)]) -> Self {
        let all = std::mem::take(&mut self.snapshot.pods);
        let late: BTreeSet<usize> = comes.iter().map(|(at, _)| *at).collect();
        let there = all.iter().enumerate().filter(|(at, _)| !late.contains(at));
        self.snapshot.pods = there.map(|(_, pod)| pod.clone()).collect();
        let mut to_come = comes.iter().peekable();
        for (time, batch) in turns {
            while let Some((at, _)) = to_come.next_if(|(_, comes)| comes <= time) {
                self.snapshot.pods.extend(all.get(*at).cloned());
            }
            self.run_turn(*batch);
        }
        let waits = |pod: &&Pod| planner::is_provisionable(pod);
        self.unplaced = self.snapshot.pods.iter().filter(waits).count();
        self
    }

    fn run_turn(&mut self, batch: Batch) {
        let plan = match batch {
            Batch::Closed => planner::provision(&self.snapshot, Share::WHOLE),
            Batch::Open => planner::provision_full(&self.snapshot, Share::WHOLE),
        };
        let launched = &mut self.launched;
        let launches = backtest::carry_out(plan, &mut self.snapshot, |pool| {
            *launched += 1;
            NodeClaimName(format!("{pool}-{launched}"))
        });
        self.rounds += usize::from(!launches.is_empty());
    }

    fn to_json(&self) -> Value {
        let cost = simulate_apply::cost(&self.snapshot).0 - self.before;
        json!({
            "cost": decision::dollars(model::NanosPerHour(cost)),
            "nodes": self.launched,
            "turns": self.rounds,
            "unplaced": self.unplaced,
        })
    }
}
