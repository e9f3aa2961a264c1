//! The six turns: observe → plan → check → commit → act → report, over the ports. Functions, the demo and the simulation
//! all call these.
//!
//! A turn decides nothing itself: `planner` plans and `plancheck` checks. This crate must never depend on an adapter, an
//! SDK, `lambda_runtime` or a Kubernetes client.
//!
//! Modules in the order of their dependencies, the lowest first; a module uses only those before it.

/// Settings of users: registry entries and annotations of NodePools.
mod settings;

/// The ports and caches of a process, the turn that holds a lane, and errors.
mod context;

/// Reports of turns and their publication: journal, events, metrics, status and notifications.
mod report;

/// Reads of a turn, and the snapshot made of them.
mod observe;

/// Steps of plans in the cluster and in EC2, shared by the lanes.
mod act;

/// Interruptions that AWS announces: recorded, and acted on ahead of the lanes.
mod interruption;

/// The turns of the lanes: provisioner, lifecycle, disruption and terminator.
mod lanes;

/// The housekeeper's sweep over all clusters: leader Leases, due lanes and garbage collection.
mod sweep;

/// The frame of a lane's turn: lease, turn and record.
mod run;

pub use context::{Heartbeats, TurnError, Views, World, time_limit::budget};
pub use interruption::{Delivery, InterruptionOutcome, Message, deliver, interrupt};
pub use observe::{devices, gated, node_class::readiness, selectors};
pub use planner::Share;
pub use report::{
    InterruptionReport, Outcome, PodsFrom, Reads, Report, Step, StepEnd, SweepReport, journal,
};
pub use run::{run, woken};
pub use settings::{
    entry::{Entry, EntryError, endpoint, unlisted_since},
    reach::PUBLIC,
};
pub use sweep::housekeep;
