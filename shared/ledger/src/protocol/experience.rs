use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Evidence, Experience,
    experience::{MeasuredMemory, ZonalShift},
    ledger::OfferingKey,
};
use ports::{LedgerError, ledger::ExperienceLedger};

use super::TableLedger;
use crate::experience;

#[async_trait]
impl ExperienceLedger for TableLedger {
    async fn experience(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<Experience, LedgerError> {
        experience::all(&self.table, &self.account, cluster, now).await
    }

    async fn mark_unavailable(
        &self,
        offering: &OfferingKey,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        experience::mark_unavailable(&self.table, &self.account, offering, now).await
    }

    async fn mark_full(&self, subnet: &str, now: Timestamp) -> Result<(), LedgerError> {
        experience::mark_full(&self.table, &self.account, subnet, now).await
    }

    async fn measure_memory(
        &self,
        instance_type: &str,
        image: &str,
        bytes: i64,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let key = self.account.measured(instance_type, image);
        experience::measure_memory(&self.table, &key, |before| {
            MeasuredMemory::after(before, instance_type, image, bytes, now)
        })
        .await
    }

    async fn evidence(&self) -> Result<Vec<Evidence>, LedgerError> {
        experience::evidence(&self.table, &self.account).await
    }

    async fn store_evidence(&self, evidence: &Evidence) -> Result<(), LedgerError> {
        experience::store_evidence(&self.table, &self.account, evidence).await
    }

    async fn store_zonal_shifts(
        &self,
        cluster: &ClusterName,
        shifts: &[ZonalShift],
    ) -> Result<(), LedgerError> {
        experience::store_zonal_shifts(&self.table, cluster, shifts).await
    }

    async fn zonal_shifts(&self, cluster: &ClusterName) -> Result<Vec<ZonalShift>, LedgerError> {
        experience::zonal_shifts(&self.table, cluster).await
    }
}
