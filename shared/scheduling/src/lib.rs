//! Where could these pods go? Given pods, nodes that exist and NodePools that may make more, [`solve`] says which pod goes
//! where, which nodes to make, and for every pod left over why no NodePool can serve it (spec/scheduling §11–§23).
//!
//! Provisioning, consolidation, drift and `whittle plan` ask the same question here. The answer depends on nothing but the
//! [`Input`]: no clock, randomness, I/O or order of hashing. This crate must never depend on anything but `model`.

mod algebra;
mod amounts;
mod bits;
mod bound;
mod catalog;
mod claim;
mod explain;
mod go_sort;
#[cfg(feature = "inner-loops")]
mod inner_loops;
mod input;
mod limits;
mod min_values;
mod node;
mod outcome;
mod ports;
mod prices;
mod reason;
mod repack;
mod reservations;
mod room;
mod setup;
mod shape;
mod solve;
mod spec;
mod strategy;
mod template;
mod tolerance;
mod topology;
mod volumes;
mod world;

pub use bound::least_cost;
#[cfg(feature = "inner-loops")]
pub use inner_loops::InnerLoops;
pub use input::{ExistingNode, Host, Input, Options, Pool};
pub use outcome::{Answer, Choice, NewNode, Unplaced};
pub use reason::{Asked, Reason};
pub use volumes::Volumes;

use setup::Setup;

/// Answers the question.
pub fn solve(input: &Input<'_>) -> Answer {
    Prepared::new(input).solve()
}

/// A question with everything in it interned, indexed and counted.
pub struct Prepared<'a> {
    input: &'a Input<'a>,
    setup: Setup<'a>,
}

impl<'a> Prepared<'a> {
    pub fn new(input: &'a Input<'a>) -> Self {
        let setup = setup::set_up(input);
        Self { input, setup }
    }

    /// The search.
    pub fn solve(self) -> Answer {
        strategy::best(self.input, self.setup)
    }
}
