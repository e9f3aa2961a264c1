use std::hash::{DefaultHasher, Hash, Hasher};

use fakes::{Sim, World};
use model::{Lane, Wake, ledger::RelayBeat};

use crate::cluster;

/// The relay in the cluster: counters before wakes, wakes only for what changed.
pub(crate) struct Relay {
    exists: bool,
    dead_until: i64,
    /// When it was last seen dead, until it beats again.
    died_at: Option<i64>,
    /// When it last beat.
    beaten_at: Option<i64>,
    /// [`World::changes`] of the last look.
    changes: u64,
    seen: Seen,
    beat: RelayBeat,
}

/// It beats so often, in seconds.
const EVERY: i64 = 30;

/// What it last told of, as digests.
#[derive(PartialEq, Eq)]
struct Seen {
    pending: u64,
    nodes: u64,
    pods: u64,
}

impl Seen {
    fn of_nothing() -> Self {
        let nothing = DefaultHasher::new().finish();
        Self {
            pending: nothing,
            nodes: nothing,
            pods: nothing,
        }
    }

    fn of(world: &World) -> Self {
        let api = &world.api;
        let mut pending = DefaultHasher::new();
        let mut pods = DefaultHasher::new();
        for pod in api.pods.values() {
            if pod.unschedulable && pod.node_name.is_none() {
                pod.uid.hash(&mut pending);
            }
            (&pod.key.name, &pod.node_name).hash(&mut pods);
        }
        let mut nodes = DefaultHasher::new();
        for node in api.nodes.values() {
            (&node.name, &node.resource_version).hash(&mut nodes);
        }
        for claim in api.node_claims.values() {
            (&claim.name, &claim.resource_version).hash(&mut nodes);
        }
        Self {
            pending: pending.finish(),
            nodes: nodes.finish(),
            pods: pods.finish(),
        }
    }
}

impl Relay {
    pub(crate) fn new(exists: bool) -> Self {
        Self {
            exists,
            dead_until: 0,
            died_at: None,
            beaten_at: None,
            changes: 0,
            seen: Seen::of_nothing(),
            beat: RelayBeat {
                epoch: "relay-1".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                ..RelayBeat::default()
            },
        }
    }

    pub(crate) fn dead_until(&mut self, seconds: i64) {
        self.dead_until = seconds;
    }

    /// Tells of what changed; says whether anything did, also while it is dead.
    pub(crate) fn watches(&mut self, sim: &Sim, seconds: i64) -> bool {
        let lanes = self.changed_for(sim);
        let changed = !lanes.is_empty();
        if !self.exists || seconds < self.dead_until {
            self.died_at = Some(seconds);
            return changed;
        }
        // Another one begins to count afresh.
        if let Some(seconds) = self.died_at.take() {
            self.beat.epoch = format!("relay-{seconds}");
            self.beat.counters.clear();
            self.beaten_at = None;
        }
        let beats_at = seconds / EVERY;
        if !changed && self.beaten_at == Some(beats_at) {
            return false;
        }
        self.beaten_at = Some(beats_at);
        for lane in &lanes {
            let lane = lane.as_str().to_owned();
            *self.beat.counters.entry(lane).or_default() += 1;
        }
        self.beat.beat_at = beats_at.to_string();
        sim.beat(cluster(), self.beat.clone());
        if changed {
            sim.with(|world| {
                let now = world.now;
                let wakes = lanes.iter();
                let wakes = wakes.map(|lane| Wake::new(cluster().clone(), *lane, "relay"));
                world.wakes.extend(wakes.map(|wake| (now, wake)));
            });
        }
        changed
    }

    /// The lanes that what has changed concerns.
    fn changed_for(&mut self, sim: &Sim) -> Vec<Lane> {
        let (changes, seen) = (self.changes, &self.seen);
        let now = sim.look(|world| {
            let is_new = world.changes != changes;
            is_new.then(|| (world.changes, Seen::of(world)))
        });
        let mut lanes = Vec::new();
        let Some((changes, now)) = now else {
            return lanes;
        };
        if now.pending != seen.pending {
            lanes.push(Lane::Provisioner);
        }
        if now.nodes != seen.nodes || now.pods != seen.pods {
            lanes.extend([Lane::Lifecycle, Lane::Terminator]);
        }
        (self.changes, self.seen) = (changes, now);
        lanes
    }
}
