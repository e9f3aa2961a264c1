//! NodeClaims that get nowhere are given up (spec/lifecycle §7).

use api::conditions::types::{LAUNCHED, REGISTERED};
use jiff::{SignedDuration, Timestamp};
use model::node_claim::NodeClaim;

use crate::machine::Ending;

/// How long a NodeClaim may wait for its next step, from the last transition of the condition that waits: normally from its
/// creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub launch: SignedDuration,
    pub registration: SignedDuration,
}

impl Default for Timeouts {
    /// As upstream's.
    fn default() -> Self {
        Self {
            launch: SignedDuration::from_mins(5),
            registration: SignedDuration::from_mins(15),
        }
    }
}

/// What the NodeClaim will have waited too long for, and when; never once it is registered. A launch that began later than
/// the API server's clock says has its full time from then: the clocks may differ by minutes.
pub(super) fn deadline(
    claim: &NodeClaim,
    begun: Option<Timestamp>,
    timeouts: Timeouts,
) -> (Ending, Option<Timestamp>) {
    let (ending, kind, timeout) = if claim.is_true(LAUNCHED) {
        (
            Ending::RegistrationTimeout,
            REGISTERED,
            timeouts.registration,
        )
    } else {
        (Ending::LaunchTimeout, LAUNCHED, timeouts.launch)
    };
    if claim.is_true(REGISTERED) {
        return (ending, None);
    }
    let since = claim
        .condition(kind)
        .map(|condition| condition.last_transition)
        .or(claim.created_at);
    let since = since.max(begun);
    let at = since.and_then(|since| since.checked_add(timeout).ok());
    (ending, at)
}
