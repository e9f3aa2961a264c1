use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, NodeClaimName,
    ids::LaunchToken,
    ledger::{ClaimRow, InstanceOwner},
};
use ports::{
    LedgerError,
    ledger::{Moved, OwnershipLedger},
};

use super::TableLedger;
use crate::ownership;

#[async_trait]
impl OwnershipLedger for TableLedger {
    async fn own(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        instance: &InstanceId,
        token: &LaunchToken,
    ) -> Result<Moved, LedgerError> {
        ownership::own(&self.table, cluster, claim, instance, token).await
    }

    async fn owner(&self, instance: &InstanceId) -> Result<Option<InstanceOwner>, LedgerError> {
        ownership::owner(&self.table, instance).await
    }

    async fn claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<ClaimRow>, LedgerError> {
        ownership::claim(&self.table, cluster, claim).await
    }

    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError> {
        ownership::close(&self.table, cluster, claim).await
    }

    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        ownership::forget(&self.table, cluster, claim, now).await
    }

    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<Moved, LedgerError> {
        ownership::collect(&self.table, cluster, instance, now).await
    }

    async fn remember_unmanaged(
        &self,
        instance: &InstanceId,
        until: Timestamp,
    ) -> Result<(), LedgerError> {
        ownership::remember_unmanaged(&self.table, instance, until).await
    }

    async fn is_unmanaged(
        &self,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<bool, LedgerError> {
        ownership::is_unmanaged(&self.table, instance, now).await
    }
}
