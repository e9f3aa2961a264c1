//! Timeouts of NodeClaims that do not launch or register (docs/spec/lifecycle.md#liveness).

use api::{
    ConditionSet,
    conditions::types::{LAUNCHED, REGISTERED},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Snapshot,
    ledger::{PauseLevel, Paused},
    node_claim::{Condition, NodeClaim},
};

use crate::machine::Ending;

/// Time that a NodeClaim may take for a step, from the last transition of the step's condition, which is normally its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub launch: SignedDuration,
    pub registration: SignedDuration,
}

impl Default for Timeouts {
    /// Karpenter's timeouts.
    fn default() -> Self {
        Self {
            launch: SignedDuration::from_mins(5),
            registration: SignedDuration::from_mins(15),
        }
    }
}

/// Timeout that a NodeClaim is subject to, and when it ends; never after registration. A launch that began later than the API
/// server's timestamps say has its full time from then, because clocks may differ by minutes.
pub(super) fn deadline(
    claim: &NodeClaim,
    launch_started: Option<Timestamp>,
    timeouts: Timeouts,
) -> (Ending, Option<Timestamp>) {
    let (ending, condition_type, timeout) = if claim.is_true(LAUNCHED) {
        (
            Ending::RegistrationTimeout,
            REGISTERED,
            timeouts.registration,
        )
    } else {
        (Ending::LaunchTimeout, LAUNCHED, timeouts.launch)
    };
    // A pause that prevented the launch has just ended: the timeout starts now.
    if claim.is_true(REGISTERED) || is_paused(claim.condition(LAUNCHED)) {
        return (ending, None);
    }
    let since = claim
        .condition(condition_type)
        .map(|condition| condition.last_transition)
        .or(claim.created_at);
    let since = since.max(launch_started);
    let at = since.and_then(|since| since.checked_add(timeout).ok());
    (ending, at)
}

/// Pause that prevents the launch of a NodeClaim.
pub(super) fn paused<'a>(snapshot: &'a Snapshot, claim: &NodeClaim) -> Option<Paused<'a>> {
    let pool = claim.node_pool();
    let paused = snapshot.paused(pool.as_ref(), PauseLevel::All, snapshot.now);
    paused.filter(|_| claim.status.provider_id.is_empty())
}

/// Reason of `Launched=False` while a pause prevents the launch.
const PAUSED: &str = "Paused";

/// Writes the pause to the condition Launched. A paused launch does not time out.
pub(super) fn write(
    paused: Option<&Paused<'_>>,
    claim: &NodeClaim,
    conditions: &mut ConditionSet<'_>,
) {
    match paused {
        Some(paused) => conditions.set_false(LAUNCHED, PAUSED, &paused.to_string()),
        None if is_paused(claim.condition(LAUNCHED)) => {
            conditions.set_unknown(LAUNCHED, "AwaitingReconciliation", "the pause has ended");
        }
        None => conditions.renew(LAUNCHED),
    }
}

fn is_paused(launched: Option<&Condition>) -> bool {
    launched.is_some_and(|condition| condition.reason == PAUSED)
}
