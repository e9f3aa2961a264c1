//! Schedule of rediscovery for a NodeClass's selectors (docs/spec/aws.md#ec2-node-class-refresh).

use api::{
    conditions::types::{
        AMIS_READY, CAPACITY_RESERVATIONS_READY, SECURITY_GROUPS_READY, SUBNETS_READY,
        VALIDATION_SUCCEEDED,
    },
    karpenter::CapacityReservation,
};
use jiff::{SignedDuration, Timestamp};

const SHORT_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
const LONG_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
const VALIDATION_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// Time until a condition's resources are discovered again; `None` if only a change of the NodeClass asks for it. Reservations are
/// discovered again when the next of them ends.
pub fn next_look(
    condition: &str,
    found_any: bool,
    reservations: &[CapacityReservation],
    now: Timestamp,
) -> Option<SignedDuration> {
    match condition {
        AMIS_READY | SECURITY_GROUPS_READY if found_any => Some(LONG_INTERVAL),
        AMIS_READY | SECURITY_GROUPS_READY | SUBNETS_READY => Some(SHORT_INTERVAL),
        CAPACITY_RESERVATIONS_READY => {
            let ends = reservations
                .iter()
                .filter_map(|reservation| reservation.end_time);
            ends.map(|end| end.duration_since(now))
                .chain([SHORT_INTERVAL])
                .min()
        }
        VALIDATION_SUCCEEDED => Some(VALIDATION_INTERVAL),
        _ => None,
    }
}

/// Whether only a change of the NodeClass itself can clear the reason, so that another discovery is useless.
pub fn is_final(reason: &str) -> bool {
    const FINAL: [&str; 9] = [
        "InvalidAMIFamily",
        "InvalidKubeletConfiguration",
        "InvalidSpec",
        "InvalidUserData",
        "KubeletExpressionEvaluationFailed",
        "KubeletExpressionInvalid",
        "KubeletExpressionsDisabled",
        "TagValidationFailed",
        "UnsupportedKubeletConfiguration",
    ];
    FINAL.contains(&reason)
}
