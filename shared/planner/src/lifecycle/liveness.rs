//! NodeClaims that get nowhere are given up (spec/lifecycle §7).

use api::conditions::types::{LAUNCHED, REGISTERED};
use jiff::{SignedDuration, Timestamp};
use model::node_claim::NodeClaim;

/// From the Launched condition's last transition, which is normally the NodeClaim's creation.
const LAUNCH_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// The same for the Registered condition.
const REGISTRATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// Why the NodeClaim must be deleted now: upstream's metric reason, and words for people.
pub(super) fn overdue(claim: &NodeClaim, now: Timestamp) -> Option<(&'static str, &'static str)> {
    if deadline(claim)? > now {
        None
    } else if claim.is_true(LAUNCHED) {
        Some((
            "registration_timeout",
            "its node did not join the cluster within 15 minutes",
        ))
    } else {
        Some((
            "launch_timeout",
            "its instance was not launched within 5 minutes",
        ))
    }
}

/// When the NodeClaim will have waited too long for its next step; `None` once it is registered.
pub(super) fn deadline(claim: &NodeClaim) -> Option<Timestamp> {
    if claim.is_true(REGISTERED) {
        return None;
    }
    let (kind, timeout) = if claim.is_true(LAUNCHED) {
        (REGISTERED, REGISTRATION_TIMEOUT)
    } else {
        (LAUNCHED, LAUNCH_TIMEOUT)
    };
    let since = claim
        .condition(kind)
        .map(|condition| condition.last_transition)
        .or(claim.created_at)?;
    since.checked_add(timeout).ok()
}
