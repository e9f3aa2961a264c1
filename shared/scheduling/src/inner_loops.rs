//! Inner loops of the search, one at a time, for benchmarks. Each returns a count of its results, so that the compiler
//! cannot drop the work.

use std::rc::Rc;

use crate::{
    algebra::{SetId, Undefined},
    input::Input,
    precomputed_indexes::PrecomputedIndexes,
    setup::set_up,
    shape::ShapeCore,
    solve::Solver,
    strategy::Strategy,
    topology::{HostId, Place},
};

/// Prepared solve in which all shapes are known and no pod is placed.
pub struct InnerLoops<'a> {
    solver: Solver<'a>,
    cores: Vec<Rc<ShapeCore<'a>>>,
}

impl<'a> InnerLoops<'a> {
    /// Prepares the input as the search does.
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

    /// Requirement algebra: intersects the requirements of each NodePool with those of each shape.
    pub fn narrow(&mut self) -> usize {
        let narrowed = self.narrowed();
        narrowed.len()
    }

    /// Instance type filter: the remaining types of each NodePool for each shape.
    pub fn filter_types(&mut self) -> usize {
        let mut left = 0;
        for (template, set, _) in self.narrowed() {
            let context = &mut self.solver.context;
            if let Some(node_template) = context.templates.get(template) {
                let mut rows = node_template.base.clone();
                context.keep_matching(template, set, &mut rows);
                left += rows.iter().count();
            }
        }
        left
    }

    /// Choice of topology domains for a new node of each NodePool and each shape.
    pub fn choose_domains(&mut self) -> usize {
        let mut allowed = 0;
        for (template, set, core) in self.narrowed() {
            let context = &mut self.solver.context;
            let Some(node_template) = context.templates.get(template) else {
                continue;
            };
            let place = Place {
                set,
                taints: node_template.taints,
                host: HostId(self.solver.next_host),
                undefined: Undefined::WellKnown,
                daemons: crate::topology::daemons::Daemons::default(),
            };
            let constraints = context.topology.applicable_constraints(&core.member);
            let verdict =
                context
                    .topology
                    .admit(&core.member, &constraints, &place, &mut context.algebra);
            allowed += usize::from(matches!(
                verdict,
                crate::topology::TopologyVerdict::Allowed(_)
            ));
        }
        allowed
    }

    fn narrowed(&mut self) -> Vec<(usize, SetId, Rc<ShapeCore<'a>>)> {
        let context = &mut self.solver.context;
        let mut narrowed = Vec::new();
        for (at, template) in context.templates.iter().enumerate() {
            for core in &self.cores {
                let required = core.sets.on_claims;
                let set = context
                    .algebra
                    .narrow(template.set, required, Undefined::WellKnown);
                narrowed.extend(set.map(|set| (at, set, Rc::clone(core))));
            }
        }
        narrowed
    }
}
