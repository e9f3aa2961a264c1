//! When to look again at what a NodeClass selects (docs/spec/aws.md#ec2-node-class-refresh).

use api::{
    conditions::types::{
        AMIS_READY, CAPACITY_RESERVATIONS_READY, SECURITY_GROUPS_READY, SUBNETS_READY,
        VALIDATION_SUCCEEDED,
    },
    karpenter::CapacityReservation,
};
use jiff::{SignedDuration, Timestamp};

const SOON: SignedDuration = SignedDuration::from_mins(1);
const LATER: SignedDuration = SignedDuration::from_mins(5);
const VALIDATED: SignedDuration = SignedDuration::from_mins(10);

/// How long what was found stands for a condition; `None` where only a change of the NodeClass asks for another look.
/// Reservations are looked at again when the next of them ends.
pub fn next_look(
    condition: &str,
    found_any: bool,
    reservations: &[CapacityReservation],
    now: Timestamp,
) -> Option<SignedDuration> {
    match condition {
        AMIS_READY | SECURITY_GROUPS_READY if found_any => Some(LATER),
        AMIS_READY | SECURITY_GROUPS_READY | SUBNETS_READY => Some(SOON),
        CAPACITY_RESERVATIONS_READY => {
            let ends = reservations
                .iter()
                .filter_map(|reservation| reservation.end_time);
            ends.map(|end| end.duration_since(now)).chain([SOON]).min()
        }
        VALIDATION_SUCCEEDED => Some(VALIDATED),
        _ => None,
    }
}

/// Whether a reason stands until the NodeClass itself is changed, so that looking again cannot help.
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
