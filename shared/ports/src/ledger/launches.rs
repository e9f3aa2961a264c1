use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Lane, NodeClaimName,
    ids::{LaunchToken, TurnId},
    ledger::{Call, Intent, IntentState, Lease},
};

use super::{LedgerError, Moved};

/// Launches: intents, and the calls of EC2 that carry them out (docs/protocol.md#launching).
#[async_trait]
pub trait LaunchLedger: Send + Sync {
    /// All intents that are not `launched`, so that the number of rows read by every turn does not grow with the
    /// cluster.
    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError>;
    /// NodeClaims whose intents are `launched`. Such intents are not leased or moved any more.
    async fn launched(&self, cluster: &ClusterName) -> Result<Vec<NodeClaimName>, LedgerError>;
    /// The intent in any state.
    async fn intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<Intent>, LedgerError>;
    /// Takes or renews the lease on an intent, unless another turn holds it.
    async fn lease_intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Intent>, LedgerError>;
    /// Moves an intent from exactly the state in `from`, while the turn holds its lease. Terminal states release the
    /// lease.
    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &IntentState,
    ) -> Result<Moved, LedgerError>;
    /// Inserts an intent for a NodeClaim that a user created, unless there is one (docs/protocol.md#a1), and makes
    /// `lane` due in the same transaction (docs/protocol.md#l4).
    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
        lane: Lane,
        due: Timestamp,
    ) -> Result<Moved, LedgerError>;
    /// Inserts the call and moves its members `claimed → launching`, in one transaction (docs/protocol.md#a2).
    async fn freeze(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        call: &Call,
    ) -> Result<Moved, LedgerError>;
    async fn call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Option<Call>, LedgerError>;
    async fn open_calls(&self, cluster: &ClusterName) -> Result<Vec<Call>, LedgerError>;
    /// Takes or renews the lease on an open call, unless another turn holds it.
    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError>;
    /// Closes the call while the turn holds its lease. The row is kept for at least an hour, because it explains the
    /// call's instances (docs/protocol.md#g3).
    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError>;
}
