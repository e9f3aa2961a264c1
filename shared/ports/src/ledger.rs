//! The ledger of an account, by concern.

mod budget;
mod clusters;
mod commands;
mod control;
mod experience;
mod lanes;
mod launches;
mod markers;
mod notices;
mod notifications;
mod ownership;
mod plans;

use thiserror::Error;

pub use self::{
    budget::BudgetLedger,
    clusters::{ClusterLedger, ClusterSummary},
    commands::CommandLedger,
    control::ControlLedger,
    experience::ExperienceLedger,
    lanes::{Ended, LaneEnd, LaneLedger, Taken},
    launches::LaunchLedger,
    markers::MarkerLedger,
    notices::NoticeLedger,
    notifications::NotificationLedger,
    ownership::OwnershipLedger,
    plans::{Commit, Committed, PlanLedger, Record, Unfenced},
};

/// The ledger. Every write is conditional or idempotent, every read strongly consistent (docs/protocol.md).
///
/// If the response to a conditional write is lost, the implementation reads the row back: finding the caller's id means
/// success. A repeated write is also `Yes` if its result is already in place. `fakes::laws` tests every implementation.
pub trait Ledger:
    LaneLedger
    + ClusterLedger
    + ControlLedger
    + PlanLedger
    + LaunchLedger
    + OwnershipLedger
    + CommandLedger
    + NoticeLedger
    + ExperienceLedger
    + BudgetLedger
    + MarkerLedger
    + NotificationLedger
{
}

impl<T> Ledger for T where
    T: LaneLedger
        + ClusterLedger
        + ControlLedger
        + PlanLedger
        + LaunchLedger
        + OwnershipLedger
        + CommandLedger
        + NoticeLedger
        + ExperienceLedger
        + BudgetLedger
        + MarkerLedger
        + NotificationLedger
{
}

/// Whether the condition of a write held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Yes,
    /// The condition no longer holds; the caller reads again.
    No,
}

#[derive(Clone, Debug, Error)]
pub enum LedgerError {
    #[error("the ledger throttles {action}")]
    Throttled { action: String },
    #[error("the ledger denied {action}: {message}")]
    Denied { action: String, message: String },
    /// The request can never succeed, such as one for a row that exceeds the ledger's limit.
    #[error("the ledger refuses {action}: {message}")]
    Invalid { action: String, message: String },
    #[error("the ledger did not answer {action}: {message}")]
    Unavailable { action: String, message: String },
    /// The row is not touched: functions of the newer version handle it.
    #[error(
        "row {pk} / {sk} was written by a newer version of the functions (schema {schema}, supported is {known}), and is not changed: deploy that version again if it is no longer deployed"
    )]
    Newer {
        pk: String,
        sk: String,
        schema: u64,
        known: u32,
    },
    #[error("row {pk} / {sk} cannot be read: {message}")]
    Corrupt {
        pk: String,
        sk: String,
        message: String,
    },
}
