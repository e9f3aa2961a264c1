use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use model::{
    ClusterName, Lane, Uid,
    ledger::{LaneRow, Meta, Mode, RelayBeat, SweepMemory},
};

use super::LedgerError;

/// Clusters: their registry entries, their relays, and the housekeeper's state.
#[async_trait]
pub trait ClusterLedger: Send + Sync {
    async fn clusters(&self) -> Result<Vec<ClusterName>, LedgerError>;
    async fn meta(&self, cluster: &ClusterName) -> Result<Option<Meta>, LedgerError>;
    /// Creates META (generation 0) or replaces its copy of the registry entry and its mode. Keeps the generation and
    /// pauses.
    async fn mirror_registry(
        &self,
        cluster: &ClusterName,
        registry: &serde_json::Value,
        mode: &Mode,
    ) -> Result<(), LedgerError>;
    /// Records in META which cluster the registry entry refers to. Has no effect without META.
    async fn identify(&self, cluster: &ClusterName, uid: &Uid) -> Result<(), LedgerError>;
    async fn relay_beat(&self, cluster: &ClusterName) -> Result<Option<RelayBeat>, LedgerError>;
    /// Returns `meta`, `relay_beat`, `lanes` and `sweep_memory` of each of these clusters, in one batch read. An
    /// unreadable row is an error for its cluster only.
    async fn cluster_summaries(
        &self,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<BTreeMap<ClusterName, Result<ClusterSummary, LedgerError>>, LedgerError>;
    /// The housekeeper's state. Only the housekeeper writes it, one turn at a time.
    async fn sweep_memory(&self, cluster: &ClusterName) -> Result<SweepMemory, LedgerError>;
    async fn store_sweep_memory(
        &self,
        cluster: &ClusterName,
        memory: &SweepMemory,
    ) -> Result<(), LedgerError>;
}

/// Rows by which the sweep decides whether a cluster needs a visit (docs/protocol.md#l5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSummary {
    pub meta: Option<Meta>,
    pub beat: Option<RelayBeat>,
    pub lanes: Vec<(Lane, LaneRow)>,
    pub memory: SweepMemory,
}
