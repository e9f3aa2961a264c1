//! The seam between deciding and the world: what a turn may ask of EC2, the cluster's API server, the ledger, the
//! queues and the clock, in Whittle's words.
//!
//! Traits are object-safe and domain-level; no SDK or client type crosses them, and this crate must never depend on one,
//! nor on whoever decides or acts. Errors say what the caller may do.
//! Implementations: `ec2`, `k8s`, `ledger` (real), `fakes` (in memory, with faults), `sandbox` (a simulated account).

pub mod budget;
pub mod causes;
pub mod clock;
pub mod cloud;
pub mod cluster;
pub mod journal;
pub mod ledger;
pub mod metrics;
pub mod notifier;
pub mod provider;
pub mod queue;
pub mod registry;
pub mod shelf;
pub mod termination;
pub mod upkeep;

pub use api::LaunchBuilder;
pub use budget::{Budget, Spent};
pub use causes::with_causes;
pub use clock::Clock;
pub use cloud::{Cloud, CloudError};
pub use cluster::{Cluster, ClusterError};
pub use journal::{Archive, ArchiveError, Journal, JournalEntry, MakeObject};
pub use ledger::{Ledger, LedgerError};
pub use metrics::{Metric, Metrics};
pub use model::limits;
pub use notifier::{Notifier, NotifyError};
pub use provider::{Catalog, Launches, NodeClassResolver, Resolved, StaticHash};
pub use queue::{QueueError, Wakes};
pub use registry::{Clusters, Registry, RegistryError};
pub use shelf::{Shelf, ShelfError};
pub use termination::{Termination, TerminationRefusal, Terminations, terminate_each};
pub use upkeep::{Needs, Upkeep};
