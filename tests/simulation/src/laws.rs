//! Invariants that hold at every moment under all faults, checked on the world itself and not on what turns have read.

mod acts;
mod budgets;
mod commits;
mod deadlines;
mod pauses;
mod pool_capacity;
mod records;
mod rejected;
mod repair;
mod state;
mod static_pools;
mod terminations;
mod time_limits;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use fakes::{ApiServer, World};
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, InstanceId, Lane, NodeClaimName, NodeName, NodePoolName, PodKey, Wake,
    ids::TurnId,
    launch::{FleetOverride, Instance},
    ledger::{IntentState, Lease},
    node::Node,
    node_claim::NodeClaim,
    pod::Pod,
};

use crate::{
    rows,
    script::{EventKind, Script},
};

/// The laws of every cluster, shared by everything that acts there.
#[derive(Clone)]
pub(crate) struct AllLaws(Arc<BTreeMap<ClusterName, Mutex<Laws>>>);

impl AllLaws {
    pub(crate) fn new(script: &Script) -> Self {
        let names = script.setting.cluster_names().enumerate();
        let each = names.map(|(index, name)| (name.into(), Mutex::new(Laws::new(script, index))));
        Self(Arc::new(each.collect()))
    }

    /// Runs `act` with the laws of one cluster.
    pub(crate) fn with<T: Default>(
        &self,
        cluster: &ClusterName,
        act: impl FnOnce(&mut Laws) -> T,
    ) -> T {
        let laws = self.0.get(cluster);
        let laws = laws.map(|laws| laws.lock().unwrap_or_else(PoisonError::into_inner));
        laws.map(|mut laws| act(&mut laws)).unwrap_or_default()
    }
}

/// The first broken law of a cluster, and the history that the checks need.
#[derive(Default)]
pub struct Laws {
    pub(crate) broken: Option<BrokenLaw>,
    /// Time since the last fault.
    pub(crate) clear_for: SignedDuration,
    tokens_ignored: bool,
    /// Whether the relay runs all the time.
    has_relay: bool,
    /// Instances whose interruption AWS has announced, with the time of the announcement.
    pub(crate) announced: BTreeMap<InstanceId, Timestamp>,
    /// Times at which announced interruptions happen.
    pub(crate) deadlines: BTreeMap<InstanceId, Timestamp>,
    /// Deadlines of the pods of NodeClaims that are being deleted, by instance.
    drain_deadlines: BTreeMap<InstanceId, Timestamp>,
    /// Start of each process, and the generation that it read before the inputs of its plan.
    started_at: BTreeMap<u64, Timestamp>,
    generations: BTreeMap<u64, u64>,
    /// Objects whose changes are rejected, or whose rows cannot be read.
    pub(crate) rejected: rejected::RejectedObjects,
    /// Time at which the cluster was last recreated.
    recreated_at: Option<Timestamp>,
    /// The turn that last took each lane.
    last_turns: BTreeMap<Lane, TurnId>,
    /// Leases by lane, on the lane's own clock.
    leases: BTreeMap<Lane, Lease>,
    /// Start of the period in which Whittle may not act, if it may not.
    idle_since: Option<Timestamp>,
    /// Start of the period in which Whittle may act, if it may.
    active_since: Option<Timestamp>,
    pauses: pauses::ActivePauses,
    /// Time at which EC2 last hid existing instances.
    hidden_at: Option<Timestamp>,
    initialized: BTreeSet<NodeClaimName>,
    /// NodeClaims and Nodes that were collected although their instance is alive, with the time.
    collected: BTreeMap<String, Timestamp>,
    /// Whether a user has approved collecting all of them.
    pub(crate) approved: bool,
    max_instances: usize,
    /// Whether each pod still needed a node when a commit last read it again.
    reread: BTreeMap<(Lane, PodKey), bool>,
    capacity_errors: BTreeMap<Offering, Timestamp>,
    requested: BTreeSet<String>,
    launched: BTreeSet<NodeClaimName>,
    created: BTreeSet<NodeClaimName>,
    /// NodeClaims that were created again under the same name, as by a delayed request; no instance may be launched for them.
    created_again: BTreeSet<NodeClaimName>,
    /// NodeClaims that a user removed: a turn that died before it recorded their creation creates them again.
    pub(crate) forced: BTreeSet<NodeClaimName>,
    /// Number of created NodeClaims that were checked.
    created_checked: usize,
    /// [`World::changes`] at the last check, and the number of checks since without a change.
    checked_changes: u64,
    unchanged_checks: u32,
    /// NodeClaims that the ledger marked for removal at the last change.
    marked_for_removal: BTreeSet<NodeClaimName>,
    /// NodeClaims that the ledger marked for removal, with the last time.
    last_marked: BTreeMap<NodeClaimName, Timestamp>,
    /// Last time at which pods kept NodeClaims that are being deleted.
    held_until: BTreeMap<NodeClaimName, Timestamp>,
    repair: repair::RepairWatch,
    replicas: static_pools::Replicas,
    limits: BTreeMap<NodePoolName, (i64, Timestamp)>,
    /// Last time at which a NodePool could not hold one more node.
    full_at: BTreeMap<NodePoolName, Timestamp>,
    budgets: BTreeMap<NodePoolName, Vec<(Timestamp, i64)>>,
    /// Nodes under disruption one second ago.
    disrupted: BTreeMap<NodePoolName, BTreeSet<NodeClaimName>>,
    /// The current minute, and the number of turns begun in it by lane and reason.
    turns: (i64, BTreeMap<String, u32>),
    /// Turns that ended in this minute and changed something.
    productive_turns: u32,
}

type Offering = (String, String, String);

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLaw {
    pub law: &'static str,
    pub at: Timestamp,
    pub what: String,
}

/// Age of a pod from which turns must have seen it.
const NOTICED_WITHIN: SignedDuration = SignedDuration::from_secs(120);
/// Time within which a turn that began to act has ended.
const TURN_MAX: SignedDuration = SignedDuration::from_secs(90);
/// Upper bound on turns per minute that change nothing; a lane that keeps waking itself exceeds it.
const IDLE_TURNS_PER_MINUTE: u32 = 150;

impl Laws {
    fn new(script: &Script, cluster: usize) -> Self {
        let mut events = script.events.iter();
        let dies = events.any(|event| {
            event.cluster == cluster
                && matches!(
                    event.kind,
                    EventKind::RelayDead { .. } | EventKind::ClusterRecreated { .. }
                )
        });
        Self {
            tokens_ignored: script.setting.tokens_ignored,
            has_relay: script.setting.relay && !dies,
            ..Self::default()
        }
    }

    pub(crate) fn breaks(&mut self, law: &'static str, at: Timestamp, what: impl Into<String>) {
        self.broken.get_or_insert(BrokenLaw {
            law,
            at,
            what: what.into(),
        });
    }

    /// Resets everything except instances: another cluster now has the name.
    pub(crate) fn cluster_recreated(&mut self, now: Timestamp) {
        self.recreated_at = Some(now);
        self.collected.clear();
        self.created_checked = 0;
        self.created.clear();
        self.created_again.clear();
    }

    pub(crate) fn process_begins(&mut self, world: &World, process: u64) {
        self.watch_mode(world);
        self.started_at.insert(process, world.now);
    }

    pub(crate) fn process_ends(&mut self, process: u64) {
        self.started_at.remove(&process);
        self.generations.remove(&process);
    }

    /// Records the generation before a process reads its plan's inputs, or after it has read the plans that others committed.
    pub(crate) fn reads(&mut self, world: &World, process: u64) {
        let meta = rows(world).and_then(|rows| rows.meta.as_ref());
        let generation = meta.map(|meta| meta.generation).unwrap_or_default();
        self.generations.insert(process, generation);
    }

    /// Records that a process lost a race to this generation.
    pub(crate) fn raced(&mut self, process: u64, generation: u64) {
        let seen = self.generations.entry(process).or_default();
        *seen = generation.max(*seen);
    }

    pub(crate) fn turn_begins(&mut self, now: Timestamp, wake: &Wake) {
        let minute = now.as_second() / 60;
        if self.turns.0 != minute {
            self.turns = (minute, BTreeMap::new());
            self.productive_turns = 0;
        }
        let turns = &mut self.turns.1;
        let of = format!("{} for {}", wake.lane, wake.reason);
        *turns.entry(of).or_default() += 1;
        let all: u32 = turns.values().sum();
        let idle = all.saturating_sub(self.productive_turns);
        if idle > IDLE_TURNS_PER_MINUTE {
            let what =
                format!("{idle} turns that changed nothing within one minute, of {all}: {turns:?}");
            self.breaks("no storm of turns", now, what);
        }
    }

    /// Records whether a pod that a turn reads again still needs a node (docs/protocol.md#a6). A pod whose node is being removed
    /// does; a node is being removed once the ledger says so, before its NodeClaim is deleted. A node that stays after all was
    /// being removed when the turn read it, and the removal's commit lost its race.
    pub(crate) fn rereads(&mut self, world: &World, lane: Lane, key: &PodKey, pod: Option<&Pod>) {
        let marked = state::marked_for_removal(world);
        let left = |name: &NodeClaimName| {
            let at = self.last_marked.get(name);
            marked.contains(name) || at.is_some_and(|at| world.now.duration_since(*at) <= TURN_MAX)
        };
        let goes = |name: &NodeName| {
            let Some(node) = world.api.nodes.get(name) else {
                return true;
            };
            let mut claims = world.api.node_claims.values();
            let claim = claims.find(|claim| claim.status.provider_id == node.provider_id);
            claim.is_none_or(|claim| claim.deleted_at.is_some() || left(&claim.name))
                || node.deleted_at.is_some()
                || !node.taints.is_empty()
                || self.announced.keys().any(|id| names(&node.provider_id, id))
        };
        let waits = pod.is_some_and(|pod| pod.node_name.as_ref().is_none_or(goes));
        self.reread.insert((lane, key.clone()), waits);
    }
}

/// Returns whether a launch is useless because its NodeClaim is being deleted or gone: its instance is terminated immediately
/// (docs/protocol.md#a5).
fn ends(api: &ApiServer, name: &NodeClaimName) -> bool {
    match api.node_claims.get(name) {
        Some(claim) => claim.deleted_at.is_some(),
        None => api.created.contains(name),
    }
}

/// Returns whether a launch failed; such a replacement is deleted without a decision.
fn has_failed(world: &World, name: &NodeClaimName) -> bool {
    let intent = rows(world).and_then(|rows| rows.intents.get(name));
    intent.is_some_and(|intent| matches!(intent.state, IntentState::Failed { .. }))
}

fn claim_of<'a>(world: &'a World, id: &InstanceId) -> Option<&'a NodeClaim> {
    let mut claims = world.api.node_claims.values();
    claims.find(|claim| names(&claim.status.provider_id, id))
}

fn node_of<'a>(world: &'a World, id: &InstanceId) -> Option<&'a Node> {
    let mut nodes = world.api.nodes.values();
    nodes.find(|node| names(&node.provider_id, id))
}

fn instance_of<'a>(world: &'a World, claim: &NodeClaim) -> Option<&'a Instance> {
    let (_, id) = claim.status.provider_id.rsplit_once('/')?;
    world.account.instances.get(&InstanceId::from(id))
}

pub(crate) fn names(provider_id: &str, id: &InstanceId) -> bool {
    provider_id.rsplit('/').next() == Some(id.as_str())
}

fn offering(capacity_type: model::CapacityType, choice: &FleetOverride) -> Offering {
    let capacity_type = capacity_type.as_str().to_owned();
    (
        capacity_type,
        choice.instance_type.clone(),
        choice.zone.clone(),
    )
}
