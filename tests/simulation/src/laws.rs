//! What must hold at every moment, whatever goes wrong: judged from the world itself, not from what turns saw of it.

mod acts;
mod budgets;
mod commits;
mod deadlines;
mod endings;
mod fixed;
mod patience;
mod people;
mod records;
mod refused;
mod repair;
mod room;
mod state;

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
    script::{Script, What},
};

/// The laws of every cluster, shared by all who act there.
#[derive(Clone)]
pub(crate) struct AllLaws(Arc<BTreeMap<ClusterName, Mutex<Laws>>>);

impl AllLaws {
    pub(crate) fn new(script: &Script) -> Self {
        let names = script.setting.cluster_names().enumerate();
        let each = names.map(|(index, name)| (name.into(), Mutex::new(Laws::new(script, index))));
        Self(Arc::new(each.collect()))
    }

    /// Does something with the laws of one cluster.
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

/// What has been judged so far, and what that needs of the past.
#[derive(Default)]
pub struct Laws {
    pub(crate) broken: Option<Broken>,
    /// Nothing has gone wrong for so long.
    pub(crate) clear_for: SignedDuration,
    tokens_ignored: bool,
    /// A relay watches all the time.
    has_relay: bool,
    /// Instances that AWS has announced the end of, and when.
    pub(crate) announced: BTreeMap<InstanceId, Timestamp>,
    /// When instances are gone whose end AWS announced.
    pub(crate) deadlines: BTreeMap<InstanceId, Timestamp>,
    /// Deadlines of the pods of NodeClaims that are being deleted, by instance.
    allowed: BTreeMap<InstanceId, Timestamp>,
    /// When processes began, and the generation that they read before what they plan on.
    begun: BTreeMap<u64, Timestamp>,
    generations: BTreeMap<u64, u64>,
    /// What refuses to change, or is told of by a row that nobody can read.
    pub(crate) refused: refused::RefusedObjects,
    /// When the cluster was last made anew.
    anew_at: Option<Timestamp>,
    /// The turn that took each lane last.
    taken: BTreeMap<Lane, TurnId>,
    /// By the lane's own clock.
    held: BTreeMap<Lane, Lease>,
    /// Since when nobody may act.
    idle_since: Option<Timestamp>,
    /// Since when we may.
    active_since: Option<Timestamp>,
    people: people::People,
    /// When EC2 last denied to have the instances that there are.
    hidden_at: Option<Timestamp>,
    initialized: BTreeSet<NodeClaimName>,
    /// NodeClaims and Nodes that were collected although their instance lives, and when.
    lost: BTreeMap<String, Timestamp>,
    /// A person has approved that all of them go.
    pub(crate) approved: bool,
    most_instances: usize,
    /// What pods were when a commit read them again.
    reread: BTreeMap<(Lane, PodKey), bool>,
    lacking: BTreeMap<Offering, Timestamp>,
    requested: BTreeSet<String>,
    launched: BTreeSet<NodeClaimName>,
    created: BTreeSet<NodeClaimName>,
    /// Names of NodeClaims that were created once more, as a request that was late may do: nothing may be launched for them.
    created_again: BTreeSet<NodeClaimName>,
    /// NodeClaims that a person removed: whoever died before saying that one was made makes it again.
    pub(crate) forced: BTreeSet<NodeClaimName>,
    /// How many of those that were made have been looked at.
    looked_at: usize,
    /// [`World::changes`] of the last look, and how many looks before it saw the same.
    seen: u64,
    still: u32,
    /// NodeClaims that the ledger said would go when something had last changed.
    leaving: BTreeSet<NodeClaimName>,
    /// NodeClaims that the ledger said would go, and when it last did.
    left: BTreeMap<NodeClaimName, Timestamp>,
    /// When the pods of NodeClaims that go had last held them.
    let_go: BTreeMap<NodeClaimName, Timestamp>,
    repair: repair::RepairWatch,
    replicas: fixed::Replicas,
    limits: BTreeMap<NodePoolName, (i64, Timestamp)>,
    /// When a NodePool last had no room for one more node.
    full: BTreeMap<NodePoolName, Timestamp>,
    budgets: BTreeMap<NodePoolName, Vec<(Timestamp, i64)>>,
    /// What was disrupted a second ago.
    chosen: BTreeMap<NodePoolName, BTreeSet<NodeClaimName>>,
    /// A minute, and how many turns of which lane began in it for which reason.
    turns: (i64, BTreeMap<String, u32>),
    /// Turns that ended in that minute and had changed something.
    worked: u32,
}

type Offering = (String, String, String);

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub law: &'static str,
    pub at: Timestamp,
    pub what: String,
}

/// A pod that came after a turn looked is not its fault.
const SEEN_AFTER: SignedDuration = SignedDuration::from_secs(120);
/// A turn that began to act has ended after this.
const ACTS_FOR: SignedDuration = SignedDuration::from_secs(90);
/// Turns of one minute that change nothing: a lane that keeps waking itself has more.
const IDLE_TURNS_PER_MINUTE: u32 = 150;

impl Laws {
    fn new(script: &Script, cluster: usize) -> Self {
        let mut events = script.events.iter();
        let dies = events.any(|event| {
            event.cluster == cluster
                && matches!(event.what, What::RelayDead { .. } | What::MadeAnew { .. })
        });
        Self {
            tokens_ignored: script.setting.tokens_ignored,
            has_relay: script.setting.relay && !dies,
            ..Self::default()
        }
    }

    pub(crate) fn breaks(&mut self, law: &'static str, at: Timestamp, what: impl Into<String>) {
        self.broken.get_or_insert(Broken {
            law,
            at,
            what: what.into(),
        });
    }

    /// Another cluster has the name: of the former one nothing counts but its instances.
    pub(crate) fn made_anew(&mut self, now: Timestamp) {
        self.anew_at = Some(now);
        self.lost.clear();
        self.looked_at = 0;
        self.created.clear();
        self.created_again.clear();
    }

    pub(crate) fn process_begins(&mut self, world: &World, process: u64) {
        self.watch_mode(world);
        self.begun.insert(process, world.now);
    }

    pub(crate) fn process_ends(&mut self, process: u64) {
        self.begun.remove(&process);
        self.generations.remove(&process);
    }

    /// A process is about to read what it plans on, or has read what others committed meanwhile.
    pub(crate) fn reads(&mut self, world: &World, process: u64) {
        let meta = rows(world).and_then(|rows| rows.meta.as_ref());
        let generation = meta.map(|meta| meta.generation).unwrap_or_default();
        self.generations.insert(process, generation);
    }

    /// A process is told that it lost a race, and to which generation.
    pub(crate) fn raced(&mut self, process: u64, generation: u64) {
        let seen = self.generations.entry(process).or_default();
        *seen = generation.max(*seen);
    }

    pub(crate) fn turn_begins(&mut self, now: Timestamp, wake: &Wake) {
        let minute = now.as_second() / 60;
        if self.turns.0 != minute {
            self.turns = (minute, BTreeMap::new());
            self.worked = 0;
        }
        let turns = &mut self.turns.1;
        let of = format!("{} for {}", wake.lane, wake.reason);
        *turns.entry(of).or_default() += 1;
        let all: u32 = turns.values().sum();
        let idle = all.saturating_sub(self.worked);
        if idle > IDLE_TURNS_PER_MINUTE {
            let what =
                format!("{idle} turns that changed nothing within one minute, of {all}: {turns:?}");
            self.breaks("no storm of turns", now, what);
        }
    }

    /// The answer about a pod that a turn reads again (docs/protocol.md#a6). One whose node goes waits for another; a node goes
    /// once the ledger says so, before its NodeClaim does. One that stays after all was going when the turn looked, whose commit
    /// is asked for and lost.
    pub(crate) fn rereads(&mut self, world: &World, lane: Lane, key: &PodKey, pod: Option<&Pod>) {
        let leaving = state::leaving(world);
        let left = |name: &NodeClaimName| {
            let at = self.left.get(name);
            leaving.contains(name) || at.is_some_and(|at| world.now.duration_since(*at) <= ACTS_FOR)
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

/// A launch whose NodeClaim is being deleted, or gone already, serves nobody: what it comes to is ended at once
/// (docs/protocol.md#a5).
fn ends(api: &ApiServer, name: &NodeClaimName) -> bool {
    match api.node_claims.get(name) {
        Some(claim) => claim.deleted_at.is_some(),
        None => api.created.contains(name),
    }
}

/// A replacement that came to nothing goes without anybody's having chosen it.
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
