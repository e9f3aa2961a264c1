use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, NodeClaimName,
    ids::LaunchToken,
    ledger::{ClaimRow, InstanceOwner},
};

use super::{LedgerError, Moved};

/// Ownership of instances by NodeClaims, and their collection (docs/protocol.md#collecting).
#[async_trait]
pub trait OwnershipLedger: Send + Sync {
    /// Records a NodeClaim as the instance's owner in one transaction, if the OWNER and CLAIM rows are absent or equal
    /// and the intent is still launching this attempt (docs/protocol.md#a4).
    async fn own(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        instance: &InstanceId,
        token: &LaunchToken,
    ) -> Result<Moved, LedgerError>;
    async fn owner(&self, instance: &InstanceId) -> Result<Option<InstanceOwner>, LedgerError>;
    async fn claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<ClaimRow>, LedgerError>;
    /// Marks the NodeClaim as finished with its instance. Has no effect without a CLAIM row.
    async fn close_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<(), LedgerError>;
    /// Removes the intent and the CLAIM row of a NodeClaim that is gone. The owner of its instance stays known for a
    /// day, because AWS's events may arrive late.
    async fn forget_claim(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Reserves the instance for garbage collection, so that no NodeClaim can adopt it any more (docs/protocol.md#g1).
    /// Refused while an open CLAIM row holds the instance; a missing CLAIM row counts as closed. The row is kept for a
    /// day, after which no launch refers to the instance.
    async fn collect(
        &self,
        cluster: &ClusterName,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<Moved, LedgerError>;
    /// Records that EC2 returned this instance without tags of Whittle (docs/protocol.md#g4).
    async fn remember_unmanaged(
        &self,
        instance: &InstanceId,
        until: Timestamp,
    ) -> Result<(), LedgerError>;
    async fn is_unmanaged(
        &self,
        instance: &InstanceId,
        now: Timestamp,
    ) -> Result<bool, LedgerError>;
}
