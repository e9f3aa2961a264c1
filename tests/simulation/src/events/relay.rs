use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use api::names::{annotation::MODE, taint::DISRUPTED};
use fakes::{ApiServer, Sim, World};
use jiff::SignedDuration;
use model::{
    Batch, ClusterName, Lane, NodeClaimName, Wake, ledger::RelayBeat, node::Node, view::ViewPointer,
};
use view::Publisher;

/// A relay that updates its counters before it sends wakes, and wakes only the lanes that a change concerns (the rules are those
/// of `infra/relay/src/routing.rs`): the terminator while a node drains, lifecycle now and then for pods that moved, the
/// provisioner while pods wait and a NodeClaim was removed or a NodePool changed.
pub(crate) struct Relay {
    exists: bool,
    dead_until: i64,
    /// Time at which the relay was last dead, until the next heartbeat.
    died_at: Option<i64>,
    /// Time of the last heartbeat.
    beaten_at: Option<i64>,
    /// Time of the last, or next, wake of lifecycle for pods that moved.
    moved_pods_at: i64,
    /// [`World::changes`] at the last check.
    changes: u64,
    before: ClusterHashes,
    beat: RelayBeat,
    cluster: ClusterName,
    /// Publisher of the view of the pods, if the relay publishes it.
    publisher: Option<Publisher>,
}

/// A lane that a change concerns, and the seconds until it is woken, if it is.
type Concern = (Lane, Option<i64>);

/// Epoch of the first process.
const FIRST: &str = "relay-1";

/// Seconds between heartbeats.
const HEARTBEAT_SECONDS: i64 = 30;

/// Minimum seconds between wakes for pods that moved.
const MOVED_PODS_SPACING: i64 = 10;

/// State of the cluster at the last check, most of it as hashes.
#[derive(PartialEq, Eq)]
struct ClusterHashes {
    pending: u64,
    nodes: u64,
    pods: u64,
    claims: BTreeSet<NodeClaimName>,
    pools: u64,
    /// Whether any pod is unschedulable.
    waits: bool,
    /// Whether any node or NodeClaim is being removed.
    drains: bool,
}

impl ClusterHashes {
    fn of_empty_cluster() -> Self {
        let nothing = DefaultHasher::new().finish();
        Self {
            pending: nothing,
            nodes: nothing,
            pods: nothing,
            claims: BTreeSet::new(),
            pools: nothing,
            waits: false,
            drains: false,
        }
    }

    fn of(world: &World) -> Self {
        let api = &world.api;
        let mut pending = DefaultHasher::new();
        let mut pods = DefaultHasher::new();
        let mut waits = false;
        for pod in api.pods.values() {
            if pod.unschedulable && pod.node_name.is_none() {
                pod.uid.hash(&mut pending);
                waits = true;
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
        let mut pools = DefaultHasher::new();
        for pool in api.node_pools.values() {
            let meta = &pool.metadata;
            (meta.generation, meta.annotations.get(MODE)).hash(&mut pools);
        }
        Self {
            pending: pending.finish(),
            nodes: nodes.finish(),
            pods: pods.finish(),
            claims: api.node_claims.keys().cloned().collect(),
            pools: pools.finish(),
            waits,
            drains: drains(api),
        }
    }
}

/// Publishes the pods if they have changed; returns the pointer to the view.
fn publish(publisher: &mut Publisher, world: &mut World, beat: &RelayBeat) -> Option<ViewPointer> {
    publisher.begin_list();
    for pod in world.api.pods.values() {
        publisher.upsert(pod.clone());
    }
    publisher.end_list();
    if publisher.is_due()
        && let Ok(issue) = publisher.issue()
    {
        world.ledger.archive.insert(issue.name, issue.object);
        publisher.stored();
    }
    let (last, full) = publisher.latest()?;
    Some(ViewPointer {
        epoch: beat.epoch.clone(),
        version: last.version,
        full,
        digest: last.digest.clone(),
        at: world.now,
        counters: beat.counters.clone(),
    })
}

fn drains(api: &ApiServer) -> bool {
    let is_leaving = |node: &Node| {
        let mut taints = node.taints.iter();
        node.deleted_at.is_some() || taints.any(|taint| taint.key == DISRUPTED)
    };
    api.nodes.values().any(is_leaving)
        || api
            .node_claims
            .values()
            .any(|claim| claim.deleted_at.is_some())
}

impl Relay {
    pub(crate) fn new(exists: bool, publishes: bool, cluster: &ClusterName) -> Self {
        let publisher = || Publisher::new(cluster.clone(), FIRST.to_owned());
        Self {
            exists,
            cluster: cluster.clone(),
            publisher: publishes.then(publisher),
            dead_until: 0,
            died_at: None,
            beaten_at: None,
            moved_pods_at: -MOVED_PODS_SPACING,
            changes: 0,
            before: ClusterHashes::of_empty_cluster(),
            beat: RelayBeat {
                epoch: FIRST.into(),
                version: env!("CARGO_PKG_VERSION").into(),
                ..RelayBeat::default()
            },
        }
    }

    pub(crate) fn dead_until(&mut self, seconds: i64) {
        self.dead_until = seconds;
    }

    /// Checks for changes, updates counters and sends wakes; returns whether anything changed, also while the relay is dead.
    pub(crate) fn check(&mut self, sim: &Sim, seconds: i64) -> bool {
        let concerns = self.changed_for(sim, seconds);
        let changed = concerns.is_some();
        self.beat(sim, seconds, &concerns.unwrap_or_default());
        changed
    }

    /// Updates the counters of the lanes concerned, writes the heartbeat and sends wakes.
    fn beat(&mut self, sim: &Sim, seconds: i64, concerns: &[Concern]) {
        if !self.exists || seconds < self.dead_until {
            self.died_at = Some(seconds);
            return;
        }
        // A new process starts counting from zero.
        if let Some(seconds) = self.died_at.take() {
            self.beat.epoch = format!("relay-{seconds}");
            self.beat.view = None;
            if let Some(publisher) = &mut self.publisher {
                *publisher = Publisher::new(self.cluster.clone(), self.beat.epoch.clone());
            }
            self.beat.counters.clear();
            self.beaten_at = None;
        }
        let beats_at = seconds / HEARTBEAT_SECONDS;
        if concerns.is_empty() && self.beaten_at == Some(beats_at) {
            return;
        }
        self.beaten_at = Some(beats_at);
        for (lane, _) in concerns {
            let lane = lane.as_str().to_owned();
            *self.beat.counters.entry(lane).or_default() += 1;
        }
        self.beat.beat_at = beats_at.to_string();
        if let Some(publisher) = &mut self.publisher {
            self.beat.view = sim.with(|world| publish(publisher, world, &self.beat));
        }
        sim.beat(&self.cluster, self.beat.clone());
        let woken = concerns
            .iter()
            .filter_map(|(lane, wait)| Some((lane, (*wait)?)));
        for (lane, wait) in woken {
            let mut wake = Wake::new(self.cluster.clone(), *lane, "relay");
            wake.view = self.beat.view.clone();
            if *lane == Lane::Provisioner && wait > 0 {
                let mut early = wake.clone();
                early.batch = Batch::Open;
                sim.wake(early, SignedDuration::ZERO);
            }
            sim.wake(wake, SignedDuration::from_secs(wait));
        }
    }

    /// Seconds until lifecycle is woken for pods that moved; `None` if a wake is already scheduled.
    fn moved_pods_wait(&mut self, seconds: i64) -> Option<i64> {
        if self.moved_pods_at > seconds {
            return None;
        }
        self.moved_pods_at = seconds.max(self.moved_pods_at + MOVED_PODS_SPACING);
        Some(self.moved_pods_at - seconds)
    }

    /// Returns the lanes that changes since the last check concern; `None` if nothing has changed.
    fn changed_for(&mut self, sim: &Sim, seconds: i64) -> Option<Vec<Concern>> {
        let last_changes = self.changes;
        let (changes, now) = sim.look(|world| {
            let is_new = world.changes != last_changes;
            is_new.then(|| (world.changes, ClusterHashes::of(world)))
        })?;
        self.changes = changes;
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let is_freed = !before.claims.is_subset(&now.claims);
        let pools = now.pools != before.pools;
        let waits = now.pending != before.pending || (now.waits && (is_freed || pools));
        let (nodes, pods) = (now.nodes != before.nodes, now.pods != before.pods);
        let drains = now.drains || before.drains;
        let mut concerns = Vec::new();
        if waits {
            // Every other second, unschedulable pods are batched until the next one.
            let gathered = now.pending != before.pending && seconds % 2 == 1;
            concerns.push((Lane::Provisioner, Some(i64::from(gathered))));
        }
        if pools {
            concerns.push((Lane::Disruption, Some(0)));
        }
        if nodes || pools {
            concerns.push((Lane::Lifecycle, Some(0)));
        } else if pods {
            concerns.push((Lane::Lifecycle, self.moved_pods_wait(seconds)));
        }
        if (nodes || pods) && drains {
            concerns.push((Lane::Terminator, Some(0)));
        }
        (nodes || pods || !concerns.is_empty()).then_some(concerns)
    }
}
