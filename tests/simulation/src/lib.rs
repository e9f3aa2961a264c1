//! Deterministic simulation: the real turns over fakes, in virtual time, under faults that a seed determines: actions of users
//! and AWS, calls that fail, are slow or crash their process, wakes that are lost, duplicated or delayed.
//!
//! [`Laws`] check every act and every second. When the faults are over, the cluster must converge: every pod runs, nothing is
//! left over, and no turn plans anything. A script that breaks a law is reduced to the events that matter ([`shrink`]).
//!
//! The crate depends neither on an adapter nor on an SDK, because thousands of seeds are run.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most events are irrelevant to most functions"
)]

mod act;
mod checked_ports;
mod convergence;
mod events;
mod fault_schedule;
mod laws;
mod planted;
mod play;
mod rng;
mod script;
mod shrink;

use std::fmt;

use api::names::tag;
use fakes::{ClusterRows, World};
use model::launch::Instance;

pub use laws::{BrokenLaw, Laws};
pub use planted::Bug;
pub use play::RunSummary;
pub use script::{
    BudgetSetting, CommonCause, Event, EventKind, FailureMode, GatedFeatures, PoolSetting, Port,
    RejectedObject, Script, Setting,
};
pub use shrink::shrink;

/// Holder of the leader-election Lease while Whittle leads.
pub(crate) const HOLDER: &str = "whittle/123456789012/us-east-1/test";

/// Ledger rows of the current cluster, once it has any.
pub(crate) fn rows(world: &World) -> Option<&ClusterRows> {
    world.ledger.cluster(&world.cluster)
}

/// Returns whether an instance belongs to the current cluster.
pub(crate) fn is_own(world: &World, instance: &Instance) -> bool {
    instance.tags.get(tag::EKS_CLUSTER) == Some(&world.cluster.0)
}

/// A run that broke a law.
#[derive(Clone, Debug)]
pub struct Failure {
    pub script: Script,
    pub broken: BrokenLaw,
    /// Log of what turns did, in order.
    pub log: Vec<String>,
}

/// Plays the script of a seed.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<RunSummary, Box<Failure>> {
    play::play(&Script::draw(seed), bug)
}

/// Plays a given script, such as a shrunk one.
pub fn play(script: &Script, bug: Option<Bug>) -> Result<RunSummary, Box<Failure>> {
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
