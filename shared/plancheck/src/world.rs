//! Indexes of the snapshot: existing machines, nodes in flight, and pods by machine.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use model::{
    Action, InstanceType, Memo, NanosPerHour, Plan, PodKey, Resources, Snapshot, labels,
    ledger::{Command, Intent},
    node::Node,
    node_claim::NodeClaim,
    node_pool::NodePool,
    pod::{Pod, PodPhase},
    taint::{Taint, TaintEffect},
};

use crate::{catalog::Catalog, overlays::Types};

pub(crate) struct World<'a> {
    pub snapshot: &'a Snapshot,
    /// Instance types with NodeOverlays applied.
    types: &'a Types,
    pub pools: BTreeMap<&'a str, &'a NodePool>,
    pub pods: Memo<&'a PodKey, &'a Pod>,
    pub machines: Vec<Machine<'a>>,
    /// By the name of the Node, and by the name of the NodeClaim.
    pub machine_of_node: Memo<&'a str, usize>,
    pub machine_of_claim: BTreeMap<&'a str, usize>,
    /// Nodes without an instance, by the name of the NodeClaim.
    pub in_flight: BTreeMap<&'a str, InFlight<'a>>,
    catalogs: RefCell<BTreeMap<(*const InstanceType, usize), Rc<Catalog<'a>>>>,
}

/// A node of the cluster: its Node, its launched NodeClaim, or both (docs/spec/scheduling.md#cluster-state).
pub(crate) struct Machine<'a> {
    pub name: &'a str,
    pub node: Option<&'a Node>,
    pub claim: Option<&'a NodeClaim>,
    pub labels: &'a BTreeMap<String, String>,
    /// Taints without those that are expected to be removed.
    pub taints: Vec<&'a Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub initialized: bool,
    /// The node is being deleted: no new pods may be placed there, and its pods will move.
    pub leaving: bool,
    /// Whether the node reboots in place, and returns with all its capacity.
    pub rebooting: bool,
    /// Whether the plan deletes the node.
    pub deleted_by_plan: bool,
    pub bound_pods: Vec<&'a Pod>,
}

/// A node that was decided on but has no instance yet.
pub(crate) struct InFlight<'a> {
    pub claim: Option<&'a NodeClaim>,
    pub intent: Option<&'a Intent>,
}

impl<'a> World<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, types: &'a Types, plan: &Plan) -> Self {
        let mut world = Self {
            snapshot,
            types,
            pools: snapshot
                .node_pools
                .iter()
                .map(|pool| (pool.name.as_str(), pool))
                .collect(),
            pods: snapshot.pods.iter().map(|pod| (&pod.key, pod)).collect(),
            machines: Vec::new(),
            machine_of_node: Memo::default(),
            machine_of_claim: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            catalogs: RefCell::default(),
        };
        world.add_machines();
        world.add_in_flight();
        world.assign_pods();
        world.mark_deleted(plan);
        world
    }

    /// Price of each node of this NodePool besides its instance.
    pub(crate) fn surcharge(&self, pool: Option<&str>) -> NanosPerHour {
        let pool = pool.and_then(|name| self.pools.get(name));
        pool.map_or(NanosPerHour(0), |pool| {
            self.snapshot.surcharge(pool).total()
        })
    }

    fn add_machines(&mut self) {
        let mut launched: BTreeMap<&str, &NodeClaim> = BTreeMap::new();
        for claim in &self.snapshot.node_claims {
            if claim.status.provider_id.is_empty() {
                let in_flight = InFlight {
                    claim: Some(claim),
                    intent: None,
                };
                self.in_flight.insert(claim.name.as_str(), in_flight);
            } else {
                launched.insert(&claim.status.provider_id, claim);
            }
        }
        for node in &self.snapshot.nodes {
            let claim = launched.remove(node.provider_id.as_str());
            // A managed node whose kubelet has registered, but whose instance is not known yet.
            let is_unidentified =
                node.provider_id.is_empty() && node.labels.contains_key(labels::NODE_POOL);
            if !is_unidentified {
                self.add_machine(Some(node), claim);
            }
        }
        for claim in launched.into_values() {
            self.add_machine(None, Some(claim));
        }
    }

    fn add_machine(&mut self, node: Option<&'a Node>, claim: Option<&'a NodeClaim>) {
        let Some(machine) = Machine::new(self.snapshot, node, claim) else {
            return;
        };
        let index = self.machines.len();
        if let Some(node) = node {
            self.machine_of_node.insert(node.name.as_str(), index);
        }
        if let Some(claim) = claim {
            self.machine_of_claim.insert(claim.name.as_str(), index);
        }
        self.machines.push(machine);
    }

    fn add_in_flight(&mut self) {
        for intent in &self.snapshot.intents {
            let name = intent.name().as_str();
            if let Some(known) = self.in_flight.get_mut(name) {
                known.intent = Some(intent);
            } else if intent.is_in_flight() && !self.machine_of_claim.contains_key(name) {
                let in_flight = InFlight {
                    claim: None,
                    intent: Some(intent),
                };
                self.in_flight.insert(name, in_flight);
            }
        }
    }

    fn mark_deleted(&mut self, plan: &Plan) {
        for planned in &plan.actions {
            if let Action::DeleteNodeClaim(target) = &planned.action
                && let Some(index) = self.machine_of_claim.get(target.name.as_str())
                && let Some(machine) = self.machines.get_mut(*index)
            {
                machine.deleted_by_plan = true;
            }
        }
    }

    fn assign_pods(&mut self) {
        for pod in self.snapshot.pods.iter().filter(|pod| !is_terminal(pod)) {
            let machine = pod
                .node_name
                .as_ref()
                .and_then(|name| self.machine_of_node.get(name.as_str()))
                .and_then(|index| self.machines.get_mut(index));
            // A rebooting node returns after pods that are being deleted are gone.
            let stays = |machine: &Machine<'_>| !(machine.rebooting && pod.deletion.is_some());
            if let Some(machine) = machine.filter(|machine| stays(machine)) {
                machine.bound_pods.push(pod);
            }
        }
    }

    pub(crate) fn machine_named(&self, node: &str) -> Option<&Machine<'a>> {
        self.machine_of_node
            .get(node)
            .and_then(|index| self.machines.get(index))
    }

    /// The machine that a pod runs on.
    pub(crate) fn machine_of(&self, pod: &Pod) -> Option<&Machine<'a>> {
        self.machine_named(pod.node_name.as_ref()?.as_str())
    }

    /// Instance types of a NodePool. NodePools with the same list share a catalog.
    pub(crate) fn catalog(&self, pool: &str) -> Rc<Catalog<'a>> {
        let snapshot = self.snapshot;
        let types: &'a [InstanceType] = self
            .types
            .get(&pool.into())
            .map_or(&[], |types| types.as_slice());
        let mut catalogs = self.catalogs.borrow_mut();
        let same = (types.as_ptr(), types.len());
        let catalog = catalogs.entry(same).or_insert_with(|| {
            Rc::new(Catalog::new(types, &snapshot.settings.reservation_id_label))
        });
        Rc::clone(catalog)
    }
}

impl<'a> Machine<'a> {
    fn new(
        snapshot: &Snapshot,
        node: Option<&'a Node>,
        claim: Option<&'a NodeClaim>,
    ) -> Option<Self> {
        let has = |label: &str| {
            node.is_some_and(|node| {
                claim.is_none() || node.labels.get(label).map(String::as_str) == Some("true")
            })
        };
        let (registered, initialized) = (has(labels::REGISTERED), has(labels::INITIALIZED));
        let (name, labels) = match (node, claim) {
            (Some(node), _) if registered => (node.name.as_str(), &node.labels),
            (_, Some(claim)) => (claim.name.as_str(), &claim.labels),
            (Some(node), None) => (node.name.as_str(), &node.labels),
            (None, None) => return None,
        };
        let amounts = |of_node: fn(&Node) -> &Resources, of_claim: fn(&NodeClaim) -> &Resources| {
            let mut amounts = claim
                .filter(|_| !initialized)
                .map(|claim| of_claim(claim).clone())
                .unwrap_or_default();
            for (name, amount) in node.iter().flat_map(|node| of_node(node).iter()) {
                // The kubelet reports zero devices until a device plugin has registered them.
                if initialized || amount != 0 {
                    amounts.set(name, amount);
                }
            }
            amounts
        };
        Some(Self {
            name,
            node,
            claim,
            labels,
            taints: effective_taints(node, claim, registered, initialized),
            capacity: amounts(|node| &node.capacity, |claim| &claim.status.capacity),
            allocatable: amounts(|node| &node.allocatable, |claim| &claim.status.allocatable),
            initialized,
            leaving: is_leaving(snapshot, node, claim),
            rebooting: claim.is_some_and(|claim| is_rebooting(snapshot, claim)),
            deleted_by_plan: false,
            bound_pods: Vec::new(),
        })
    }

    /// Whether pods on the machine stay there.
    pub(crate) fn stays(&self) -> bool {
        !self.leaving && !self.deleted_by_plan
    }

    pub(crate) fn hostname(&self) -> &'a str {
        self.labels
            .get(labels::HOSTNAME)
            .map_or(self.name, String::as_str)
    }

    pub(crate) fn node_pool(&self) -> Option<&'a str> {
        self.labels.get(labels::NODE_POOL).map(String::as_str)
    }
}

fn is_leaving(snapshot: &Snapshot, node: Option<&Node>, claim: Option<&NodeClaim>) -> bool {
    let Some(claim) = claim else {
        return node.is_some_and(|node| {
            node.deleted_at.is_some() || is_noticed(snapshot, &node.provider_id)
        });
    };
    claim.deleted_at.is_some()
        || claim.is_true("InstanceTerminating")
        || is_under_command(snapshot, claim)
        || is_noticed(snapshot, &claim.status.provider_id)
}

/// Whether AWS announced something about the instance that requires terminating it, even if that has not begun.
fn is_noticed(snapshot: &Snapshot, provider_id: &str) -> bool {
    let id = provider_id.rsplit('/').next();
    let mut open = snapshot.notices.iter().filter(|notice| !notice.done);
    open.any(|notice| id == Some(notice.instance.as_str()))
}

/// Whether a NodeClaim's conditions show that its node reboots, or an open command is about to reboot it.
fn is_rebooting(snapshot: &Snapshot, claim: &NodeClaim) -> bool {
    let commands = snapshot.commands.iter();
    let mut open = commands.filter(|command| command.state.is_open());
    let is_own = |command: &Command| {
        let target = command.reboot.as_ref();
        target.is_some_and(|target| target.uid == claim.uid)
    };
    claim.is_true("Rebooting") || open.any(is_own)
}

/// Whether an open command is about to delete this NodeClaim (docs/protocol.md#o3).
fn is_under_command(snapshot: &Snapshot, claim: &NodeClaim) -> bool {
    snapshot
        .commands
        .iter()
        .filter(|command| command.state.is_open())
        .any(|command| command.delete.iter().any(|target| target.uid == claim.uid))
}

/// The NodeClaim's taints before registration, then the Node's (docs/spec/scheduling.md#taints). Before initialization,
/// without those that are expected to be removed.
fn effective_taints<'a>(
    node: Option<&'a Node>,
    claim: Option<&'a NodeClaim>,
    registered: bool,
    initialized: bool,
) -> Vec<&'a Taint> {
    let taints: &[Taint] = match (node, claim) {
        (Some(node), _) if registered => &node.taints,
        (_, Some(claim)) => &claim.spec.taints,
        (Some(node), None) => &node.taints,
        (None, None) => &[],
    };
    let startup = claim.map_or(&[][..], |claim| &claim.spec.startup_taints);
    let is_passing = |taint: &Taint| {
        !initialized
            && (is_ephemeral(taint)
                || startup
                    .iter()
                    .any(|known| known.key == taint.key && known.effect == taint.effect))
    };
    let reboots = claim.is_some_and(|claim| claim.is_true("Rebooting"));
    let is_left = |taint: &&Taint| reboots && taint.key == "karpenter.sh/rebooting";
    let taints = taints.iter().filter(|taint| !is_passing(taint));
    taints.filter(|taint| !is_left(taint)).collect()
}

fn is_ephemeral(taint: &Taint) -> bool {
    use TaintEffect::{NoExecute, NoSchedule};
    taint.key.starts_with("readiness.k8s.io/")
        || matches!(
            (taint.key.as_str(), taint.effect),
            ("node.kubernetes.io/not-ready", NoSchedule | NoExecute)
                | ("node.kubernetes.io/unreachable", NoSchedule)
                | ("node.cloudprovider.kubernetes.io/uninitialized", NoSchedule)
                | ("karpenter.sh/unregistered", NoExecute)
        )
}

pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

pub(crate) fn is_owned_by(pod: &Pod, api_version: &str, kind: &str) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|owner| owner.api_version == api_version && owner.kind == kind)
}

/// Whether a pod belongs to its node, so that it needs no other place when the node is removed.
pub(crate) fn is_tied_to_node(pod: &Pod) -> bool {
    is_owned_by(pod, "apps/v1", "DaemonSet") || is_owned_by(pod, "v1", "Node")
}

/// Whether a pod is recreated elsewhere if its node is removed (docs/spec/scheduling.md#pods-of-deleting-nodes).
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    !is_terminal(pod)
        && !is_tied_to_node(pod)
        && (pod.deletion.is_none() || is_owned_by(pod, "apps/v1", "StatefulSet"))
}
