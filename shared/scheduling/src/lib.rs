//! Where could these pods go? Given pods, nodes that exist and NodePools that may make more, [`solve`] says which pod goes
//! where, which nodes to make, and for every pod left over why no NodePool can serve it (docs/spec/scheduling.md).
//!
//! Provisioning, consolidation, drift and `whittle plan` ask the same question here. The answer depends on nothing but the
//! [`Input`]: no clock, randomness, I/O or order of hashing. Of the project, this crate must never depend on anything but `model`.

mod algebra;
mod amounts;
mod bits;
mod bound;
mod catalog;
mod claim;
mod devices;
mod explain;
mod full;
mod go_sort;
mod groundwork;
mod guided;
#[cfg(feature = "inner-loops")]
mod inner_loops;
mod input;
mod limits;
mod min_values;
mod node;
mod on_offer;
mod outcome;
mod ports;
mod preferences;
mod prices;
mod rearrange;
mod reason;
mod repack;
mod reservations;
mod room;
#[cfg(test)]
mod scene;
mod setup;
mod shape;
mod solve;
mod spec;
mod standing;
mod strategy;
mod template;
mod tolerance;
mod topology;
mod volumes;
mod world;

pub use bound::least_cost;
pub use full::full_nodes;
pub use groundwork::Groundwork;
pub use guided::Destination;
#[cfg(feature = "inner-loops")]
pub use inner_loops::InnerLoops;
pub use input::{Effort, ExistingNode, Host, Input, Options, Pool};
pub use outcome::{Answer, Choice, GivenUp, NewNode, Unplaced, share_of};
pub use rearrange::{Leaver, Rearranging, Team};
pub use reason::{Asked, Binding, NodeLack, Reason, Side};
pub use standing::{Leaving, Standing};
pub use volumes::Volumes;

use std::{cell::Cell, rc::Rc};

use setup::Setup;

/// Answers the question.
pub fn solve(input: &Input<'_>) -> Answer {
    Prepared::new(&Groundwork::of(input), input).solve()
}

/// A question with everything in it interned, indexed and counted.
pub struct Prepared<'g, 'a> {
    groundwork: &'g Groundwork<'a>,
    input: Rc<Input<'a>>,
    setup: Setup<'a>,
}

impl<'g, 'a> Prepared<'g, 'a> {
    pub fn new(groundwork: &'g Groundwork<'a>, input: &Input<'a>) -> Self {
        let input = Rc::new(input.clone());
        Self {
            groundwork,
            setup: setup::set_up(groundwork, &input),
            input,
        }
    }

    /// The search.
    pub fn solve(self) -> Answer {
        let first = Cell::new(Some(self.setup));
        strategy::best(&self.input, None, || {
            let again = || setup::set_up(self.groundwork, &self.input);
            first.take().unwrap_or_else(again)
        })
    }
}
