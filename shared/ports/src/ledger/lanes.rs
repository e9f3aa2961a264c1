use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, Lane,
    ids::TurnId,
    ledger::{Cursor, LaneRow, Lease, RelayCounter},
};

use super::LedgerError;

/// Lanes of clusters: leases, outcomes and due times (docs/protocol.md#lanes).
#[async_trait]
pub trait LaneLedger: Send + Sync {
    /// Takes the lane's lease, or sets `again` if another turn holds it (docs/protocol.md#l1). Taking clears the due
    /// time, which the returned row still has (an expired lease counts as due anyway). Due times set later survive the
    /// end of the turn.
    async fn take_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Taken, LedgerError>;
    /// Releases the turn's lease and records its outcome (docs/protocol.md#l2). Returns whether another wake was requested in the
    /// meantime. The due time becomes the earliest of the turn's own and those set while it ran. Has no effect if another turn
    /// holds the lease.
    async fn end_lane(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        turn: &TurnId,
        end: &LaneEnd,
    ) -> Result<Ended, LedgerError>;
    async fn lanes(&self, cluster: &ClusterName) -> Result<Vec<(Lane, LaneRow)>, LedgerError>;
    /// `due = min(due, when)` (docs/protocol.md#l3).
    async fn make_due(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        when: Timestamp,
    ) -> Result<(), LedgerError>;
    /// Returns whether the lane needs another timer, because none fires between `now` and `due`.
    async fn set_timer(
        &self,
        cluster: &ClusterName,
        lane: Lane,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<bool, LedgerError>;
}

/// Whether [`LaneLedger::take_lane`] acquired the lane's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Mine(Box<LaneRow>),
    /// Another turn holds the lane; `again` is set on its lease.
    Held,
}

/// Changes of a lane's row at the end of a turn: the next due time, an error, and progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneEnd {
    pub now: Timestamp,
    /// Time of the lane's next turn, if it needs one without a wake.
    pub due: Option<Timestamp>,
    pub error: Option<String>,
    /// Whether the turn did only part of the lane's work, so that its success proves nothing about earlier failures.
    pub partial: bool,
    /// The relay counter read before the lists, if this was a full look (docs/protocol.md#l6).
    pub full_look: Option<RelayCounter>,
    /// Position at which the next turn continues.
    pub cursor: Option<Cursor>,
}

/// Whether the lane needs another turn after [`LaneLedger::end_lane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether a wake without hints must be sent.
    pub again: bool,
}
