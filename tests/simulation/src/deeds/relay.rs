use fakes::Sim;
use model::{Lane, Wake, ledger::RelayBeat};

use crate::cluster;

/// The relay in the cluster: counters before wakes, wakes only for what changed.
pub(crate) struct Relay {
    exists: bool,
    dead_until: i64,
    seen: Seen,
    beat: RelayBeat,
}

/// What it last told of.
#[derive(Default, PartialEq, Eq)]
struct Seen {
    pending: Vec<String>,
    nodes: Vec<String>,
    pods: Vec<String>,
}

impl Relay {
    pub(crate) fn new(exists: bool) -> Self {
        Self {
            exists,
            dead_until: 0,
            seen: Seen::default(),
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
        let now = sim.with(|world| Seen {
            pending: world
                .api
                .pods
                .values()
                .filter(|pod| pod.unschedulable && pod.node_name.is_none())
                .map(|pod| pod.uid.0.clone())
                .collect(),
            nodes: world
                .api
                .nodes
                .values()
                .map(|node| format!("{}@{}", node.name, node.resource_version))
                .chain(
                    world
                        .api
                        .node_claims
                        .values()
                        .map(|claim| format!("{}@{}", claim.name, claim.resource_version)),
                )
                .collect(),
            pods: world
                .api
                .pods
                .values()
                .map(|pod| {
                    format!(
                        "{}@{}",
                        pod.key.name,
                        pod.node_name.as_ref().map_or("", |node| node.as_str())
                    )
                })
                .collect(),
        });
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
