//! Bound on the drain of a node before its reboot.

use api::{
    duration::parse_go_duration,
    names::annotation::{REBOOT_FAILED, REBOOT_GRACE_PERIOD},
};
use jiff::{SignedDuration, Timestamp};
use model::node_claim::NodeClaim;

/// Bound on the drain before a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Within(SignedDuration),
    /// The reboot waits until the drain is complete.
    Never,
}

/// Bound in the NodeClaim's annotation, or the problem with it.
pub(super) fn bound(claim: &NodeClaim) -> Result<Bound, String> {
    let Some(written) = claim.annotations.get(REBOOT_GRACE_PERIOD) else {
        return Ok(Bound::Never);
    };
    match parse_go_duration(written) {
        Some(bound) if !bound.is_negative() => Ok(Bound::Within(bound)),
        Some(_) | None => Err(format!(
            "annotation {REBOOT_GRACE_PERIOD} is \"{written}\": expected a duration such as 10m0s, not below zero"
        )),
    }
}

/// Time after which the pods of a NodeClaim deleted for a failed reboot may be deleted by force.
pub(in crate::terminate) fn deadline(claim: &NodeClaim) -> Option<Timestamp> {
    claim.annotations.get(REBOOT_FAILED)?;
    match bound(claim) {
        Ok(Bound::Within(bound)) => claim.deleted_at?.checked_add(bound).ok(),
        Ok(Bound::Never) | Err(_) => None,
    }
}
