//! The world in memory: an EC2 account, one cluster's API server with stand-ins for kubelet, scheduler and Deployments,
//! the ledger, the queues and a clock, all over one shared state and all with faults on demand.
//!
//! [`Sim`] implements every port. Tests reach behind it with [`Sim::with`], let time pass with [`Sim::advance`] and break
//! things with [`Fuse`] (the process dies at a certain port call), [`Fault`] (one call fails), [`Weather`] (what becomes of
//! every call of a [`Process`]), [`Protected`] and [`Protection`] (one object is refused for as long as the test wants) and the
//! account's own settings (no capacity, ignored ClientTokens, lagging descriptions). [`laws`] is what every ledger must obey, this
//! one and the real one.
//!
//! The ledger is the real one over a table in memory, which refuses what DynamoDB refuses. Otherwise this crate stands in for adapters, so
//! it must never depend on one, nor on planning or executing.

mod account;
mod api_server;
mod cloud;
mod cluster;
mod fault;
mod journal;
mod launch;
mod launches;
pub mod laws;
mod ledger;
mod notifier;
mod offered;
mod provider;
mod refusal;
mod reservations;
mod rows;
mod seconds;
mod sim;
mod stand_ins;
mod table;
mod told;

pub use account::{Account, Tokens};
pub use api_server::{ApiServer, Deployment};
pub use fault::{Death, Fate, Fault, Fuse, Process, Weather};
pub use launch::launch;
pub use notifier::Told;
pub use offered::Offered;
pub use provider::{instance_type, node_class, node_pool, settings};
pub use refusal::{Admission, Protected, Protection};
pub use reservations::ReservedInstances;
pub use rows::{AccountRows, ClusterRows, Rows, SpoiltRow};
pub use sim::{Happening, Sim, World};
pub use table::{MemoryTable, TableCounts, TableFaults};
pub use told::ToldStatus;
