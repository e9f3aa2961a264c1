//! Karpenter's leader-election Lease: one controller per cluster (docs/protocol.md#b2, docs/design.md#one-brain).

use executor::holder_of;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Uid, ledger::SweepMemory};
use ports::cluster::LeaderLease;

/// Duration of Whittle's Lease: long enough for a sweep to fail many times.
pub(crate) const DURATION: SignedDuration = SignedDuration::from_secs(3600);
/// Age at which the Lease is renewed: each renewal is a write to the API server.
const RENEW_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Sweeps that must have read the same version before another holder's Lease counts as abandoned.
const SWEEPS_MIN: u32 = 2;

/// Action on the Lease in this sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStep {
    /// The Lease needs no change.
    Nothing,
    Write(LeaderLease),
    /// Another holder leads: this stack must not act.
    HeldByOther {
        holder: String,
    },
}

/// Names under which a stack holds leader Leases.
pub(crate) struct LeaseHolder {
    /// Name of the stack, the registry entry and the API server.
    own: String,
    /// Name from versions that named no clusters, and prefix of this entry's names for other API servers, from where a Lease
    /// may have been restored.
    former: (String, String),
}

impl LeaseHolder {
    pub(crate) fn new(stack: &str, cluster: &ClusterName, uid: &Uid) -> Self {
        Self {
            own: holder_of(stack, cluster, uid),
            former: (stack.to_owned(), format!("{stack}/{cluster}/")),
        }
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.own == name
    }

    fn held_as(&self, name: &str) -> bool {
        self.former.0 == name || name.starts_with(&self.former.1)
    }

    /// Predicate for names to give up: the own one, and the former ones if this is the cluster's only entry.
    pub(crate) fn or_former(&self, is_only: bool) -> impl Fn(&str) -> bool {
        move |name| self.is_named(name) || (is_only && self.held_as(name))
    }
}

/// Takes a free or abandoned Lease of an active cluster, or renews its own.
pub(crate) fn take_or_renew(
    lease: Option<&LeaderLease>,
    holder: &LeaseHolder,
    memory: &mut SweepMemory,
    now: Timestamp,
) -> LeaseStep {
    let ours = |version: Option<String>| {
        LeaseStep::Write(LeaderLease {
            holder: holder.own.clone(),
            renewed_at: Some(now),
            duration_seconds: DURATION.as_secs(),
            resource_version: version,
        })
    };
    let Some(lease) = lease else {
        return ours(None);
    };
    if holder.is_named(&lease.holder) {
        (
            memory.lease_version,
            memory.lease_since,
            memory.lease_sweeps,
        ) = (None, None, 0);
        let age = lease.renewed_at.map(|at| now.duration_since(at));
        return if age.is_none_or(|age| age >= RENEW_AFTER) {
            ours(lease.resource_version.clone())
        } else {
            LeaseStep::Nothing
        };
    }
    if lease.holder.is_empty() || holder.held_as(&lease.holder) {
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
    LeaseStep::HeldByOther {
        holder: lease.holder.clone(),
    }
}

/// Releases the own Lease of a cluster in shadow mode, once this stack has no work in progress there.
pub(crate) fn give_up(
    lease: Option<&LeaderLease>,
    is_ours: impl Fn(&str) -> bool,
    busy: bool,
) -> LeaseStep {
    match lease {
        Some(lease) if is_ours(&lease.holder) && !busy => LeaseStep::Write(LeaderLease {
            holder: String::new(),
            renewed_at: lease.renewed_at,
            duration_seconds: 1,
            resource_version: lease.resource_version.clone(),
        }),
        Some(_) | None => LeaseStep::Nothing,
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

    fn own_holder() -> LeaseHolder {
        LeaseHolder::new("us", &"demo".into(), &"u".into())
    }

    fn takes(step: &LeaseStep) -> bool {
        matches!(step, LeaseStep::Write(lease) if lease.holder == "us/demo/u")
    }

    #[test]
    fn b2_lease_of_another_holder_is_taken_after_two_sweeps_past_its_duration() {
        let mut memory = SweepMemory::default();
        let karpenter = lease("karpenter-7d", "7");
        let mut is_taken = |lease: &LeaderLease, now| {
            takes(&take_or_renew(
                Some(lease),
                &own_holder(),
                &mut memory,
                at(now),
            ))
        };
        assert!(
            !is_taken(&karpenter, 100),
            "seen for the first time, however old it claims to be"
        );
        assert!(!is_taken(&karpenter, 115), "not past its own duration");
        assert!(
            !is_taken(&lease("karpenter-7d", "8"), 160),
            "it was renewed"
        );
        assert!(!is_taken(&lease("karpenter-7d", "8"), 170));
        assert!(is_taken(&lease("karpenter-7d", "8"), 220));
    }

    #[test]
    fn free_or_own_lease_is_held() {
        let mut memory = SweepMemory::default();
        assert!(takes(&take_or_renew(
            None,
            &own_holder(),
            &mut memory,
            at(0)
        )));
        assert!(
            takes(&take_or_renew(
                Some(&lease("", "3")),
                &own_holder(),
                &mut memory,
                at(0)
            )),
            "released"
        );
        assert_eq!(
            take_or_renew(
                Some(&lease("us/demo/u", "3")),
                &own_holder(),
                &mut memory,
                at(599)
            ),
            LeaseStep::Nothing
        );
        assert!(takes(&take_or_renew(
            Some(&lease("us/demo/u", "3")),
            &own_holder(),
            &mut memory,
            at(600)
        )));
    }

    #[test]
    fn former_name_of_own_lease_is_replaced_and_lease_of_another_entry_is_respected() {
        let mut memory = SweepMemory::default();
        let mut step = |holder: &str| {
            let lease = lease(holder, "3");
            take_or_renew(Some(&lease), &own_holder(), &mut memory, at(0))
        };
        assert!(takes(&step("us")));
        assert!(takes(&step("us/demo/of-the-former-cluster")));
        assert!(matches!(step("us/demo2/u"), LeaseStep::HeldByOther { .. }));
        assert!(matches!(
            step("other/demo/u"),
            LeaseStep::HeldByOther { .. }
        ));
    }

    #[test]
    fn b2_lease_is_given_up_only_without_work_under_way() {
        assert_eq!(
            give_up(
                Some(&lease("us/demo/u", "3")),
                own_holder().or_former(true),
                true
            ),
            LeaseStep::Nothing
        );
        let LeaseStep::Write(released) = give_up(
            Some(&lease("us/demo/u", "3")),
            own_holder().or_former(true),
            false,
        ) else {
            panic!("it is released")
        };
        assert_eq!(released.holder, "");
        assert_eq!(
            give_up(
                Some(&lease("karpenter", "3")),
                own_holder().or_former(true),
                false
            ),
            LeaseStep::Nothing
        );
    }
}
