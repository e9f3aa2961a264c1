//! The search's inner loops one at a time, for the benchmarks: each returns how often it came to something, so that nothing of
//! it can be left out.

use std::rc::Rc;

use crate::{
    algebra::{SetId, Undefined},
    input::Input,
    precomputed_indexes::PrecomputedIndexes,
    setup::set_up,
    shape::Core,
    solve::Solver,
    strategy::Strategy,
    topology::{HostId, Place},
};

/// A question that is set up, with all kinds of pods known and no pod placed.
pub struct InnerLoops<'a> {
    solver: Solver<'a>,
    cores: Vec<Rc<Core<'a>>>,
}

impl<'a> InnerLoops<'a> {
    /// Sets the question up as the search does.
    pub fn new(input: &Input<'a>) -> Self {
        let mut solver = Solver::new(
            input,
            set_up(&PrecomputedIndexes::of(input), &Rc::new(input.clone())),
            Strategy::default(),
        );
        for pod in 0..input.pods.len() {
            solver.shape_of(pod);
        }
        let cores = solver.shapes.iter().map(|(core, _)| Rc::clone(core));
        let cores = cores.collect();
        Self { solver, cores }
    }

    /// The requirement algebra: what each NodePool's requirements and each kind of pod's have in common.
    pub fn narrow(&mut self) -> usize {
        let narrowed = self.narrowed();
        narrowed.len()
    }

    /// The instance type filter: what is left of each NodePool's types for each kind of pod.
    pub fn filter_types(&mut self) -> usize {
        let mut left = 0;
        for (template, set, _) in self.narrowed() {
            let world = &mut self.solver.world;
            if let Some(node_template) = world.templates.get(template) {
                let mut rows = node_template.base.clone();
                world.keep_matching(template, set, &mut rows);
                left += rows.iter().count();
            }
        }
        left
    }

    /// The choice of topology domains: where each kind of pod may go with a new node of each NodePool.
    pub fn choose_domains(&mut self) -> usize {
        let mut allowed = 0;
        for (template, set, core) in self.narrowed() {
            let world = &mut self.solver.world;
            let Some(node_template) = world.templates.get(template) else {
                continue;
            };
            let place = Place {
                set,
                taints: node_template.taints,
                host: HostId(self.solver.next_host),
                undefined: Undefined::WellKnown,
                daemons: crate::topology::daemons::Daemons::default(),
            };
            let constraints = world.topology.applicable_constraints(&core.member);
            let answer =
                world
                    .topology
                    .admit(&core.member, &constraints, &place, &mut world.algebra);
            allowed += usize::from(matches!(
                answer,
                crate::topology::TopologyVerdict::Allowed(_)
            ));
        }
        allowed
    }

    fn narrowed(&mut self) -> Vec<(usize, SetId, Rc<Core<'a>>)> {
        let world = &mut self.solver.world;
        let mut narrowed = Vec::new();
        for (at, template) in world.templates.iter().enumerate() {
            for core in &self.cores {
                let asked = core.sets.on_claims;
                let set = world
                    .algebra
                    .narrow(template.set, asked, Undefined::WellKnown);
                narrowed.extend(set.map(|set| (at, set, Rc::clone(core))));
            }
        }
        narrowed
    }
}
