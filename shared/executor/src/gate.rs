use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, NodePoolName, Uid,
    ledger::{Meta, Mode, Pause, PauseLevel},
};
use ports::{CloudError, ClusterError, LedgerError, cluster::LeaderLease};
use thiserror::Error;

use crate::Executor;

/// Reason why a turn may not act now. Nothing is wrong: later turns may.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StopReason {
    #[error("the cluster is not active: its mode is {mode}")]
    NotActive { mode: String },
    /// Owner, end and reason of the pause.
    #[error("{paused}")]
    Paused { paused: String },
    #[error("Karpenter's leader Lease is held by {holder}, not by this stack")]
    NotLeader { holder: String },
    #[error("the leader Lease of this stack is about to expire")]
    LeaseLapses,
    #[error("the turn has reached its deadline")]
    OutOfTime,
}

impl StopReason {
    /// The reason for a refused commit whose cause cannot be read any more.
    pub(crate) fn changed() -> Self {
        Self::NotActive {
            mode: "no longer active".into(),
        }
    }
}

/// Failure of a call.
#[derive(Debug, Error)]
pub enum ExecutorError {
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl ExecutorError {
    /// Whether the error is about one object or call, so that others may continue.
    pub(crate) fn is_about_one_object(&self) -> bool {
        match self {
            Self::Cloud(error) => error.is_about_one_object(),
            Self::Cluster(error) => error.is_about_one_object(),
            Self::Ledger(_) => false,
        }
    }
}

/// Time by which the leader Lease must outlast the turn (docs/protocol.md#b1).
const LEADER_MARGIN: SignedDuration = SignedDuration::from_secs(60);

impl Executor<'_> {
    /// Whether acting is allowed now, read afresh: the mode (docs/protocol.md#c4), the leader Lease (docs/protocol.md#b1) and
    /// the clock. Pauses hold back voluntary actions only, for which [`may_begin`](Self::may_begin) checks them.
    pub async fn may_act(&self) -> Result<Option<StopReason>, ExecutorError> {
        self.gate(None, &[]).await
    }

    /// Whether an action that a pause of this level holds back may be begun now, for nodes of all these NodePools.
    pub async fn may_begin(
        &self,
        level: PauseLevel,
        pools: &[&NodePoolName],
    ) -> Result<Option<StopReason>, ExecutorError> {
        self.gate(Some(level), pools).await
    }

    fn identity(&self) -> Option<(&ClusterName, &Uid)> {
        self.uid.map(|uid| (self.cluster, uid))
    }

    async fn gate(
        &self,
        level: Option<PauseLevel>,
        pools: &[&NodePoolName],
    ) -> Result<Option<StopReason>, ExecutorError> {
        let now = self.clock.now();
        if now >= self.deadline {
            return Ok(Some(StopReason::OutOfTime));
        }
        let meta = self.ledger.meta(self.cluster).await?;
        if let Some(stop) = held_back(meta.as_ref(), level, pools, now) {
            return Ok(Some(stop));
        }
        let lease = self.api.leader_lease().await?;
        Ok(leads(
            lease.as_ref(),
            self.holder,
            self.identity(),
            self.deadline,
        ))
    }
}

/// Returns whether the mode or a pause stops the turn (docs/protocol.md#c4).
fn held_back(
    meta: Option<&Meta>,
    level: Option<PauseLevel>,
    pools: &[&NodePoolName],
    now: Timestamp,
) -> Option<StopReason> {
    let not_active = |mode: &str| Some(StopReason::NotActive { mode: mode.into() });
    let Some(meta) = meta else {
        return not_active("not registered");
    };
    match meta.mode {
        Mode::Shadow => not_active("shadow"),
        Mode::Active => {
            let level = level?;
            let of_pool = |pool| Pause::of_pool(&meta.pauses, Some(pool), level, now);
            let mut of_pools = pools.iter().copied().filter_map(of_pool);
            let paused = meta.paused(level, now).or_else(|| of_pools.next())?;
            Some(StopReason::Paused {
                paused: paused.to_string(),
            })
        }
    }
}

/// The name under which a stack holds a cluster's leader Lease: of the stack, of the registry entry, and of the API server that
/// the entry was found to lead to. A lane that reaches another API server, or works for another entry, does not find its name
/// there.
pub fn holder_of(stack: &str, cluster: &ClusterName, uid: &Uid) -> String {
    format!("{stack}/{cluster}/{uid}")
}

/// Whether the Lease is this stack's and outlasts the turn (docs/protocol.md#b1). Versions that did not name clusters wrote the
/// stack's name alone, which holds until the next visit of the cluster.
fn leads(
    lease: Option<&LeaderLease>,
    stack: &str,
    identity: Option<(&ClusterName, &Uid)>,
    deadline: Timestamp,
) -> Option<StopReason> {
    let own = identity.map(|(cluster, uid)| holder_of(stack, cluster, uid));
    let is_ours =
        |lease: &&LeaderLease| lease.holder == stack || Some(&lease.holder) == own.as_ref();
    let Some(lease) = lease.filter(is_ours) else {
        let holder = lease.map_or("nobody", |lease| &lease.holder).to_owned();
        return Some(StopReason::NotLeader { holder });
    };
    // The Lease may hold any values, times far away included.
    let duration = SignedDuration::from_secs(lease.duration_seconds);
    let needed_until = deadline + LEADER_MARGIN;
    let lapses = |at: Timestamp| duration <= needed_until.duration_since(at);
    lease
        .renewed_at
        .is_none_or(lapses)
        .then_some(StopReason::LeaseLapses)
}

#[cfg(test)]
mod tests {
    use model::{caps::AccountSpending, ledger::PauseScope};

    use super::*;

    #[test]
    fn b1_leader_lease_must_be_held_by_stack_and_outlast_turn() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let lease = |holder: &str, renewed: i64| LeaderLease {
            holder: holder.into(),
            renewed_at: Some(at(renewed)),
            duration_seconds: 3600,
            resource_version: None,
        };
        let deadline = at(1000);
        assert_eq!(leads(Some(&lease("us", 900)), "us", None, deadline), None);
        assert_eq!(
            leads(None, "us", None, deadline),
            Some(StopReason::NotLeader {
                holder: "nobody".into()
            })
        );
        assert_eq!(
            leads(Some(&lease("karpenter", 900)), "us", None, deadline),
            Some(StopReason::NotLeader {
                holder: "karpenter".into()
            })
        );
        assert_eq!(
            leads(Some(&lease("us", 1000 + 60 - 3600)), "us", None, deadline),
            Some(StopReason::LeaseLapses)
        );
        assert_eq!(
            leads(Some(&lease("us", 1001 + 60 - 3600)), "us", None, deadline),
            None
        );
    }

    #[test]
    fn b1_lease_of_another_entry_or_api_server_is_refused() {
        let (deadline, renewed) = (Timestamp::UNIX_EPOCH, Some(Timestamp::UNIX_EPOCH));
        let (demo, uid) = (ClusterName::from("demo"), Uid::from("a"));
        let leads = |holder: &str| {
            let lease = LeaderLease {
                holder: holder.into(),
                renewed_at: renewed,
                duration_seconds: 3600,
                resource_version: None,
            };
            leads(Some(&lease), "us", Some((&demo, &uid)), deadline).is_none()
        };
        assert!(leads("us/demo/a"));
        assert!(leads("us"), "of a version that named no clusters");
        assert!(!leads("us/demo/b"), "of another API server");
        assert!(!leads("us/demo2/a"), "of another entry");
    }

    #[test]
    fn b1_lease_with_extreme_times_does_not_overflow() {
        let lease = |renewed, duration_seconds| LeaderLease {
            holder: "us".into(),
            renewed_at: Some(renewed),
            duration_seconds,
            resource_version: None,
        };
        let leads =
            |lease: &LeaderLease| leads(Some(lease), "us", None, Timestamp::UNIX_EPOCH).is_none();
        assert!(leads(&lease(Timestamp::MAX, 3600)));
        assert!(leads(&lease(Timestamp::UNIX_EPOCH, i64::MAX)));
        assert!(!leads(&lease(Timestamp::MIN, -1)));
        assert!(!leads(&lease(Timestamp::UNIX_EPOCH, i64::MIN)));
    }

    #[test]
    fn c4_shadow_mode_and_pauses_of_the_level_stop_a_turn() {
        let now = Timestamp::UNIX_EPOCH;
        let meta = |mode, pauses| Meta {
            generation: 1,
            mode,
            registry: serde_json::Value::Null,
            uid: None,
            pauses,
            account: AccountSpending::default(),
            requests: Vec::new(),
        };
        let not_active = |mode: &str| Some(StopReason::NotActive { mode: mode.into() });
        assert_eq!(
            held_back(None, None, &[], now),
            not_active("not registered")
        );
        let shadow = meta(Mode::Shadow, Vec::new());
        assert_eq!(
            held_back(Some(&shadow), None, &[], now),
            not_active("shadow")
        );
        let active = meta(Mode::Active, Vec::new());
        for level in [None, Some(PauseLevel::Voluntary), Some(PauseLevel::All)] {
            assert_eq!(held_back(Some(&active), level, &[], now), None);
        }
        let pause = Pause {
            scope: PauseScope::Cluster,
            owner: "ann".into(),
            level: PauseLevel::Voluntary,
            reason: "a release".into(),
            since: now,
            until: now + SignedDuration::from_hours(1),
        };
        let paused = meta(Mode::Active, vec![pause.clone()]);
        assert_eq!(held_back(Some(&paused), None, &[], now), None);
        let held = |meta, level, pools: &[&NodePoolName]| {
            let held = held_back(Some(meta), Some(level), pools, now);
            matches!(held, Some(StopReason::Paused { .. }))
        };
        assert!(!held(&paused, PauseLevel::All, &[]));
        assert!(held(&paused, PauseLevel::Voluntary, &[]));
        let of_pool = Pause {
            scope: PauseScope::NodePool("spot".into()),
            ..pause
        };
        let (spot, other) = ("spot".into(), "other".into());
        let paused = meta(Mode::Active, vec![of_pool]);
        assert!(!held(&paused, PauseLevel::Voluntary, &[]));
        assert!(!held(&paused, PauseLevel::Voluntary, &[&other]));
        assert!(held(&paused, PauseLevel::Voluntary, &[&other, &spot]));
        assert!(!held(&paused, PauseLevel::All, &[&spot]));
    }
}
