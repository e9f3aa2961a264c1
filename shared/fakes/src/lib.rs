//! An in-memory world: an EC2 account, API servers with fakes of kubelet, scheduler and Deployments, the ledger, the queues and a
//! clock, all over one shared state and all with faults on demand.
//!
//! [`Sim`] implements every port. Tests change the state directly with [`Sim::with`], let time pass with [`Sim::advance`] and
//! inject faults with [`CrashPoint`] (the process dies at a certain port call), [`Fault`] (one call fails), [`FaultSchedule`]
//! (the outcome of every call of a [`Process`]), [`Protected`] and [`Protection`] (changes of one object are rejected until the
//! test allows them) and the account's own settings (no capacity, ignored ClientTokens, lagging descriptions). [`laws`] are
//! contract tests for every ledger, this one and the real one.
//!
//! The ledger is the real one over an in-memory table, which rejects what DynamoDB rejects. Otherwise this crate replaces
//! adapters, so it depends neither on one nor on planning or executing.

mod account;
mod api_server;
mod cloud;
mod cluster;
mod controllers;
mod fault;
mod journal;
mod launch;
mod launches;
pub mod laws;
mod ledger;
mod notifier;
mod offered_types;
mod provider;
mod published_status;
mod refusal;
mod reservations;
mod rows;
mod sim;
mod step;
mod table;

pub use account::{Account, Tokens};
pub use api_server::{ApiServer, Deployment};
pub use fault::{CallOutcome, CrashPoint, CrashTiming, Fault, FaultSchedule, Process};
pub use launch::launch;
pub use notifier::DeliveredNotification;
pub use offered_types::Offered;
pub use provider::{instance_type, node_class, node_pool, settings};
pub use published_status::PublishedStatus;
pub use refusal::{Admission, Protected, Protection};
pub use reservations::ReservedInstances;
pub use rows::{AccountRows, ClusterRows, CorruptedRow, Rows};
pub use sim::{Sim, World, WorldChange};
pub use table::{MemoryTable, TableCounts, TableFaults};
