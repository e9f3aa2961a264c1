//! Karpenter's leader-election Lease: one brain per cluster (PROTOCOL B2; DESIGN §6).

use jiff::{SignedDuration, Timestamp};
use model::ledger::SweepMemory;
use ports::cluster::LeaderLease;

/// Ours lasts long enough for a sweep to fail many times.
pub(crate) const DURATION: SignedDuration = SignedDuration::from_secs(3600);
/// It is renewed when this much of it is over: each renewal is a write to the API server.
const RENEW_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Sweeps that must have seen the same version before a foreign Lease counts as abandoned.
const SWEEPS_MIN: u32 = 2;

/// What to do about the Lease now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is as it should be.
    Nothing,
    Write(LeaderLease),
    /// Somebody else leads: this stack must not act.
    Foreign {
        holder: String,
    },
}

/// For an active cluster: take what is free or abandoned, renew what is ours.
pub(crate) fn lead(
    lease: Option<&LeaderLease>,
    holder: &str,
    memory: &mut SweepMemory,
    now: Timestamp,
) -> Step {
    let ours = |version: Option<String>| {
        Step::Write(LeaderLease {
            holder: holder.to_owned(),
            renewed_at: Some(now),
            duration_seconds: DURATION.as_secs(),
            resource_version: version,
        })
    };
    let Some(lease) = lease else {
        return ours(None);
    };
    if lease.holder == holder {
        (
            memory.lease_version,
            memory.lease_since,
            memory.lease_sweeps,
        ) = (None, None, 0);
        let age = lease.renewed_at.map(|at| now.duration_since(at));
        return if age.is_none_or(|age| age >= RENEW_AFTER) {
            ours(lease.resource_version.clone())
        } else {
            Step::Nothing
        };
    }
    if lease.holder.is_empty() {
        return ours(lease.resource_version.clone());
    }
    if memory.lease_version != lease.resource_version || memory.lease_since.is_none() {
        memory.lease_version.clone_from(&lease.resource_version);
        memory.lease_since = Some(now);
        memory.lease_sweeps = 1;
    } else {
        memory.lease_sweeps = memory.lease_sweeps.saturating_add(1);
    }
    let unchanged = memory
        .lease_since
        .map_or(SignedDuration::ZERO, |since| now.duration_since(since));
    if memory.lease_sweeps >= SWEEPS_MIN
        && unchanged > SignedDuration::from_secs(lease.duration_seconds)
    {
        return ours(lease.resource_version.clone());
    }
    Step::Foreign {
        holder: lease.holder.clone(),
    }
}

/// For a cluster in shadow mode: give up what is ours, once nothing of ours is under way any more.
pub(crate) fn hand_back(lease: Option<&LeaderLease>, holder: &str, busy: bool) -> Step {
    match lease {
        Some(lease) if lease.holder == holder && !busy => Step::Write(LeaderLease {
            holder: String::new(),
            renewed_at: lease.renewed_at,
            duration_seconds: 1,
            resource_version: lease.resource_version.clone(),
        }),
        Some(_) | None => Step::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn lease(holder: &str, version: &str) -> LeaderLease {
        LeaderLease {
            holder: holder.into(),
            renewed_at: Some(at(0)),
            duration_seconds: 15,
            resource_version: Some(version.into()),
        }
    }

    fn takes(step: &Step) -> bool {
        matches!(step, Step::Write(lease) if lease.holder == "us")
    }

    #[test]
    fn b2_a_foreign_lease_is_taken_only_after_two_sweeps_past_its_duration() {
        let mut memory = SweepMemory::default();
        let karpenter = lease("karpenter-7d", "7");
        let mut see =
            |lease: &LeaderLease, now| takes(&lead(Some(lease), "us", &mut memory, at(now)));
        assert!(
            !see(&karpenter, 100),
            "seen for the first time, however old it claims to be"
        );
        assert!(!see(&karpenter, 115), "not past its own duration");
        assert!(!see(&lease("karpenter-7d", "8"), 160), "it was renewed");
        assert!(!see(&lease("karpenter-7d", "8"), 170));
        assert!(see(&lease("karpenter-7d", "8"), 220));
    }

    #[test]
    fn what_is_free_or_ours_is_held() {
        let mut memory = SweepMemory::default();
        assert!(takes(&lead(None, "us", &mut memory, at(0))));
        assert!(
            takes(&lead(Some(&lease("", "3")), "us", &mut memory, at(0))),
            "released"
        );
        assert_eq!(
            lead(Some(&lease("us", "3")), "us", &mut memory, at(599)),
            Step::Nothing
        );
        assert!(takes(&lead(
            Some(&lease("us", "3")),
            "us",
            &mut memory,
            at(600)
        )));
    }

    #[test]
    fn b2_handing_back_waits_for_what_is_under_way() {
        assert_eq!(
            hand_back(Some(&lease("us", "3")), "us", true),
            Step::Nothing
        );
        let Step::Write(released) = hand_back(Some(&lease("us", "3")), "us", false) else {
            panic!("it is released")
        };
        assert_eq!(released.holder, "");
        assert_eq!(
            hand_back(Some(&lease("karpenter", "3")), "us", false),
            Step::Nothing
        );
    }
}
