use jiff::{SignedDuration, Timestamp};
use model::ledger::Mode;
use ports::{CloudError, ClusterError, LedgerError, cluster::LeaderLease};
use thiserror::Error;

use crate::Executor;

/// Why a turn may not act now. Nothing is wrong: later turns may.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Stop {
    #[error("the cluster is not active: its mode is {mode}")]
    NotActive { mode: String },
    #[error("Karpenter's leader Lease is held by {holder}, not by this stack")]
    NotLeader { holder: String },
    #[error("the leader Lease of this stack is about to lapse")]
    LeaseLapses,
    #[error("the turn's time is over")]
    OutOfTime,
}

/// A call that did not work out.
#[derive(Debug, Error)]
pub enum Trouble {
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The leader Lease must outlast the turn by this (PROTOCOL B1).
const LEADER_MARGIN: SignedDuration = SignedDuration::from_secs(60);

impl Executor<'_> {
    /// Whether acting is allowed now, read afresh: the mode (C4), the leader Lease (B1) and the clock.
    pub async fn may_act(&self) -> Result<Option<Stop>, Trouble> {
        let now = self.clock.now();
        if now >= self.deadline {
            return Ok(Some(Stop::OutOfTime));
        }
        let meta = self.ledger.meta(self.cluster).await?;
        let mode = meta.map(|meta| meta.mode);
        if !mode.as_ref().is_some_and(|mode| mode.lets_act(self.lane)) {
            let mode = match mode {
                Some(Mode::Active) => "active".into(),
                Some(Mode::Shadow) => "shadow".into(),
                Some(Mode::Paused { owner, reason, .. }) => format!("paused by {owner} ({reason})"),
                None => "not registered".into(),
            };
            return Ok(Some(Stop::NotActive { mode }));
        }
        let lease = self.api.leader_lease().await?;
        Ok(leads(lease.as_ref(), self.holder, self.deadline))
    }
}

/// B1: ours, and for longer than the turn.
fn leads(lease: Option<&LeaderLease>, holder: &str, deadline: Timestamp) -> Option<Stop> {
    let Some(lease) = lease.filter(|lease| lease.holder == holder) else {
        let holder = lease.map_or("nobody", |lease| &lease.holder).to_owned();
        return Some(Stop::NotLeader { holder });
    };
    let until = lease
        .renewed_at
        .map(|at| at + SignedDuration::from_secs(lease.duration_seconds));
    (until.is_none_or(|until| until <= deadline + LEADER_MARGIN)).then_some(Stop::LeaseLapses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_the_leader_lease_must_be_ours_and_outlast_the_turn() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let lease = |holder: &str, renewed: i64| LeaderLease {
            holder: holder.into(),
            renewed_at: Some(at(renewed)),
            duration_seconds: 3600,
            resource_version: None,
        };
        let deadline = at(1000);
        assert_eq!(leads(Some(&lease("us", 900)), "us", deadline), None);
        assert_eq!(
            leads(None, "us", deadline),
            Some(Stop::NotLeader {
                holder: "nobody".into()
            })
        );
        assert_eq!(
            leads(Some(&lease("karpenter", 900)), "us", deadline),
            Some(Stop::NotLeader {
                holder: "karpenter".into()
            })
        );
        assert_eq!(
            leads(Some(&lease("us", 1000 + 60 - 3600)), "us", deadline),
            Some(Stop::LeaseLapses)
        );
        assert_eq!(
            leads(Some(&lease("us", 1001 + 60 - 3600)), "us", deadline),
            None
        );
    }
}
