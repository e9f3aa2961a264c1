//! The search: first fit over pods from large to small, on nodes that exist, then on claims in flight, then on a new claim
//! (spec/scheduling §13).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use model::{
    pod::Pod,
    resources::{CPU, MEMORY},
    snapshot::Optimize,
};

use crate::{
    amounts,
    bits::Bits,
    claim::{Claim, Stage},
    input::Input,
    node::Node,
    setup::Setup,
    shape::{Core, Failure, Identity, Search, ShapeId, VolumeNeeds},
    spec::{Sacrifice, Spec},
    strategy::{Order, Strategy},
    topology::{HostId, Member, Obeyed, classes::ClassId, filter::Filter, group::Kind},
    world::{Refusal, World},
};

pub(crate) struct Solver<'a> {
    pub(crate) world: World<'a>,
    pub(crate) nodes: Vec<Node<'a>>,
    /// Per block of nodes, the most that any has left.
    blocks: Vec<Vec<i64>>,
    pub(crate) claims: Vec<Claim<'a>>,
    pub(crate) shapes: Vec<(Rc<Core<'a>>, Search)>,
    identities: BTreeMap<Identity<'a>, ShapeId>,
    pub(crate) next_host: u32,
    has_topology: bool,
    may_tolerate: bool,
    /// Per pod, as what it was placed.
    pub(crate) placed_as: Vec<ShapeId>,
    /// Moves with every placement.
    placements: u64,
    strategy: Strategy,
}

const COUNT_SHIFT: u32 = 40;
/// From here, ties in the claim order are numbered downwards.
const TIES: u64 = (1 << COUNT_SHIFT) - 1;
/// Nodes that are passed over together: enough to matter, few enough to measure again after every placement.
const BLOCK: usize = 32;

impl<'a> Solver<'a> {
    pub(crate) fn new(input: &Input<'a>, setup: Setup<'a>, strategy: Strategy) -> Self {
        let Setup {
            mut world,
            nodes,
            next_host,
            has_topology,
            may_tolerate,
        } = setup;
        world.ties = strategy.ties;
        let blocks = vec![Vec::new(); nodes.len().div_ceil(BLOCK)];
        let mut solver = Self {
            world,
            nodes,
            blocks,
            claims: Vec::new(),
            shapes: Vec::new(),
            identities: BTreeMap::new(),
            next_host,
            has_topology,
            may_tolerate,
            placed_as: vec![ShapeId(u32::MAX); input.pods.len()],
            placements: 0,
            strategy,
        };
        for block in 0..solver.blocks.len() {
            solver.measure_block(block);
        }
        solver
    }

    /// Places what can be placed; the rest comes back with why, in queue order.
    pub(crate) fn run(&mut self) -> Vec<(usize, ShapeId, Failure)> {
        self.place((0..self.world.input.pods.len()).collect())
    }

    /// The same for some of the pods.
    pub(crate) fn place(&mut self, mut pods: Vec<usize>) -> Vec<(usize, ShapeId, Failure)> {
        // By name, as the API server lists them: whoever comes first shapes a group that pods share.
        pods.sort_by_key(|at| self.world.input.pods.get(*at).map(|pod| &pod.key));
        let mut shapes = vec![ShapeId(0); self.world.input.pods.len()];
        let mut waiting: BTreeMap<ShapeId, usize> = BTreeMap::new();
        for pod in &pods {
            let shape = self.shape_of(*pod);
            *waiting.entry(shape).or_default() += 1;
            if let Some(slot) = shapes.get_mut(*pod) {
                *slot = shape;
            }
        }
        let input = Rc::clone(&self.world.input);
        pods.sort_by_cached_key(|at| input.pods.get(*at).map(|pod| rank(pod)));
        let mut failed: BTreeMap<usize, (ShapeId, Failure)> = BTreeMap::new();
        // Each pod with how long the queue was when it was put back: a full round without success ends the search.
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
                // Others have found a place since they failed: what is left may in the next round.
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

    /// Where nobody looks any more, nothing has to be remembered: not for the shape, nor for what it was relaxed to.
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

    /// Tries a pod with all its wishes, then gives up one after the other.
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
        if search.groups_seen != Some(self.world.topology.len()) {
            search.groups_seen = Some(self.world.topology.len());
            search.obeyed = self.world.topology.obeyed(&core.member).into();
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

    fn try_nodes(&mut self, pod: usize, core: &Rc<Core<'a>>, search: &mut Search) -> Option<()> {
        let none = || Bits::none(self.nodes.len());
        let mut shut = search.shut.take().unwrap_or_else(none);
        let mut placed = None;
        'search: for block in 0..self.blocks.len() {
            if !self
                .blocks
                .get(block)
                .is_some_and(|most| amounts::fits(&core.requests, most))
            {
                continue;
            }
            let end = self.nodes.len().min((block + 1) * BLOCK);
            for at in block * BLOCK..end {
                if shut.contains(at) {
                    continue;
                }
                let Some(node) = self.nodes.get_mut(at) else {
                    continue;
                };
                match node.check(core, &search.obeyed, &mut self.world) {
                    Ok(()) => {
                        node.commit(pod, core, &mut self.world);
                        self.measure_block(block);
                        placed = Some(());
                        break 'search;
                    }
                    Err(refusal) if refusal.is_permanent() => shut.insert(at),
                    Err(_) => {}
                }
            }
        }
        search.shut = Some(shut);
        placed
    }

    pub(crate) fn measure_block_of(&mut self, node: usize) {
        self.measure_block(node / BLOCK);
    }

    /// Notes the most that any node of a block has left, per resource: full blocks are passed over at once.
    fn measure_block(&mut self, block: usize) {
        let nodes = self.nodes.iter().skip(block * BLOCK).take(BLOCK);
        let mut most = vec![-1; self.world.dimensions.len()];
        for left in nodes.filter_map(|node| node.remaining.as_deref()) {
            for (most, left) in most.iter_mut().zip(left) {
                *most = (*most).max(*left);
            }
        }
        if let Some(slot) = self.blocks.get_mut(block) {
            *slot = most;
        }
    }

    fn try_claims(&mut self, pod: usize, core: &Rc<Core<'a>>, search: &mut Search) -> Option<()> {
        for at in search.claims_seen..self.claims.len() {
            if let Some(claim) = self.claims.get(at) {
                let at = u32::try_from(at).unwrap_or(u32::MAX);
                search.claims.push(Reverse((claim.order, at)));
            }
        }
        search.claims_seen = self.claims.len();
        let version = self.world.topology.version(&search.obeyed);
        let anew = version != search.parked_at;
        search.parked_at = version;
        let mut parked = std::mem::take(&mut search.parked);
        parked.retain(|&(order, at)| {
            let now = self.claims.get(at as usize).map(|claim| claim.order);
            let stays = !anew && now == Some(order);
            if !stays && let Some(now) = now {
                search.claims.push(Reverse((now, at)));
            }
            stays
        });
        search.parked = parked;
        while let Some(Reverse((order, at))) = search.claims.pop() {
            let Some(claim) = self.claims.get_mut(at as usize) else {
                continue;
            };
            if claim.order != order {
                search.claims.push(Reverse((claim.order, at)));
                continue;
            }
            match claim.check(core, &search.obeyed, Stage::InFlight, &mut self.world) {
                Ok(fit) => {
                    claim.commit(pod, core, fit, &mut self.world);
                    if self.strategy.order == Order::EmptiestFirst {
                        claim.order = ((order >> COUNT_SHIFT) + 1) << COUNT_SHIFT
                            | TIES.saturating_sub(self.placements);
                    }
                    search.claims.push(Reverse((claim.order, at)));
                    return Some(());
                }
                Err(refusal) if refusal.is_permanent() => {}
                Err(_) => search.parked.push((order, at)),
            }
        }
        None
    }

    fn try_templates(
        &mut self,
        pod: usize,
        core: &Rc<Core<'a>>,
        search: &mut Search,
    ) -> Result<(), Failure> {
        search.closed.resize(self.world.templates.len(), false);
        for at in 0..self.world.templates.len() {
            if search.closed.get(at) == Some(&true) {
                continue;
            }
            match self.new_claim(pod, at, core, &search.obeyed) {
                Ok(()) => return Ok(()),
                Err(Refusal::Reservation) => return Err(Failure::Deferred),
                Err(refusal) => {
                    if let Some(closed) = search.closed.get_mut(at) {
                        *closed = refusal.is_permanent();
                    }
                }
            }
        }
        Err(Failure::NoRoom)
    }

    pub(crate) fn new_claim(
        &mut self,
        pod: usize,
        at: usize,
        core: &Rc<Core<'a>>,
        obeyed: &[Obeyed],
    ) -> Result<(), Refusal> {
        let mut claim = self.empty_claim(at)?;
        let fit = claim.check(core, obeyed, Stage::New, &mut self.world)?;
        claim.commit(pod, core, fit, &mut self.world);
        self.next_host += 1;
        if let Some(template) = self.world.templates.get_mut(at) {
            template.limits.spend(&claim.rows);
        }
        self.claims.push(claim);
        Ok(())
    }

    /// A claim without pods, within what limits leave.
    pub(crate) fn empty_claim(&self, at: usize) -> Result<Claim<'a>, Refusal> {
        let template = self.world.templates.get(at).ok_or(Refusal::Requirements)?;
        if template.limits.has_no_node_left() {
            return Err(Refusal::NodeLimit);
        }
        let mut rows = template.base.clone();
        template.limits.keep_within(&mut rows);
        if rows.is_empty() {
            return Err(Refusal::Limits);
        }
        Claim::new(&self.world, at, rows, HostId(self.next_host)).ok_or(Refusal::Requirements)
    }

    /// A claim as it would be without limits, to tell what else stands in the way.
    pub(crate) fn unlimited_claim(&self, at: usize) -> Option<Claim<'a>> {
        let template = self.world.templates.get(at)?;
        let rows = Some(template.base.clone()).filter(|rows| !rows.is_empty())?;
        Claim::new(&self.world, at, rows, HostId(self.next_host))
    }

    pub(crate) fn relaxed(&mut self, shape: ShapeId) -> Option<(ShapeId, Sacrifice)> {
        let (core, search) = self.shapes.get(shape.0 as usize)?;
        if let Some(known) = search.relaxed {
            return known;
        }
        let (core, next) = (Rc::clone(core), core.spec.relaxed(self.may_tolerate));
        let found = next.map(|(spec, sacrifice)| {
            let id = self.add_shape(
                spec,
                core.requests.clone(),
                core.moved,
                Rc::clone(&core.volumes),
                core.member.class,
            );
            (id, sacrifice)
        });
        if let Some((_, search)) = self.shapes.get_mut(shape.0 as usize) {
            search.relaxed = Some(found);
        }
        found
    }

    pub(crate) fn shape_of(&mut self, at: usize) -> ShapeId {
        let input = Rc::clone(&self.world.input);
        let Some(pod) = input.pods.get(at).copied() else {
            return ShapeId(u32::MAX);
        };
        let volumes = self.world.volume_needs(pod);
        let class = self.has_topology.then(|| self.world.topology.class_of(pod));
        let requests = self.world.dimensions.vector(&pod.requests);
        let moved = input.moved.get(at) == Some(&true);
        let identity = Identity {
            requests: requests.clone(),
            class,
            moved,
            selector: &pod.node_selector,
            required: &pod.node_affinity.required,
            preferred: &pod.node_affinity.preferred,
            affinity: &pod.pod_affinity,
            anti_affinity: &pod.pod_anti_affinity,
            spread: &pod.topology_spread,
            tolerations: &pod.tolerations,
            ports: &pod.host_ports,
            volumes: Rc::clone(&volumes),
        };
        if let Some(known) = self.identities.get(&identity) {
            return *known;
        }
        let spec = Spec::new(pod, input.options.preference_policy);
        let class = class.unwrap_or_default();
        let id = self.add_shape(spec, requests, moved, volumes, class);
        self.identities.insert(identity, id);
        id
    }

    fn add_shape(
        &mut self,
        spec: Spec<'a>,
        requests: Box<[i64]>,
        moved: bool,
        volumes: Rc<VolumeNeeds<'a>>,
        class: ClassId,
    ) -> ShapeId {
        let id = ShapeId(u32::try_from(self.shapes.len()).unwrap_or(u32::MAX));
        let member = self.member(&spec, class, &volumes);
        let world = &mut self.world;
        let core = Core {
            requests,
            moved,
            sets: world.sets(&spec.all()),
            tolerations: world
                .tolerance
                .tolerations(&spec.pod.tolerations, spec.tolerates_prefer_no_schedule),
            volumes,
            member,
            spec,
        };
        self.shapes.push((Rc::new(core), Search::default()));
        id
    }

    /// Joins the pod to its groups, making those that are new (spec/scheduling §17.7).
    fn member(&mut self, spec: &Spec<'a>, class: ClassId, volumes: &VolumeNeeds<'a>) -> Member {
        let as_upstream = self.world.input.options.optimize == Optimize::Upstream;
        let World {
            topology,
            algebra,
            tolerance,
            ..
        } = &mut self.world;
        let pod: &Pod = spec.pod;
        let mut member = Member {
            class,
            strict: algebra.set_of(spec.strict().0.values()),
            owned: Vec::new(),
            inverse: Vec::new(),
        };
        if volumes.lost {
            return member;
        }
        let tolerations =
            tolerance.tolerations(&pod.tolerations, spec.tolerates_prefer_no_schedule);
        let namespace = pod.key.namespace.as_str();
        for term in &pod.pod_anti_affinity.required {
            let kind = Kind::AntiAffinity;
            let group = topology.affinity(
                (kind, true),
                term,
                namespace,
                tolerations,
                algebra,
                tolerance,
            );
            member.inverse.push(group);
        }
        for constraint in &spec.spread {
            use model::pod::NodeInclusionPolicy::{Honor, Ignore};
            // Upstream forgets the terms it gave up, and with them pods that count (spec/scheduling §17.3).
            let alternatives = if as_upstream {
                spec.alternatives()
            } else {
                spec.all_alternatives()
            };
            let filter = Filter {
                honor_affinity: constraint.node_affinity_policy != Some(Ignore),
                honor_taints: constraint.node_taints_policy == Some(Honor),
                alternatives: alternatives
                    .iter()
                    .map(|all| algebra.set_of(all.0.values()))
                    .collect(),
                tolerations,
            };
            let group = topology.spread(constraint, class, filter, algebra, tolerance);
            member.owned.push(group);
        }
        let attracted = spec.affinity().map(|term| (Kind::Affinity, term));
        let repelled = spec.anti_affinity().map(|term| (Kind::AntiAffinity, term));
        for (kind, term) in attracted.chain(repelled) {
            let group = topology.affinity(
                (kind, false),
                term,
                namespace,
                tolerations,
                algebra,
                tolerance,
            );
            member.owned.push(group);
        }
        member.owned.sort_unstable();
        member.owned.dedup();
        member.inverse.sort_unstable();
        member.inverse.dedup();
        member
    }
}

/// How often pods are tried in one search. A chain of pods of which each waits for the one behind it takes a round per pod.
fn attempts_max(pods: usize) -> usize {
    const PER_POD: usize = 64;
    const FEW_PODS: usize = 2_000;
    pods.max(FEW_PODS).saturating_mul(PER_POD)
}

/// Large pods first; then the oldest.
fn rank<'a>(pod: &'a Pod) -> impl Ord + use<'a> {
    (
        Reverse(pod.requests.get(CPU)),
        Reverse(pod.requests.get(MEMORY)),
        pod.created_at,
        &pod.uid,
        &pod.key,
    )
}
