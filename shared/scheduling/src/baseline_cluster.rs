//! Cluster with every pod on its present node, for many simulated removals of nodes.
//!
//! Labels, offerings and topology counts are prepared once. Each simulation removes its nodes and pods from a copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{Resources, pod::Pod};

use crate::{
    Effort, Input, PlacementTarget, Pool, PrecomputedIndexes, SolveResult,
    algebra::Sym,
    placement_context::PlacementContext,
    setup::{AntiAffinityOwner, Contributions, Setup, set_up_baseline},
    solve::Solver,
    strategy::{self, OtherCosts, Strategy},
    topology::GroupId,
};

/// Prepared state that all simulations start from.
pub struct BaselineCluster<'a> {
    precomputed: Rc<PrecomputedIndexes<'a>>,
    /// Input with the pods of all simulations: those that wait for a place first, then those that may be moved.
    input: Rc<Input<'a>>,
    /// Number of pods that wait for a place. They come first in the input and take part in every simulation.
    waiting: usize,
    setup: Setup<'a>,
    /// Contributions of movable pods and removable nodes to the topology counts.
    contributions: Contributions<'a>,
}

/// Nodes that a simulation removes, and the pods that it places.
pub struct SimulatedRemoval<'q> {
    /// Pods to place besides those that wait, as indexes into the baseline's pods.
    pub pods: &'q [usize],
    /// Per pod in `pods`, whether it is moved voluntarily.
    pub moved: &'q [bool],
    /// Nodes that are removed or about to be, as indexes into the baseline's nodes.
    pub nodes: &'q BTreeSet<usize>,
    /// Per NodePool, the remaining limits without the removed nodes.
    pub remaining: Vec<Resources>,
    /// Placement hints: pods by their indexes in the baseline, in the order in which they are placed. The search places all
    /// other pods, and those whose hint is infeasible.
    pub wanted: &'q [(usize, PlacementTarget)],
}

impl<'a> BaselineCluster<'a> {
    /// Prepares a cluster. The first `waiting` pods of the input wait for a place in every simulation; the others are bound
    /// and may be moved. Indexes in `known` are reused if they cover the requests of all pods.
    pub fn new(
        input: Input<'a>,
        waiting: usize,
        known: Option<Rc<PrecomputedIndexes<'a>>>,
    ) -> Self {
        let (precomputed, input) = (PrecomputedIndexes::or_own(known, &input), Rc::new(input));
        let (mut setup, contributions) = set_up_baseline(&precomputed, &input, waiting);
        let context = &mut setup.context;
        context.on_offer = context.on_offer.for_moves();
        let keys = context
            .topology
            .keys()
            .filter(|key| *key != context.hostname);
        let keys: Vec<Sym> = keys.collect();
        context.topology.precompute(&keys, &mut context.algebra);
        Self {
            precomputed,
            input,
            waiting,
            setup,
            contributions,
        }
    }

    /// Indexes that other clusters with the same NodePools and DaemonSets may reuse.
    pub fn precomputed(&self) -> &Rc<PrecomputedIndexes<'a>> {
        &self.precomputed
    }

    /// Places the pods without the removed nodes. Pods that wait come first in the result, then the moved pods in the order
    /// of the removal.
    pub fn without(&self, removal: &SimulatedRemoval<'_>) -> SolveResult {
        self.simulate(removal, None)
    }

    /// [`BaselineCluster::without`] with preferences that are dropped if they cost more than their value.
    /// `other_costs` is the price of a result besides its new nodes, in nano-dollars per hour, including the value of the
    /// preferences that its pods lose.
    pub fn without_at_a_price(
        &self,
        removal: &SimulatedRemoval<'_>,
        other_costs: &dyn Fn(&SolveResult) -> i128,
    ) -> SolveResult {
        self.simulate(removal, Some(other_costs))
    }

    fn simulate(
        &self,
        removal: &SimulatedRemoval<'_>,
        other_costs: Option<OtherCosts<'_>>,
    ) -> SolveResult {
        let pods: Vec<usize> = (0..self.waiting)
            .chain(removal.pods.iter().copied())
            .collect();
        let pod = |at: &usize| self.input.pods.get(*at).copied();
        let placed: Vec<&Pod> = pods.iter().filter_map(pod).collect();
        let mut options = self.input.options.clone();
        options.effort = Effort::First;
        let pools = self.input.pools.iter().zip(&removal.remaining);
        let input = Rc::new(Input {
            options,
            pods: placed,
            moved: [&vec![false; self.waiting], removal.moved].concat(),
            pools: pools
                .map(|(pool, remaining)| Pool {
                    remaining: remaining.clone(),
                    ..pool.clone()
                })
                .collect(),
            nodes: Vec::new(),
            hosts: Vec::new(),
            daemons: self.input.daemons.clone(),
            namespaces: self.input.namespaces,
            storage: self.input.storage,
            devices: self.input.devices,
        });
        if !removal.wanted.is_empty() {
            let index_of: BTreeMap<usize, usize> = pods.into_iter().zip(0..).collect();
            let wanted = removal.wanted.iter();
            let wanted = wanted.filter_map(|(pod, place)| Some((*index_of.get(pod)?, *place)));
            let wanted: Vec<_> = wanted.collect();
            let setup = self.set_up(&input, removal);
            return strategy::solve_with_hints(&input, setup, self.waiting, &wanted);
        }
        strategy::best(&input, other_costs, || self.set_up(&input, removal))
    }

    /// Summed weight of the preferences that a bound pod's node does not meet, each judged by itself. Pod and node are
    /// indexes into the baseline; `None` if the node is not among its nodes.
    pub fn unmet(&self, pod: usize, node: usize) -> Option<u32> {
        let mut setup = self.setup.clone();
        let context = &mut setup.context;
        context.templates = self.precomputed.node_templates(&self.input.pools);
        if let Some(contribution) = self.contributions.pods.get(&pod) {
            context.topology.remove_pod(contribution, &context.algebra);
        }
        Solver::new(&self.input, setup, Strategy::default()).unmet(pod, node)
    }

    /// Solver on the whole cluster, after placing the pods that wait.
    pub(crate) fn solver(&self) -> Solver<'a> {
        let mut setup = self.setup.clone();
        setup.context.templates = self.precomputed.node_templates(&self.input.pools);
        let mut solver = Solver::new(&self.input, setup, Strategy::default());
        solver.place((0..self.waiting).collect());
        solver
    }

    fn set_up(&self, input: &Rc<Input<'a>>, removal: &SimulatedRemoval<'_>) -> Setup<'a> {
        let mut setup = self.setup.clone();
        setup
            .nodes
            .retain(|node| !removal.nodes.contains(&node.index));
        if let Some(devices) = &setup.context.devices {
            let devices = devices.without(input.pods.iter().copied());
            for node in &mut setup.nodes {
                node.devices = Some(devices.taken(node.index));
            }
            setup.context.devices = Some(devices);
        }
        let context = &mut setup.context;
        context.input = Rc::clone(input);
        context.templates = self.precomputed.node_templates(&input.pools);
        for at in removal.nodes {
            if let Some(place) = self.contributions.nodes.get(at) {
                context.topology.remove_node(*place);
            }
        }
        for at in removal.pods {
            if let Some(contribution) = self.contributions.pods.get(at) {
                context.topology.remove_pod(contribution, &context.algebra);
            }
        }
        self.hand_over(removal, context);
        setup
    }

    /// Hands groups whose first owner is removed over to their next owner.
    fn hand_over(&self, removal: &SimulatedRemoval<'_>, context: &mut PlacementContext<'a>) {
        let contributions = removal
            .pods
            .iter()
            .filter_map(|at| self.contributions.pods.get(at));
        let groups: BTreeSet<GroupId> = contributions
            .flat_map(|contribution| &contribution.repelling)
            .copied()
            .collect();
        if groups.is_empty() {
            return;
        }
        let removed: BTreeSet<usize> = removal.pods.iter().copied().collect();
        let stays =
            |owner: &&AntiAffinityOwner| owner.pod.is_none_or(|pod| !removed.contains(&pod));
        for id in groups {
            let owners = self
                .contributions
                .owners
                .get(&id)
                .map_or(&[][..], Vec::as_slice);
            if owners.first().filter(stays).is_none() {
                let next = owners.iter().find(stays).map(|owner| owner.tolerations);
                let (algebra, tolerance) = (&context.algebra, &mut context.tolerance);
                context.topology.hand_over(id, next, algebra, tolerance);
            }
        }
    }
}
