//! Ports: traits by which turns access EC2, the cluster's API server, the ledger, the queues and the clock.
//!
//! Traits are object-safe and domain-level. No type of an SDK or client crosses them, and this crate must never depend
//! on one, nor on the planner or executor. Errors are classified by how the caller should react.
//!
//! Implementations: `ec2`, `k8s`, `ledger` (real), `fakes` (in memory, with faults), `sandbox` (a simulated account).

pub mod account_housekeeping;
pub mod budget;
pub mod causes;
pub mod clock;
pub mod cloud;
pub mod cluster;
pub mod journal;
pub mod ledger;
pub mod metrics;
pub mod notifier;
pub mod object_store;
pub mod provider;
pub mod queue;
pub mod registry;
pub mod termination;

pub use account_housekeeping::{AccountHousekeeping, Needs};
pub use api::LaunchBuilder;
pub use budget::{Budget, BudgetExhausted};
pub use causes::with_causes;
pub use clock::Clock;
pub use cloud::{Cloud, CloudError};
pub use cluster::{Cluster, ClusterError};
pub use journal::{Archive, ArchiveError, Journal, JournalEntry, MakeObject};
pub use ledger::{Ledger, LedgerError};
pub use metrics::{Metric, Metrics};
pub use model::limits;
pub use notifier::{Notifier, NotifyError};
pub use object_store::{ObjectStore, ObjectStoreError};
pub use provider::{Catalog, Launches, NodeClassResolver, Resolved, StaticHash};
pub use queue::{QueueError, Wakes};
pub use registry::{Clusters, Registry, RegistryError};
pub use termination::{Termination, TerminationRefusal, Terminations, terminate_each};
