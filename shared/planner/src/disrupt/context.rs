//! State that one disruption evaluation works on, shared by all methods.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use api::conditions::types::INITIALIZED;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeClaimName, NodePoolName, Snapshot,
    ledger::Command,
    node::ConditionStatus,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, NodePool},
    snapshot::{Optimize, ReservedOfferingMode},
};
use scheduling::{BaselineCluster, Effort, PrecomputedIndexes, Volumes};

use super::{move_costs::MoveCosts, reschedulable::ReschedulablePods};
use crate::{
    inventory::{Inventory, StateNode},
    pdb_limits::PdbLimits,
    provision::planning_context::{PlanningContext, SolveRequest},
};

/// Lookahead of consolidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookahead {
    /// The first move that pays, as Karpenter does.
    NextStep,
    /// The next step of the plan in the cursor; without a plan, the first move that pays.
    ActivePlan,
    /// Compares the end states of single moves and of plans for the whole cluster.
    ToConvergence,
}

/// Exclusions and effort of one disruption evaluation.
#[derive(Clone, Copy)]
pub(super) struct SearchOptions<'a> {
    /// NodeClaims that are not candidates.
    pub(super) excluded: &'a BTreeSet<NodeClaimName>,
    /// Whether moves are free, so that every move that saves anything pays.
    pub(super) at_any_price: bool,
    pub(super) lookahead: Lookahead,
    /// Number of simulated nodes and pods after which the remaining candidates are left to the next evaluation.
    pub(super) simulated: usize,
    /// Whether pods may be placed without the reservation that they compete for.
    pub(super) reserved: ReservedOfferingMode,
}

impl SearchOptions<'_> {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        static NONE: BTreeSet<NodeClaimName> = BTreeSet::new();
        Self {
            excluded: &NONE,
            at_any_price: false,
            lookahead: match snapshot.settings.optimize {
                Optimize::Upstream => Lookahead::NextStep,
                Optimize::Cost => Lookahead::ToConvergence,
            },
            simulated: usize::MAX,
            reserved: ReservedOfferingMode::Fallback,
        }
    }
}

/// A cluster at a point in time, with everything that disruption methods derive from it.
pub(super) struct DisruptionContext<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Evaluation time. Later than the snapshot's in the context that validates commands.
    pub(super) now: Timestamp,
    pub(super) inventory: &'a Inventory<'a>,
    pub(super) planning: &'a PlanningContext<'a>,
    pub(super) pdb_limits: PdbLimits<'a>,
    pub(super) volumes: Volumes<'a>,
    /// Indexes computed earlier for the same NodePools and DaemonSets.
    known: Option<Rc<PrecomputedIndexes<'a>>>,
    standing: OnceCell<BaselineCluster<'a>>,
    destinations: OnceCell<Vec<usize>>,
    pools: BTreeMap<&'a NodePoolName, &'a NodePool>,
    pub(super) reschedulable: &'a ReschedulablePods<'a>,
    /// State nodes with pod events within `consolidateAfter`: consolidation moves no pods to them
    /// (docs/spec/lifecycle.md#simulation).
    pub(super) cooling_down: BTreeSet<usize>,
    /// State nodes that cannot start pods.
    pub(super) unavailable: BTreeSet<usize>,
    pub(super) options: SearchOptions<'a>,
    pub(super) move_costs: MoveCosts,
    /// Number of nodes and pods simulated so far.
    pub(super) simulated: Cell<usize>,
    /// Weight of each pod's unmet preferences on its current node; filled on demand.
    pub(super) unmet_today: RefCell<BTreeMap<usize, Option<u32>>>,
}

impl<'a> DisruptionContext<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        inventory: &'a Inventory<'a>,
        planning: &'a PlanningContext<'a>,
        reschedulable: &'a ReschedulablePods<'a>,
        known: Option<Rc<PrecomputedIndexes<'a>>>,
        options: SearchOptions<'a>,
    ) -> Self {
        let now = reschedulable.now;
        let pools: BTreeMap<_, _> = snapshot.node_pools.iter().map(|p| (&p.name, p)).collect();
        let state_nodes = inventory.state_nodes.iter().enumerate();
        let cooling_down =
            state_nodes.filter(|(_, state_node)| is_cooling_down(state_node, &pools, now));
        let cooling_down = cooling_down.map(|(at, _)| at).collect();
        Self {
            snapshot,
            now,
            inventory,
            planning,
            pdb_limits: PdbLimits::new(&snapshot.disruption_budgets, snapshot.settings.optimize),
            volumes: Volumes::new(&snapshot.storage),
            known,
            standing: OnceCell::new(),
            destinations: OnceCell::new(),
            reschedulable,
            cooling_down,
            unavailable: unavailable(snapshot, inventory),
            move_costs: match options.at_any_price {
                true => MoveCosts::default(),
                false => MoveCosts::by_annotations(snapshot),
            },
            options,
            pools,
            simulated: Cell::new(0),
            unmet_today: RefCell::default(),
        }
    }

    /// Baseline of all simulations: the cluster with all pods on their current nodes.
    pub(super) fn standing(&self) -> &BaselineCluster<'a> {
        self.standing.get_or_init(|| {
            let input = self.planning.solver_input(
                self.inventory,
                SolveRequest {
                    pods: self.reschedulable.all().collect(),
                    moved: Vec::new(),
                    gone: &BTreeSet::new(),
                    cooling_down: &self.cooling_down,
                    unavailable: &self.unavailable,
                    reserved: self.options.reserved,
                    effort: Effort::First,
                },
            );
            BaselineCluster::new(input, self.reschedulable.waiting(), self.known.clone())
        })
    }

    /// Index in the inventory of each node in the baseline.
    pub(super) fn destinations(&self) -> &[usize] {
        self.destinations.get_or_init(|| {
            let gone = BTreeSet::new();
            let all = self
                .planning
                .destinations(self.inventory, &gone, &self.unavailable);
            all.map(|(at, _)| at).collect()
        })
    }

    pub(super) fn pool(&self, name: &NodePoolName) -> Option<&'a NodePool> {
        self.pools.get(name).copied()
    }

    /// Whether an open command targets the NodeClaim.
    pub(super) fn is_commanded(&self, claim: &NodeClaim) -> bool {
        let under_way = self
            .snapshot
            .commands
            .iter()
            .filter(|command| command.state.is_open());
        let mut targets = under_way.flat_map(Command::targets);
        targets.any(|target| target.name == claim.name)
    }
}

fn is_cooling_down(
    state_node: &StateNode<'_>,
    pools: &BTreeMap<&NodePoolName, &NodePool>,
    now: Timestamp,
) -> bool {
    let Some(claim) = state_node.claim else {
        return false;
    };
    let pool = claim.node_pool().and_then(|name| pools.get(&name).copied());
    // Nodes of static NodePools are never consolidated, so they need no quiet time (docs/spec/lifecycle.md#consolidatable).
    let pool = pool.filter(|pool| pool.replicas.is_none());
    let Some(ConsolidateAfter::Seconds(after)) = pool.map(|pool| pool.disruption.consolidate_after)
    else {
        return false;
    };
    let initialized = claim
        .condition(INITIALIZED)
        .filter(|condition| condition.status == ConditionStatus::True);
    let since = claim.status.last_pod_event;
    let since = since.or(initialized.map(|condition| condition.last_transition));
    since.is_some_and(|since| now.duration_since(since) < SignedDuration::from_secs(after))
}

/// State nodes that take no pods: those that reboot, and initialized ones that are not ready. Karpenter places pods on nodes
/// that are not ready unless they are tainted, and then waits for pods that cannot start.
fn unavailable(snapshot: &Snapshot, inventory: &Inventory<'_>) -> BTreeSet<usize> {
    let counts_on_unready = snapshot.settings.optimize == Optimize::Upstream;
    let is_unready = |state_node: &StateNode<'_>| {
        state_node.initialized
            && state_node
                .node
                .is_some_and(|node| node.ready.status != ConditionStatus::True)
    };
    let state_nodes = inventory.state_nodes.iter().enumerate();
    let unavailable = state_nodes.filter(|(_, state_node)| {
        state_node.rebooting || !counts_on_unready && is_unready(state_node)
    });
    unavailable.map(|(at, _)| at).collect()
}
