//! Repair policies of AWS, as data: the node conditions that count, and how long they are tolerated.

use jiff::SignedDuration;
use model::node::ConditionStatus;

/// Repair policy for a node condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Type of the condition.
    pub(super) condition: &'static str,
    pub(super) status: ConditionStatus,
    pub(super) reasons: Reasons,
    /// Time that the condition must have lasted.
    pub(crate) toleration: SignedDuration,
    /// Bound on the drain: zero deletes pods by force immediately, `None` leaves it to the NodeClaim.
    pub(super) drain_bound: Option<SignedDuration>,
    /// Higher priorities are repaired first.
    pub(super) priority: u8,
    pub(crate) action: RepairAction,
}

/// Repair actions, the less disruptive first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RepairAction {
    Reboot,
    Replace,
}

/// Condition reasons that a policy covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reasons {
    /// Reasons without a separate policy, for any condition that some policy covers. Exactly one policy has this.
    Others,
    Any,
    /// Error names that contain one of these NVIDIA XIDs, such as `NvidiaXID79Error`.
    Xid(&'static [&'static str]),
}

/// Policies of the EKS node monitoring agent's conditions and of the kubelet's `Ready`.
pub(crate) const POLICIES: &[Policy] = &[
    ready(
        ConditionStatus::False,
        Reasons::Others,
        SignedDuration::from_mins(10),
    ),
    // The kubelet does not report, so pods would never terminate.
    ready(ConditionStatus::Unknown, Reasons::Any, SignedDuration::ZERO),
    Policy {
        action: RepairAction::Reboot,
        ..accelerator(&[
            "46", "48", "54", "62", "63", "95", "109", "110", "136", "140", "143", "155", "156",
            "158",
        ])
    },
    accelerator(&["64", "74", "79", "119", "120"]),
    part("AcceleratedHardwareReady"),
    part("StorageReady"),
    part("NetworkingReady"),
    part("KernelReady"),
    part("ContainerRuntimeReady"),
];

const fn ready(status: ConditionStatus, reasons: Reasons, drain_bound: SignedDuration) -> Policy {
    Policy {
        status,
        reasons,
        drain_bound: Some(drain_bound),
        ..part("Ready")
    }
}

/// Policy for NVIDIA GPU errors that do not recover by themselves.
const fn accelerator(numbers: &'static [&'static str]) -> Policy {
    Policy {
        reasons: Reasons::Xid(numbers),
        toleration: SignedDuration::from_mins(10),
        ..part("AcceleratedHardwareReady")
    }
}

/// Policy for a component that the node monitoring agent watches.
const fn part(condition: &'static str) -> Policy {
    Policy {
        condition,
        status: ConditionStatus::False,
        reasons: Reasons::Any,
        toleration: SignedDuration::from_mins(30),
        drain_bound: Some(SignedDuration::from_mins(10)),
        priority: 0,
        action: RepairAction::Replace,
    }
}

impl Policy {
    pub(super) fn covers(&self, condition: &str, status: ConditionStatus) -> bool {
        self.condition == condition && self.status == status
    }

    /// Whether the policy applies to a condition directly. The fallback applies to any reason.
    pub(crate) fn applies(&self, condition: &str, status: ConditionStatus, reason: &str) -> bool {
        let is_meant = self.reasons == Reasons::Others || self.reasons.include(reason);
        self.covers(condition, status) && is_meant
    }
}

impl Reasons {
    pub(super) fn include(self, reason: &str) -> bool {
        match self {
            Self::Others => false,
            Self::Any => true,
            Self::Xid(numbers) => reason.split("XID").skip(1).any(|rest| {
                let end = rest.find(|letter: char| !letter.is_ascii_digit());
                let number = end.and_then(|end| rest.get(..end)).unwrap_or(rest);
                numbers.contains(&number)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xid_matches_whole_numbers_only() {
        let listed = Reasons::Xid(&["46", "140"]);
        for reason in ["NvidiaXID46Error", "GPU-XID140-fault", "XID9XID46"] {
            assert!(listed.include(reason), "{reason}");
        }
        for reason in ["XID460", "XID4", "46", "XID", "DCGM_FI_DEV_XID_ERRORS", ""] {
            assert!(!listed.include(reason), "{reason}");
        }
    }

    #[test]
    fn exactly_one_policy_is_the_fallback() {
        let fallbacks = POLICIES
            .iter()
            .filter(|policy| policy.reasons == Reasons::Others);
        assert_eq!(fallbacks.count(), 1);
        for policy in POLICIES {
            let name = policy.condition;
            assert!(
                policy.priority <= 100 && !policy.toleration.is_negative(),
                "{name}"
            );
            assert!(
                policy.drain_bound.is_some_and(|bound| !bound.is_negative()),
                "{name}"
            );
            let mut alike = POLICIES
                .iter()
                .filter(|other| other.covers(name, policy.status));
            assert!(
                alike.any(|other| matches!(other.reasons, Reasons::Any | Reasons::Others)),
                "{name}"
            );
            let falls_back = policy.reasons == Reasons::Others;
            assert!(
                !falls_back || policy.action == RepairAction::Replace,
                "{name}"
            );
        }
    }
}
