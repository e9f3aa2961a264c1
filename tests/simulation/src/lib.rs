//! Deterministic simulation: the real turns over fakes, in virtual time, while everything goes wrong that one seed decides:
//! what users and AWS do, which calls fail, are slow or end their process, which wakes are lost, doubled or late.
//!
//! [`Laws`] judge every act and every second. When the trouble is over, the cluster must come to rest: every pod runs, nothing is
//! left over, and nobody plans anything. What breaks a law is cut down to the events that matter ([`shrink`]).
//!
//! It must never depend on an adapter or an SDK: thousands of seeds are run.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of what can happen is of no concern to most of those who look at it"
)]

mod deeds;
mod dice;
mod laws;
mod planted;
mod play;
mod rest;
mod script;
mod shrink;
mod sky;
mod watched;

use std::fmt;

use api::names::tag;
use fakes::{ClusterRows, World};
use model::launch::Instance;

pub use laws::{Broken, Laws};
pub use planted::Bug;
pub use play::Played;
pub use script::{
    Ailment, BudgetSetting, Cause, Event, Gated, PoolSetting, Port, Refusing, Script, Setting, What,
};
pub use shrink::shrink;

/// Our name in the leader Lease.
pub(crate) const HOLDER: &str = "whittle/123456789012/us-east-1/test";

/// Rows in the ledger of the cluster that is looked at, once it has any.
pub(crate) fn rows(world: &World) -> Option<&ClusterRows> {
    world.ledger.cluster(&world.cluster)
}

/// Whether an instance is of the cluster that is looked at.
pub(crate) fn is_own(world: &World, instance: &Instance) -> bool {
    instance.tags.get(tag::EKS_CLUSTER) == Some(&world.cluster.0)
}

/// A run that broke a law.
#[derive(Clone, Debug)]
pub struct Failure {
    pub script: Script,
    pub broken: Broken,
    /// What turns did, in order.
    pub log: Vec<String>,
}

/// Plays what a seed decides.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Played, Box<Failure>> {
    play::play(&Script::draw(seed), bug)
}

/// The same for a script that somebody has cut down.
pub fn play(script: &Script, bug: Option<Bug>) -> Result<Played, Box<Failure>> {
    play::play(script, bug)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            script,
            broken,
            log,
        } = self;
        writeln!(f, "seed {} breaks the law: {}", script.seed, broken.law)?;
        writeln!(f, "  {} at {:.0}", broken.what, broken.at)?;
        writeln!(f, "{:?}", script.setting)?;
        for event in &script.events {
            writeln!(f, "  {event}")?;
        }
        writeln!(f, "what happened:")?;
        log.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
