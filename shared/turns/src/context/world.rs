use std::sync::Arc;

use model::interruption::StackLocation;
use planner::Share;
use ports::{
    AccountHousekeeping, Archive, Catalog, Clock, Cloud, Clusters, Journal, Launches, Ledger,
    Metrics, NodeClassResolver, Notifier, Registry, Wakes,
};

use super::{heartbeats::Heartbeats, views::Views};

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
