use std::hash::{DefaultHasher, Hash, Hasher};

use fakes::{Sim, World};
use model::{Lane, Wake, ledger::RelayBeat};

use crate::cluster;

/// The relay in the cluster: counters before wakes, wakes only for what changed.
pub(crate) struct Relay {
    exists: bool,
    dead_until: i64,
    seen: Seen,
    beat: RelayBeat,
}

/// What it last told of, as digests: it is looked at every second.
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
        let now = sim.with(|world| Seen::of(world));
        let mut lanes = Vec::new();
        if now.pending != self.seen.pending {
            lanes.push(Lane::Provisioner);
        }
        if now.nodes != self.seen.nodes || now.pods != self.seen.pods {
            lanes.extend([Lane::Lifecycle, Lane::Terminator]);
        }
        let changed = !lanes.is_empty();
        self.seen = now;
        if !self.exists || seconds < self.dead_until {
            // Another one begins to count afresh.
            self.beat.epoch = format!("relay-{seconds}");
            self.beat.counters.clear();
            return changed;
        }
        for lane in &lanes {
            *self
                .beat
                .counters
                .entry(lane.as_str().to_owned())
                .or_default() += 1;
        }
        self.beat.beat_at = (seconds / 30).to_string();
        let beat = self.beat.clone();
        sim.with(|world| {
            world.ledger.of(&cluster()).beat = Some(beat);
            let now = world.now;
            let wakes = lanes
                .iter()
                .map(|lane| (now, Wake::new(cluster(), *lane, "relay")));
            world.wakes.extend(wakes);
        });
        changed
    }
}
