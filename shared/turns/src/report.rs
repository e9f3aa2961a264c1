//! Reports of turns, sweeps and interruptions, and their publication.

pub(crate) mod events;
mod interruption_report;
pub mod journal;
pub(crate) mod metrics;
pub(crate) mod notifications;
mod record;
pub(crate) mod status;
pub(crate) mod subjects;
mod sweep_report;
mod termination_results;
pub(crate) mod transitions;

pub use self::{
    interruption_report::InterruptionReport,
    record::{Outcome, PodsFrom, Reads, Report, Step, StepEnd},
    sweep_report::SweepReport,
};
pub(crate) use self::{record::Waiting, termination_results::TerminationResults};
