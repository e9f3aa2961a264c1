//! State nodes of a cluster: Nodes joined with their NodeClaims, and launches in flight
//! (docs/spec/scheduling.md#cluster-state).

mod departures;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use api::{conditions::types::REBOOTING, names::taint};
use model::{
    Memo, NodeClaimName, NodeName, NodePoolName, Resources, Snapshot,
    labels::{HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED},
    ledger::Intent,
    node::Node,
    node_claim::NodeClaim,
    plan::{Expected, Launch},
    pod::{Pod, PodPhase},
    resources::NODES,
    snapshot::Optimize,
    taint::{Taint, TaintEffect},
};

pub use self::departures::{any_leaves, overdue_at};
use self::departures::{
    is_going, is_overdue, is_overlong, leaving, noticed, repaired, timed_out, to_reboot,
};
use crate::by_instance::instance_of;

/// All current and future nodes.
#[derive(Debug)]
pub struct Inventory<'a> {
    pub state_nodes: Vec<StateNode<'a>>,
    bound: BoundPods<'a>,
}

/// A Node, a NodeClaim, both, or a launch in flight.
#[derive(Debug)]
pub struct StateNode<'a> {
    pub node: Option<&'a Node>,
    pub claim: Option<&'a NodeClaim>,
    /// Name of the NodeClaim until the Node is registered, then of the Node.
    pub name: &'a str,
    pub labels: Cow<'a, BTreeMap<String, String>>,
    /// Effective taints: without those that disappear by themselves until the node is initialized.
    pub taints: Vec<&'a Taint>,
    pub registered: bool,
    pub initialized: bool,
    /// Leaving: takes no pods, and its own pods must move.
    pub deleting: bool,
    /// Whether it is leaving only because of a timeout, which registration may still undo. It counts for limits.
    pub late: bool,
    /// Whether the node is rebooted in place. It returns with all its capacity, and is not disrupted meanwhile.
    pub rebooting: bool,
    /// Whether its instance is terminated regardless of its pods, all of which must move.
    pub terminating_unconditionally: bool,
    pub capacity: Resources,
    /// Largest amount of each resource among the instance types of its launch, until its type is known.
    largest: Option<Resources>,
    pub allocatable: Resources,
    /// Bound pods that are not terminal.
    pub pods: Vec<&'a Pod>,
}

impl<'a> Inventory<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let pods = BoundPods::new(snapshot);
        let leaving = leaving(snapshot);
        let mut claims: BTreeMap<&str, &NodeClaim> = snapshot
            .node_claims
            .iter()
            .filter(|claim| !claim.status.provider_id.is_empty())
            .map(|claim| (claim.status.provider_id.as_str(), claim))
            .collect();
        let mut state_nodes = Vec::new();
        for node in &snapshot.nodes {
            let claim = claims.remove(node.provider_id.as_str());
            let managed = node.labels.contains_key(NODE_POOL);
            let not_joined = claim.is_some()
                && !is_true(&node.labels, INITIALIZED)
                && !node.labels.contains_key(INSTANCE_TYPE);
            if not_joined {
                state_nodes.extend(claim.map(|claim| StateNode::new(None, Some(claim), &pods)));
            } else if claim.is_some() || !node.provider_id.is_empty() || !managed {
                state_nodes.push(StateNode::new(Some(node), claim, &pods));
            }
        }
        let rest = claims.into_values();
        state_nodes.extend(rest.map(|claim| StateNode::new(None, Some(claim), &pods)));
        let known: BTreeSet<&NodeClaimName> = snapshot
            .node_claims
            .iter()
            .filter(|claim| !claim.status.provider_id.is_empty())
            .map(|claim| &claim.name)
            .collect();
        let awaited = snapshot.intents.iter().filter(|i| i.is_in_flight());
        let awaited = awaited.filter(|intent| !known.contains(intent.name()));
        state_nodes.extend(awaited.map(|intent| StateNode::in_flight(intent, snapshot)));
        let noticed = noticed(snapshot);
        let late = timed_out(snapshot);
        let rebooted = to_reboot(snapshot);
        let repaired = repaired(snapshot);
        for state_node in &mut state_nodes {
            let claim = state_node.claim.map(|claim| &claim.name);
            let is_overdue = state_node
                .claim
                .is_some_and(|claim| is_overdue(claim, snapshot));
            let is_late = is_overdue || claim.is_some_and(|name| late.contains(name));
            state_node.late |= is_late && !state_node.deleting;
            state_node.deleting |= is_late || claim.is_some_and(|name| leaving.contains(name));
            state_node.rebooting |= claim.is_some_and(|name| rebooted.contains(name));
            if state_node.rebooting {
                // The capacity of pods being deleted is free when the node is back.
                state_node.pods.retain(|pod| pod.deletion.is_none());
            }
            let of_claim = state_node.claim.map(|claim| &claim.status.provider_id);
            let of_node = || state_node.node.map(|node| &node.provider_id);
            let instance = of_claim.or_else(of_node);
            let instance = instance.and_then(|provider_id| instance_of(provider_id));
            if let Some(terminating_unconditionally) = instance.and_then(|id| noticed.get(&id)) {
                state_node.deleting = true;
                state_node.late = false;
                state_node.terminating_unconditionally = *terminating_unconditionally;
            }
            let is_repaired = state_node.claim.map(|claim| repaired.contains(&claim.uid));
            state_node.terminating_unconditionally |=
                state_node.deleting && is_repaired == Some(true);
        }
        Self {
            state_nodes,
            bound: pods,
        }
    }

    /// Non-terminal pods bound to a Node.
    pub fn pods_on(&self, node: &NodeName) -> &[&'a Pod] {
        self.bound.on(node)
    }

    /// Usage of a NodePool's limits by state nodes that stay, `nodes` included.
    pub fn usage(&self, pool: &NodePoolName) -> Resources {
        self.usage_without(pool, &BTreeSet::new())
    }

    /// [`Self::usage`] without the state nodes in `gone`.
    pub(crate) fn usage_without(&self, pool: &NodePoolName, gone: &BTreeSet<usize>) -> Resources {
        let mut usage = Resources::default();
        let own = self
            .state_nodes
            .iter()
            .enumerate()
            .filter(|(at, state_node)| {
                (!state_node.deleting || state_node.late)
                    && !gone.contains(at)
                    && state_node.labels.get(NODE_POOL).map(String::as_str) == Some(pool.as_str())
            });
        for (_, state_node) in own {
            usage.add(state_node.largest.as_ref().unwrap_or(&state_node.capacity));
            usage.add(&Resources::from([(NODES, 1)]));
        }
        usage
    }
}

impl<'a> StateNode<'a> {
    fn new(node: Option<&'a Node>, claim: Option<&'a NodeClaim>, pods: &BoundPods<'a>) -> Self {
        let has = |label| node.is_some_and(|node| claim.is_none() || is_true(&node.labels, label));
        let (registered, initialized) = (has(REGISTERED), has(INITIALIZED));
        let deleting = match (claim, node) {
            (Some(claim), _) => is_going(claim),
            (None, node) => node.is_some_and(|node| node.deleted_at.is_some()),
        };
        let shown = node.filter(|_| registered);
        let (name, labels) = match (shown, claim) {
            (Some(node), _) => (node.name.as_str(), &node.labels),
            (None, Some(claim)) => (claim.name.as_str(), &claim.labels),
            (None, None) => ("", &EMPTY),
        };
        let amounts =
            |of_node: Option<&Resources>, of_claim: Option<&Resources>| match (of_node, of_claim) {
                (Some(of_node), Some(of_claim)) if !initialized => filled(of_node, of_claim),
                (of_node, of_claim) => of_node.or(of_claim).cloned().unwrap_or_default(),
            };
        Self {
            name,
            labels: Cow::Borrowed(labels),
            taints: taints(shown, claim, initialized),
            registered,
            initialized,
            deleting,
            late: false,
            rebooting: claim.is_some_and(|claim| claim.is_true(REBOOTING)),
            terminating_unconditionally: false,
            largest: None,
            capacity: amounts(node.map(|n| &n.capacity), claim.map(|c| &c.status.capacity)),
            allocatable: amounts(
                node.map(|node| &node.allocatable),
                claim.map(|claim| &claim.status.allocatable),
            ),
            pods: node.map_or_else(Vec::new, |node| pods.on(&node.name).to_vec()),
            node,
            claim,
        }
    }

    /// Launch in flight without an instance in the API, with the resources of its cheapest option. Deleting its NodeClaim ends
    /// it.
    fn in_flight(intent: &'a Intent, snapshot: &'a Snapshot) -> Self {
        let launch = &intent.launch;
        let mut claims = snapshot.node_claims.iter();
        let own = claims.find(|claim| claim.name == launch.name);
        let is_going = own.is_some_and(is_going);
        let late = !is_going && is_overlong(intent, snapshot);
        let expected = &launch.cheapest;
        let types = snapshot.instance_types.get(&launch.node_pool);
        let instance_type =
            types.and_then(|types| types.iter().find(|t| t.name == expected.instance_type));
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        let described = instance_type.map(|t| &t.requirements);
        for requirement in described.into_iter().flat_map(|all| all.0.values()) {
            if let (false, Some(value), 1) = (
                requirement.complement,
                requirement.values.first(),
                requirement.values.len(),
            ) {
                labels.insert(requirement.key.clone(), value.clone());
            }
        }
        labels.extend(launch.labels.clone());
        labels.insert(model::labels::ZONE.to_owned(), expected.zone.clone());
        let capacity_type = expected.capacity_type.as_str().to_owned();
        labels.insert(model::labels::CAPACITY_TYPE.to_owned(), capacity_type);
        Self {
            node: None,
            claim: None,
            name: launch.name.as_str(),
            labels: Cow::Owned(labels),
            taints: launch.spec.taints.iter().collect(),
            registered: false,
            initialized: false,
            deleting: is_going || late,
            late,
            rebooting: false,
            terminating_unconditionally: false,
            capacity: expected.capacity.clone(),
            largest: largest(launch, snapshot),
            allocatable: instance_type.map_or_else(
                || expected.capacity.clone(),
                model::InstanceType::allocatable,
            ),
            pods: Vec::new(),
        }
    }

    pub fn hostname(&self) -> &str {
        self.labels.get(HOSTNAME).map_or(self.name, String::as_str)
    }

    /// Reference to the state node in a plan.
    pub fn expected(&self) -> Expected {
        if self.registered {
            Expected::Node(self.name.into())
        } else {
            Expected::NodeClaim(self.name.into())
        }
    }
}

/// Largest amount of each resource among the launch's instance types: EC2 may launch any of them. Karpenter assumes the
/// cheapest.
fn largest(launch: &Launch, snapshot: &Snapshot) -> Option<Resources> {
    let types = snapshot.instance_types.get(&launch.node_pool)?;
    let listed: BTreeSet<&str> = launch
        .instance_types
        .iter()
        .map(|name| name.as_str())
        .collect();
    let mut largest = launch.cheapest.capacity.clone();
    let listed = types
        .iter()
        .filter(|instance_type| listed.contains(instance_type.name.as_str()));
    for (name, amount) in listed.flat_map(|instance_type| instance_type.capacity.iter()) {
        if amount > largest.get(name) {
            largest.set(name, amount);
        }
    }
    (snapshot.settings.optimize == Optimize::Cost).then_some(largest)
}

static EMPTY: BTreeMap<String, String> = BTreeMap::new();

pub(crate) fn is_daemon(pod: &Pod) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "DaemonSet" && owner.api_version == "apps/v1")
}

pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

fn is_true(labels: &BTreeMap<String, String>, key: &str) -> bool {
    labels.get(key).is_some_and(|value| value == "true")
}

/// Non-terminal pods, by the name of their node.
#[derive(Debug, Default)]
struct BoundPods<'a> {
    at: Memo<&'a str, usize>,
    pods: Vec<Vec<&'a Pod>>,
}

impl<'a> BoundPods<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut bound = Self::default();
        for pod in snapshot.pods.iter().filter(|pod| !is_terminal(pod)) {
            let Some(node) = &pod.node_name else {
                continue;
            };
            let next = bound.pods.len();
            let at = bound.at.get_or_insert(node.as_str(), next);
            match bound.pods.get_mut(at) {
                Some(pods) => pods.push(pod),
                None => bound.pods.push(vec![pod]),
            }
        }
        bound
    }

    fn on(&self, node: &NodeName) -> &[&'a Pod] {
        let pods = self.at.get(node.as_str()).and_then(|at| self.pods.get(at));
        pods.map_or(&[], Vec::as_slice)
    }
}

/// Fills in resources that the kubelet reports as absent or zero until their device plugin is up.
fn filled(of_node: &Resources, of_claim: &Resources) -> Resources {
    let mut amounts = of_claim.clone();
    let reported = of_node.iter().filter(|(_, amount)| *amount != 0);
    for (name, amount) in reported {
        amounts.set(name, amount);
    }
    amounts
}

/// Effective taints (docs/spec/scheduling.md#taints).
fn taints<'a>(
    registered: Option<&'a Node>,
    claim: Option<&'a NodeClaim>,
    initialized: bool,
) -> Vec<&'a Taint> {
    let all: &[Taint] = match (registered, claim) {
        (Some(node), _) => &node.taints,
        (None, Some(claim)) => &claim.spec.taints,
        (None, None) => &[],
    };
    let reboots = claim.is_some_and(|claim| claim.is_true(REBOOTING));
    let startup = claim.map_or(&[][..], |claim| &claim.spec.startup_taints);
    let passes = |taint: &Taint| {
        let same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
        is_ephemeral(taint) || startup.iter().any(same)
    };
    all.iter()
        .filter(|taint| initialized || !passes(taint))
        .filter(|taint| !reboots || taint.key != taint::REBOOTING)
        .collect()
}

/// Whether every node has the taint for a while when it starts.
fn is_ephemeral(taint: &Taint) -> bool {
    use TaintEffect::{NoExecute, NoSchedule};
    use api::names::taint::{
        NOT_READY, READINESS_PREFIX, UNINITIALIZED, UNREACHABLE, UNREGISTERED,
    };
    let effect = taint.effect;
    match taint.key.as_str() {
        NOT_READY => effect == NoSchedule || effect == NoExecute,
        UNREACHABLE => effect == NoSchedule,
        UNINITIALIZED => effect == NoSchedule && taint.value == "true",
        UNREGISTERED => effect == NoExecute,
        key => key.starts_with(READINESS_PREFIX),
    }
}

#[cfg(test)]
mod tests;
