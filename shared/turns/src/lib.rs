//! The six turns: observe → plan → check → commit → act → report, over the ports. Functions, the demo and the simulation
//! all call these.
//!
//! A turn decides nothing itself: `planner` plans and `plancheck` checks. This crate must never depend on an adapter, an
//! SDK, `lambda_runtime` or a Kubernetes client.

mod addresses;
mod adopt;
mod apply;
mod approval;
mod buffers;
mod capacity_blocks;
mod caps;
mod collect;
mod deleted_cluster;
pub mod devices;
mod disruption;
mod drift;
mod entry;
mod events;
mod evidence;
mod forget;
pub mod gated;
mod hashes;
mod heartbeats;
mod housekeeper;
mod identity;
mod interruption;
mod isolation;
pub mod journal;
mod lane;
mod launching;
mod leader;
mod lifecycle;
mod metrics;
mod node_classes;
mod node_pools;
mod notifications;
mod observe;
mod overlays;
mod provisioner;
mod reach;
mod refusals;
mod registrations;
mod relay_version;
mod report;
pub mod selectors;
mod shadow;
mod shifts;
mod spending;
mod status;
mod sweep;
mod terminations;
mod terminator;
mod time_limit;
mod transitions;
mod views;

use std::sync::Arc;

use jiff::SignedDuration;
use model::{ClusterName, Lane, interruption::StackLocation};
use ports::{
    AccountHousekeeping, Archive, Catalog, Clock, Cloud, CloudError, ClusterError, Clusters,
    Journal, Launches, Ledger, LedgerError, Metrics, NodeClassResolver, Notifier, QueueError,
    Registry, RegistryError, Wakes,
};
use thiserror::Error;

pub use entry::{Entry, EntryError, endpoint, unlisted_since};
pub use heartbeats::Heartbeats;
pub use housekeeper::{SweepReport, housekeep};
pub use interruption::{
    Delivery, InterruptionOutcome, InterruptionReport, Message, deliver, interrupt,
};
pub use lane::{run, woken};
pub use node_classes::readiness;
pub use planner::Share;
pub use reach::PUBLIC;
pub use report::{Outcome, PodsFrom, Reads, Report, Step, StepEnd};
pub use views::Views;

/// Ports and process-wide state of all turns.
#[derive(Clone)]
pub struct World {
    pub cloud: Arc<dyn Cloud>,
    pub ledger: Arc<dyn Ledger>,
    pub journal: Arc<dyn Journal>,
    pub archive: Arc<dyn Archive>,
    pub wakes: Arc<dyn Wakes>,
    pub clock: Arc<dyn Clock>,
    pub catalog: Arc<dyn Catalog>,
    pub node_classes: Arc<dyn NodeClassResolver>,
    pub launches: Arc<dyn Launches>,
    pub registry: Arc<dyn Registry>,
    pub clusters: Arc<dyn Clusters>,
    pub upkeep: Arc<dyn AccountHousekeeping>,
    pub metrics: Arc<dyn Metrics>,
    pub notifier: Arc<dyn Notifier>,
    /// The stack's name in Karpenter's leader Leases, before those of the cluster: `whittle/<account>/<region>/<stack>`.
    pub holder: String,
    /// Upper bounds on the work of one turn of the provisioner.
    pub share: Share,
    /// This process's cache of clusters' pods, as their relays publish them.
    pub views: Arc<Views>,
    /// This process's memory of relays' heartbeats.
    pub heartbeats: Arc<Heartbeats>,
    /// Network from which the functions reach API servers, in the notation of registry entries: they serve the clusters of this
    /// reach.
    pub reach: String,
}

impl World {
    /// Account and region of the stack, as its name in the leader Lease shows them.
    pub fn home(&self) -> StackLocation {
        let mut parts = self.holder.split('/').skip(1).map(str::to_owned);
        StackLocation {
            account: parts.next().unwrap_or_default(),
            region: parts.next().unwrap_or_default(),
        }
    }
}

/// An error of a turn that could not even be recorded.
#[derive(Debug, Error)]
pub enum TurnError {
    #[error("the registry entry of cluster {cluster} is not usable")]
    Entry {
        cluster: ClusterName,
        #[source]
        source: EntryError,
    },
    #[error("cut off after {}s: its API server, or a service that it depends on, answers too slowly", limit.as_secs())]
    Late { limit: SignedDuration },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<executor::ExecutorError> for TurnError {
    fn from(error: executor::ExecutorError) -> Self {
        match error {
            executor::ExecutorError::Cloud(error) => error.into(),
            executor::ExecutorError::Cluster(error) => error.into(),
            executor::ExecutorError::Ledger(error) => error.into(),
        }
    }
}

/// Upper bound on a turn's duration: its function's time-out, less the time that Lambda needs to start and the turn to record
/// its outcome.
pub fn budget(lane: Lane) -> SignedDuration {
    match lane {
        Lane::Disruption => SignedDuration::from_secs(290),
        Lane::Provisioner
        | Lane::Lifecycle
        | Lane::Terminator
        | Lane::Interruption
        | Lane::Housekeeper => SignedDuration::from_secs(50),
    }
}
