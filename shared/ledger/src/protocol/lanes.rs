use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Lane,
    ids::TurnId,
    ledger::{LaneRow, Lease},
};
use ports::{
    LedgerError,
    ledger::{Ended, LaneEnd, LaneLedger, Taken},
};

use super::TableLedger;
use crate::{lanes, memory};

#[async_trait]
impl LaneLedger for TableLedger {
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError> {
        lanes::take(&self.table, cluster, lane, lease, now).await
    }

    async fn end_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        turn: &TurnId,
        end: &LaneEnd,
    ) -> Result<Ended, LedgerError> {
        lanes::end(&self.table, cluster, lane, turn, end).await
    }

    async fn lanes(&self, cluster: &ClusterName) -> Result<Vec<(Lane, LaneRow)>, LedgerError> {
        lanes::all(&self.table, cluster).await
    }

    async fn make_due(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        when: Timestamp,
    ) -> Result<(), LedgerError> {
        lanes::make_due(&self.table, cluster, lane, when).await
    }

    async fn set_timer(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<bool, LedgerError> {
        memory::set_timer(&self.table, cluster, lane, now, due).await
    }
}
