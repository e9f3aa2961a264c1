use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Lane, NodeClaimName,
    ids::{LaunchToken, TurnId},
    ledger::{Call, Intent, IntentState, Lease},
};
use ports::{
    LedgerError,
    ledger::{LaunchLedger, Moved},
};

use super::TableLedger;
use crate::launches;

#[async_trait]
impl LaunchLedger for TableLedger {
    async fn intents(&self, cluster: &ClusterName) -> Result<Vec<Intent>, LedgerError> {
        launches::intents(&self.table, cluster).await
    }

    async fn launched(&self, cluster: &ClusterName) -> Result<Vec<NodeClaimName>, LedgerError> {
        launches::launched(&self.table, cluster).await
    }

    async fn intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
    ) -> Result<Option<Intent>, LedgerError> {
        launches::intent(&self.table, cluster, claim).await
    }

    async fn lease_intent(
        &self,
        cluster: &ClusterName,
        claim: &NodeClaimName,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Intent>, LedgerError> {
        launches::lease_intent(&self.table, cluster, claim, lease, now).await
    }

    async fn move_intent(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        from: &Intent,
        to: &IntentState,
    ) -> Result<Moved, LedgerError> {
        launches::move_intent(&self.table, cluster, turn, from, to).await
    }

    async fn adopt_intent(
        &self,
        cluster: &ClusterName,
        intent: &Intent,
        lane: Lane,
        due: Timestamp,
    ) -> Result<Moved, LedgerError> {
        launches::adopt(&self.table, cluster, intent, lane, due).await
    }

    async fn freeze(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
        call: &Call,
    ) -> Result<Moved, LedgerError> {
        launches::freeze(&self.table, cluster, turn, call).await
    }

    async fn call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Option<Call>, LedgerError> {
        launches::call(&self.table, cluster, token).await
    }

    async fn open_calls(&self, cluster: &ClusterName) -> Result<Vec<Call>, LedgerError> {
        launches::open_calls(&self.table, cluster).await
    }

    async fn lease_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Option<Call>, LedgerError> {
        launches::lease_call(&self.table, cluster, token, lease, now).await
    }

    async fn close_call(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
        turn: &TurnId,
    ) -> Result<Moved, LedgerError> {
        launches::close_call(&self.table, cluster, token, turn).await
    }
}
