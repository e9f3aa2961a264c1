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

/// The relay in the cluster: counters before wakes, wakes only for what changed, and only of lanes that it concerns (as
/// `infra/relay/src/routing.rs` has it): the terminator while something drains, lifecycle now and then for pods that moved, the
/// provisioner for a NodeClaim that is gone, or a NodePool that changed, while pods wait.
pub(crate) struct Relay {
    exists: bool,
    dead_until: i64,
    /// When it was last seen dead, until it beats again.
    died_at: Option<i64>,
    /// When it last beat.
    beaten_at: Option<i64>,
    /// When lifecycle hears, or last heard, of pods that moved.
    spaced_at: i64,
    /// [`World::changes`] of the last look.
    changes: u64,
    seen: Seen,
    beat: RelayBeat,
    cluster: ClusterName,
    /// Where it publishes pods.
    publisher: Option<Publisher>,
}

/// A lane that something concerns, and in how many seconds it is woken, if at all.
type Concern = (Lane, Option<i64>);

/// Epoch of the first process.
const FIRST: &str = "relay-1";

/// It beats so often, in seconds.
const EVERY: i64 = 30;

/// Lanes hear of pods that moved no more often, in seconds.
const SPACING: i64 = 10;

/// What it last told of, most of it as digests.
#[derive(PartialEq, Eq)]
struct Seen {
    pending: u64,
    nodes: u64,
    pods: u64,
    claims: BTreeSet<NodeClaimName>,
    pools: u64,
    /// Whether any pod waits for capacity.
    waits: bool,
    /// Whether any node or NodeClaim is on its way out.
    drains: bool,
}

impl Seen {
    fn of_nothing() -> Self {
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

/// Publishes the pods where they have changed, and says where they lie.
fn publish(publisher: &mut Publisher, world: &mut World, beat: &RelayBeat) -> Option<ViewPointer> {
    publisher.begin_list();
    for pod in world.api.pods.values() {
        publisher.see(pod.clone());
    }
    publisher.end_list();
    if publisher.is_due()
        && let Ok(issue) = publisher.issue()
    {
        world.ledger.archive.insert(issue.name, issue.object);
        publisher.stored();
    }
    let (last, full) = publisher.standing()?;
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
    let leaves = |node: &Node| {
        let mut taints = node.taints.iter();
        node.deleted_at.is_some() || taints.any(|taint| taint.key == DISRUPTED)
    };
    api.nodes.values().any(leaves)
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
            spaced_at: -SPACING,
            changes: 0,
            seen: Seen::of_nothing(),
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

    /// Tells of what changed; says whether anything did, also while it is dead.
    pub(crate) fn watches(&mut self, sim: &Sim, seconds: i64) -> bool {
        let concerns = self.changed_for(sim, seconds);
        let changed = concerns.is_some();
        self.beats(sim, seconds, &concerns.unwrap_or_default());
        changed
    }

    /// Counts what has changed, and wakes whom it concerns.
    fn beats(&mut self, sim: &Sim, seconds: i64, concerns: &[Concern]) {
        if !self.exists || seconds < self.dead_until {
            self.died_at = Some(seconds);
            return;
        }
        // Another one begins to count afresh.
        if let Some(seconds) = self.died_at.take() {
            self.beat.epoch = format!("relay-{seconds}");
            self.beat.view = None;
            if let Some(publisher) = &mut self.publisher {
                *publisher = Publisher::new(self.cluster.clone(), self.beat.epoch.clone());
            }
            self.beat.counters.clear();
            self.beaten_at = None;
        }
        let beats_at = seconds / EVERY;
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
                let mut glance = wake.clone();
                glance.batch = Batch::Open;
                sim.wake(glance, SignedDuration::ZERO);
            }
            sim.wake(wake, SignedDuration::from_secs(wait));
        }
    }

    /// In how many seconds lifecycle hears of pods that moved; `None` if a wake is on its way.
    fn spaced(&mut self, seconds: i64) -> Option<i64> {
        if self.spaced_at > seconds {
            return None;
        }
        self.spaced_at = seconds.max(self.spaced_at + SPACING);
        Some(self.spaced_at - seconds)
    }

    /// The lanes that what has changed concerns; `None` where nothing has changed.
    fn changed_for(&mut self, sim: &Sim, seconds: i64) -> Option<Vec<Concern>> {
        let before = self.changes;
        let (changes, now) = sim.look(|world| {
            let is_new = world.changes != before;
            is_new.then(|| (world.changes, Seen::of(world)))
        })?;
        self.changes = changes;
        let seen = std::mem::replace(&mut self.seen, now);
        let now = &self.seen;
        let is_freed = !seen.claims.is_subset(&now.claims);
        let pools = now.pools != seen.pools;
        let waits = now.pending != seen.pending || (now.waits && (is_freed || pools));
        let (nodes, pods) = (now.nodes != seen.nodes, now.pods != seen.pods);
        let drains = now.drains || seen.drains;
        let mut concerns = Vec::new();
        if waits {
            // Every other second, pods are gathered until the next one.
            let gathered = now.pending != seen.pending && seconds % 2 == 1;
            concerns.push((Lane::Provisioner, Some(i64::from(gathered))));
        }
        if pools {
            concerns.push((Lane::Disruption, Some(0)));
        }
        if nodes || pools {
            concerns.push((Lane::Lifecycle, Some(0)));
        } else if pods {
            concerns.push((Lane::Lifecycle, self.spaced(seconds)));
        }
        if (nodes || pods) && drains {
            concerns.push((Lane::Terminator, Some(0)));
        }
        (nodes || pods || !concerns.is_empty()).then_some(concerns)
    }
}
