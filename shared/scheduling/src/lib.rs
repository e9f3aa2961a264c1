//! Scheduling simulation: places pending pods on existing nodes and on new nodes of NodePools. [`solve`] returns the node
//! of each pod, the nodes to launch, and the reason why each unplaced pod fits no NodePool (docs/spec/scheduling.md).
//!
//! Provisioning, consolidation, drift and `whittle plan` use the same simulation. The result depends on nothing but the
//! [`Input`]: no clock, randomness, I/O or hash order. Of the project's crates, this one must depend on `model` alone.

mod algebra;
mod amounts;
mod baseline_cluster;
mod bits;
mod capacity_index;
mod catalog;
mod claim;
mod devices;
mod explain;
mod full;
mod go_sort;
#[cfg(feature = "inner-loops")]
mod inner_loops;
mod input;
mod limits;
mod lower_bound;
mod min_values;
mod node;
mod offered_domains;
mod outcome;
mod placement_context;
mod placement_hints;
mod ports;
mod precomputed_indexes;
mod preferences;
mod prices;
mod rearrange;
mod reason;
mod repack;
mod reservations;
mod setup;
mod shape;
mod solve;
mod spec;
mod strategy;
mod template;
#[cfg(test)]
mod test_cluster;
mod tolerance;
mod topology;
mod volumes;

pub use baseline_cluster::{BaselineCluster, SimulatedRemoval};
pub use full::full_nodes;
#[cfg(feature = "inner-loops")]
pub use inner_loops::InnerLoops;
pub use input::{Effort, ExistingNode, Host, Input, Options, Pool};
pub use lower_bound::least_cost;
pub use outcome::{Choice, DroppedPreferences, NewNode, SolveResult, Unplaced, share_of};
pub use placement_hints::PlacementTarget;
pub use precomputed_indexes::PrecomputedIndexes;
pub use rearrange::{RearrangeRequest, RemovableNode, ReplacementGroup};
pub use reason::{Binding, ConflictSide, ConstraintSource, NodeReason, Reason};
pub use volumes::Volumes;

use std::{cell::Cell, rc::Rc};

use setup::Setup;

/// Solves one request with new indexes.
pub fn solve(input: &Input<'_>) -> SolveResult {
    PreparedSolve::new(&PrecomputedIndexes::of(input), input).solve()
}

/// Solve request with all labels interned, offerings indexed and bound pods counted.
pub struct PreparedSolve<'g, 'a> {
    precomputed: &'g PrecomputedIndexes<'a>,
    input: Rc<Input<'a>>,
    setup: Setup<'a>,
}

impl<'g, 'a> PreparedSolve<'g, 'a> {
    pub fn new(precomputed: &'g PrecomputedIndexes<'a>, input: &Input<'a>) -> Self {
        let input = Rc::new(input.clone());
        Self {
            precomputed,
            setup: setup::set_up(precomputed, &input),
            input,
        }
    }

    /// Runs the search.
    pub fn solve(self) -> SolveResult {
        let first = Cell::new(Some(self.setup));
        strategy::best(&self.input, None, || {
            let again = || setup::set_up(self.precomputed, &self.input);
            first.take().unwrap_or_else(again)
        })
    }
}
