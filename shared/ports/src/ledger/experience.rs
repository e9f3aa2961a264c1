use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, Evidence, Experience, experience::ZonalShift, ledger::OfferingKey};

use super::LedgerError;

/// Observations that clusters of the account share: failed offerings, full subnets, measured memory, failures of nodes and zonal shifts.
#[async_trait]
pub trait ExperienceLedger: Send + Sync {
    /// Shared observations of the account's clusters, and those that concern this cluster only, without those that have
    /// lapsed by `now`.
    async fn experience(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<Experience, LedgerError>;
    /// Marks an offering as failed at `now`; [`UnavailableOffering::after`](model::ledger::UnavailableOffering::after)
    /// determines the wait.
    async fn mark_unavailable(
        &self,
        offering: &OfferingKey,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Marks a subnet as without free addresses at `now`.
    async fn mark_full(&self, subnet: &str, now: Timestamp) -> Result<(), LedgerError>;
    /// Records the memory that a node of this instance type and AMI registered;
    /// [`MeasuredMemory::after`](model::experience::MeasuredMemory::after) determines the change.
    async fn measure_memory(
        &self,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Failures reported by the account's clusters, including lapsed ones.
    async fn evidence(&self) -> Result<Vec<Evidence>, LedgerError>;
    /// Replaces the failures that a cluster reports.
    async fn store_evidence(&self, evidence: &Evidence) -> Result<(), LedgerError>;
    /// Replaces the cluster's zonal shifts.
    async fn store_zonal_shifts(
        &self,
        cluster: &ClusterName,
        shifts: &[ZonalShift],
    ) -> Result<(), LedgerError>;
    async fn zonal_shifts(&self, cluster: &ClusterName) -> Result<Vec<ZonalShift>, LedgerError>;
}
