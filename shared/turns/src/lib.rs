//! The six turns: observe → plan → check → commit → act → report, over the ports. Functions, the demo and the simulation
//! all call these.
//!
//! A turn decides nothing itself: `planner` plans and `plancheck` checks. This crate must never depend on an adapter, an
//! SDK, `lambda_runtime` or a Kubernetes client.
//!
//! The folders are layers. Each uses only those below it (`tests/suites/structure/mod.rs`):
//!
//! - `run`: the frame of a lane's turn, from the lease to the record of the outcome
//! - `sweep`: the housekeeper's sweep over all clusters
//! - `lanes`: the turns of the provisioner, lifecycle, disruption and terminator lanes
//! - `interruption`: interruptions that AWS announces, recorded and acted on ahead of the lanes
//! - `act`: steps of plans in the cluster and in EC2, shared by the lanes
//! - `observe`: reads of a turn, and the snapshot made of them
//! - `report`: reports and their publication as journal, events, metrics, status and notifications
//! - `context`: ports and caches of the process, the turn that holds a lane, and errors
//! - `settings`: registry entries, and annotations of NodePools

mod act;
mod context;
mod interruption;
mod lanes;
mod observe;
mod report;
mod run;
mod settings;
mod sweep;

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
