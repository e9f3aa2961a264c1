//! First-fit search over pods in descending size: tries existing nodes, then in-flight claims, then a new claim
//! (docs/spec/scheduling.md#solving).

mod colocation;
mod placement_options;
mod queue;
mod shapes;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use model::requirement::Requirements;

use self::{placement_options::BLOCK, queue::rank};
use crate::{
    claim::Claim,
    input::Input,
    node::Node,
    offered_domains::OfferedDomains,
    placement_context::PlacementContext,
    preferences::Preferences,
    setup::Setup,
    shape::{Failure, ShapeCore, ShapeId, ShapeIdentity, ShapeSearch},
    strategy::{AffinityStart, LimitAccounting, QueueOrder, SpreadDomains, Strategy},
};

/// Nodes, planned nodes and pod shapes of one search, as placements change them.
pub(crate) struct Solver<'a> {
    pub(crate) context: PlacementContext<'a>,
    pub(crate) nodes: Vec<Node<'a>>,
    /// Per block of nodes and resource, the largest remaining amount of any node.
    blocks: Vec<Vec<i64>>,
    pub(crate) claims: Vec<Claim<'a>>,
    pub(crate) shapes: Vec<(Rc<ShapeCore<'a>>, ShapeSearch)>,
    identities: BTreeMap<ShapeIdentity<'a>, ShapeId>,
    pub(crate) next_host: u32,
    has_topology: bool,
    pub(crate) may_tolerate: bool,
    /// Per pod, the shape that was placed.
    pub(crate) placed_as: Vec<ShapeId>,
    /// Per pod, the domains that it is confined to so that pods with affinity to it can follow.
    confined: BTreeMap<usize, Rc<Requirements>>,
    /// Preferences of the pods, if the strategy ignores some of them.
    preferences: Preferences<'a>,
    /// Incremented with every placement.
    placements: u64,
    strategy: Strategy,
}

impl<'a> Solver<'a> {
    pub(crate) fn new(input: &Input<'a>, setup: Setup<'a>, strategy: Strategy) -> Self {
        let Setup {
            mut context,
            nodes,
            next_host,
            has_topology,
            may_tolerate,
        } = setup;
        context.ties = strategy.ties;
        context.counted_as = strategy.counted_as;
        if strategy.counted_as == LimitAccounting::Largest {
            for template in &mut context.templates {
                template.limits.count_largest();
            }
        }
        if strategy.domains == SpreadDomains::Named {
            context.on_offer = OfferedDomains::Named;
        }
        let blocks = vec![Vec::new(); nodes.len().div_ceil(BLOCK)];
        let mut solver = Self {
            context,
            nodes,
            blocks,
            claims: Vec::new(),
            shapes: Vec::new(),
            identities: BTreeMap::new(),
            next_host,
            has_topology,
            may_tolerate,
            placed_as: vec![ShapeId(u32::MAX); input.pods.len()],
            confined: BTreeMap::new(),
            preferences: match strategy.ignored.is_none() {
                true => Preferences::default(),
                false => Preferences::of(input),
            },
            placements: 0,
            strategy,
        };
        for block in 0..solver.blocks.len() {
            solver.measure_block(block);
        }
        solver
    }

    /// Places all pods. Returns those without a place in queue order, with their failures.
    pub(crate) fn run(&mut self) -> Vec<(usize, ShapeId, Failure)> {
        self.place((0..self.context.input.pods.len()).collect())
    }

    /// Places some of the pods. Returns those without a place in queue order, with their failures.
    pub(crate) fn place(&mut self, mut pods: Vec<usize>) -> Vec<(usize, ShapeId, Failure)> {
        // By name, as the API server lists them: the first pod determines the domains of a group that pods share.
        pods.sort_by_key(|at| self.context.input.pods.get(*at).map(|pod| &pod.key));
        if self.strategy.peers == AffinityStart::Together {
            self.confine_colocated(&pods);
        }
        let mut shapes = vec![ShapeId(0); self.context.input.pods.len()];
        let mut waiting: BTreeMap<ShapeId, usize> = BTreeMap::new();
        for pod in &pods {
            let shape = self.shape_of(*pod);
            *waiting.entry(shape).or_default() += 1;
            if let Some(slot) = shapes.get_mut(*pod) {
                *slot = shape;
            }
        }
        let input = Rc::clone(&self.context.input);
        pods.sort_by_cached_key(|at| input.pods.get(*at).map(|pod| rank(pod)));
        if self.strategy.queue == QueueOrder::ConfinedFirst {
            let confined = self.confined_shapes(waiting.keys().copied());
            let domains = |pod: &usize| confined.get(shapes.get(*pod)?).copied();
            pods.sort_by_key(|pod| domains(pod).unwrap_or(usize::MAX));
        }
        let mut failed: BTreeMap<usize, (ShapeId, Failure)> = BTreeMap::new();
        // Each pod with the length of the queue when it was put back. A full round without a placement ends the search.
        let mut queue: VecDeque<(usize, ShapeId, usize)> = VecDeque::new();
        let with_shape = |pod| Some((pod, *shapes.get(pod)?, 0));
        queue.extend(pods.into_iter().filter_map(with_shape));
        let mut attempts = attempts_max(queue.len());
        while let Some((pod, shape, length)) = queue.pop_front() {
            if length == queue.len() + 1 {
                queue.push_front((pod, shape, length));
                break;
            }
            if attempts == 0 {
                // Other pods have been placed since these failed, so they may fit in the next round.
                queue.push_front((pod, shape, length));
                failed.extend(
                    queue
                        .iter()
                        .map(|(pod, shape, _)| (*pod, (*shape, Failure::Postponed))),
                );
                break;
            }
            attempts -= 1;
            match self.try_pod(pod, shape) {
                Ok(()) => {
                    failed.remove(&pod);
                    let left = waiting.entry(shape).or_default();
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.forget_search(shape);
                    }
                }
                Err((last, failure)) => {
                    failed.insert(pod, (last, failure));
                    queue.push_back((pod, shape, queue.len() + 1));
                }
            }
        }
        queue
            .into_iter()
            .filter_map(|(pod, _, _)| failed.get(&pod).map(|(shape, why)| (pod, *shape, *why)))
            .collect()
    }

    /// Frees the search state of a shape without waiting pods, and of the shapes that it was relaxed to.
    fn forget_search(&mut self, shape: ShapeId) {
        let mut next = Some(shape);
        while let Some(shape) = next {
            let search = self.shapes.get_mut(shape.0 as usize);
            let search = search.map(|(_, search)| std::mem::take(search));
            next = search
                .and_then(|search| search.relaxed.flatten())
                .map(|(relaxed, _)| relaxed);
        }
    }

    /// Tries a pod with all its preferences, then relaxes them one by one.
    fn try_pod(&mut self, pod: usize, mut shape: ShapeId) -> Result<(), (ShapeId, Failure)> {
        loop {
            match self.try_shape(pod, shape) {
                Ok(()) => return Ok(()),
                Err(Failure::NoRoom) => match self.relaxed(shape) {
                    Some((next, _)) => shape = next,
                    None => return Err((shape, Failure::NoRoom)),
                },
                Err(failure) => return Err((shape, failure)),
            }
        }
    }

    fn try_shape(&mut self, pod: usize, shape: ShapeId) -> Result<(), Failure> {
        let Some((core, search)) = self.shapes.get_mut(shape.0 as usize) else {
            return Err(Failure::NoRoom);
        };
        if let Some((placements, failure)) = search.failed_at
            && placements == self.placements
        {
            return Err(failure);
        }
        let core = Rc::clone(core);
        let mut search = std::mem::take(search);
        if search.groups_known != Some(self.context.topology.len()) {
            search.groups_known = Some(self.context.topology.len());
            search.constraints = self
                .context
                .topology
                .applicable_constraints(&core.member)
                .into();
        }
        let outcome = self
            .try_nodes(pod, &core, &mut search)
            .or_else(|| self.try_claims(pod, &core, &mut search))
            .map_or_else(|| self.try_templates(pod, &core, &mut search), Ok);
        match outcome {
            Ok(()) => self.note_placed(pod, shape),
            Err(failure) => search.failed_at = Some((self.placements, failure)),
        }
        if let Some((_, kept)) = self.shapes.get_mut(shape.0 as usize) {
            *kept = search;
        }
        outcome
    }

    pub(crate) fn note_placed(&mut self, pod: usize, shape: ShapeId) {
        self.placements += 1;
        if let Some(slot) = self.placed_as.get_mut(pod) {
            *slot = shape;
        }
    }
}

/// Upper bound on placement attempts in one search: 64 per pod, for at least 2,000 pods. A pod that fails is attempted again
/// after others were placed. A chain of pods, each with affinity to the one behind it in the queue, needs as many rounds of
/// the queue as it has pods.
fn attempts_max(pods: usize) -> usize {
    const PER_POD: usize = 64;
    const FEW_PODS: usize = 2_000;
    pods.max(FEW_PODS).saturating_mul(PER_POD)
}
