//! A cluster as it stands, about which one question after the other is asked: what if these nodes went?
//!
//! Everything is prepared once, with every pod where it is. A question takes its nodes and pods out of a copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{Resources, pod::Pod};

use crate::{
    Effort, Input, PlacementTarget, Pool, PrecomputedIndexes, SolveResult,
    algebra::Sym,
    setup::{Contributions, Owner, Setup, set_up_moving},
    solve::Solver,
    strategy::{self, OtherCosts, Strategy},
    topology::GroupId,
    world::World,
};

/// What all those questions begin with.
pub struct BaselineCluster<'a> {
    precomputed: Rc<PrecomputedIndexes<'a>>,
    /// With every pod that any question may ask about.
    input: Rc<Input<'a>>,
    /// So many of them, the first, are asked about in every question.
    waiting: usize,
    setup: Setup<'a>,
    /// What has to be taken back of the others.
    contributions: Contributions<'a>,
}

/// What goes.
pub struct SimulatedRemoval<'q> {
    /// Pods to place besides those that wait: places in the standing question's list.
    pub pods: &'q [usize],
    /// Per such pod, whether it is moved by choice.
    pub moved: &'q [bool],
    /// Nodes that are as good as gone: places in the standing question's list.
    pub nodes: &'q BTreeSet<usize>,
    /// Per NodePool, what its limits leave then.
    pub remaining: Vec<Resources>,
    /// Where some of these pods are wanted, by their places in the standing question's list, in the order in which they are placed.
    /// The search places the others, and those that may not go there.
    pub wanted: &'q [(usize, PlacementTarget)],
}

impl<'a> BaselineCluster<'a> {
    /// The question's first pods wait for a place, whatever goes; the others are where they are, and some of them may have to
    /// leave. What is `known` of the same NodePools and DaemonSets is used again.
    pub fn new(
        input: Input<'a>,
        waiting: usize,
        known: Option<Rc<PrecomputedIndexes<'a>>>,
    ) -> Self {
        let (precomputed, input) = (PrecomputedIndexes::or_own(known, &input), Rc::new(input));
        let (mut setup, contributions) = set_up_moving(&precomputed, &input, waiting);
        let world = &mut setup.world;
        world.on_offer = world.on_offer.for_moves();
        let keys = world.topology.keys().filter(|key| *key != world.hostname);
        let keys: Vec<Sym> = keys.collect();
        world.topology.precompute(&keys, &mut world.algebra);
        Self {
            precomputed,
            input,
            waiting,
            setup,
            contributions,
        }
    }

    /// What other clusters with the same NodePools and DaemonSets may use again.
    pub fn precomputed(&self) -> &Rc<PrecomputedIndexes<'a>> {
        &self.precomputed
    }

    /// Where the pods would go: those that wait come first in the answer, then those that leave, in their order.
    pub fn without(&self, removal: &SimulatedRemoval<'_>) -> SolveResult {
        self.answer(removal, None)
    }

    /// Answers as [`BaselineCluster::without`], and gives up preferences that cost more than they are worth: `other_costs` is the price per
    /// hour of an answer besides its new nodes, in nano-dollars, with the worth of the preferences that its pods lose.
    pub fn without_at_a_price(
        &self,
        removal: &SimulatedRemoval<'_>,
        other_costs: &dyn Fn(&SolveResult) -> i128,
    ) -> SolveResult {
        self.answer(removal, Some(other_costs))
    }

    fn answer(
        &self,
        removal: &SimulatedRemoval<'_>,
        other_costs: Option<OtherCosts<'_>>,
    ) -> SolveResult {
        let pods: Vec<usize> = (0..self.waiting)
            .chain(removal.pods.iter().copied())
            .collect();
        let pod = |at: &usize| self.input.pods.get(*at).copied();
        let asked: Vec<&Pod> = pods.iter().filter_map(pod).collect();
        let mut options = self.input.options.clone();
        options.effort = Effort::First;
        let pools = self.input.pools.iter().zip(&removal.remaining);
        let input = Rc::new(Input {
            options,
            pods: asked,
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
            let asked: BTreeMap<usize, usize> = pods.into_iter().zip(0..).collect();
            let wanted = removal.wanted.iter();
            let wanted = wanted.filter_map(|(pod, place)| Some((*asked.get(pod)?, *place)));
            let wanted: Vec<_> = wanted.collect();
            let setup = self.set_up(&input, removal);
            return strategy::guided(&input, setup, self.waiting, &wanted);
        }
        strategy::best(&input, other_costs, || self.set_up(&input, removal))
    }

    /// The weight of the preferences that a pod goes without where it is, each judged by itself, by its place and that of its node
    /// in the standing question; `None` where the question does not list its node.
    pub fn unmet(&self, pod: usize, node: usize) -> Option<u32> {
        let mut setup = self.setup.clone();
        let world = &mut setup.world;
        world.templates = self.precomputed.node_templates(&self.input.pools);
        if let Some(contribution) = self.contributions.pods.get(&pod) {
            world.topology.remove_pod(contribution, &world.algebra);
        }
        Solver::new(&self.input, setup, Strategy::default()).unmet(pod, node)
    }

    /// The cluster as it stands, with those that wait where they have room.
    pub(crate) fn solver(&self) -> Solver<'a> {
        let mut setup = self.setup.clone();
        setup.world.templates = self.precomputed.node_templates(&self.input.pools);
        let mut solver = Solver::new(&self.input, setup, Strategy::default());
        solver.place((0..self.waiting).collect());
        solver
    }

    fn set_up(&self, input: &Rc<Input<'a>>, removal: &SimulatedRemoval<'_>) -> Setup<'a> {
        let mut setup = self.setup.clone();
        setup
            .nodes
            .retain(|node| !removal.nodes.contains(&node.index));
        if let Some(devices) = &setup.world.devices {
            let devices = devices.without(input.pods.iter().copied());
            for node in &mut setup.nodes {
                node.devices = Some(devices.taken(node.index));
            }
            setup.world.devices = Some(devices);
        }
        let world = &mut setup.world;
        world.input = Rc::clone(input);
        world.templates = self.precomputed.node_templates(&input.pools);
        for at in removal.nodes {
            if let Some(place) = self.contributions.nodes.get(at) {
                world.topology.remove_node(*place);
            }
        }
        for at in removal.pods {
            if let Some(contribution) = self.contributions.pods.get(at) {
                world.topology.remove_pod(contribution, &world.algebra);
            }
        }
        self.hand_over(removal, world);
        setup
    }

    /// Groups whose first owner leaves are the next one's.
    fn hand_over(&self, removal: &SimulatedRemoval<'_>, world: &mut World<'a>) {
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
        let gone: BTreeSet<usize> = removal.pods.iter().copied().collect();
        let stays = |owner: &&Owner| owner.pod.is_none_or(|pod| !gone.contains(&pod));
        for id in groups {
            let owners = self
                .contributions
                .owners
                .get(&id)
                .map_or(&[][..], Vec::as_slice);
            if owners.first().filter(stays).is_none() {
                let next = owners.iter().find(stays).map(|owner| owner.tolerations);
                let (algebra, tolerance) = (&world.algebra, &mut world.tolerance);
                world.topology.hand_over(id, next, algebra, tolerance);
            }
        }
    }
}
