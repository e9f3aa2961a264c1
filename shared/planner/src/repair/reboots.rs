//! Reboot history of a node, which decides whether it may be rebooted again (docs/disruption.md#reboots).

use std::collections::BTreeSet;

use api::{
    conditions::types::{REBOOT_FAILED, REBOOT_SUCCEEDED, REBOOTING},
    names::annotation::REBOOTS,
};
use jiff::{SignedDuration, Timestamp};
use model::{
    node::ConditionStatus,
    node_claim::{Condition, NodeClaim},
    snapshot::Settings,
};

/// Reboot history of a NodeClaim's node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reboots {
    /// Whether a policy that asks for a reboot gets one; otherwise the node is replaced.
    pub(crate) may_reboot: bool,
    /// End of the last successful reboot. Tolerations start again from then.
    pub(crate) last_ended: Option<Timestamp>,
}

/// Time for which reboots count, and for which a failed one forbids further ones.
const COUNTED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// Most reboots of a NodeClaim within that time.
const REBOOTS_MAX: usize = 2;

impl Reboots {
    pub(crate) fn new(claim: &NodeClaim, settings: &Settings, now: Timestamp) -> Self {
        let is_on = settings.feature_gates.get("RebootForRepair") == Some(&true);
        let last = claim.condition(REBOOTING);
        let last = last.filter(|last| last.status == ConditionStatus::False);
        let ended = |reason: &str| {
            let ended = last.filter(|last| last.reason == reason);
            ended.map(|last: &Condition| last.last_transition)
        };
        let has_failed = ended(REBOOT_FAILED).is_some_and(|at| counts(at, now));
        Self {
            may_reboot: is_on && !has_failed && counted(claim, now).count() < REBOOTS_MAX,
            last_ended: ended(REBOOT_SUCCEEDED),
        }
    }
}

/// Value of the annotation with a further reboot at this time. Adding the same reboot twice has no effect.
pub(crate) fn with_another(claim: &NodeClaim, at: Timestamp, now: Timestamp) -> String {
    let all: BTreeSet<String> = counted(claim, now)
        .chain([at])
        .map(|at| format!("{at:.0}"))
        .collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

/// Times of reboots that still count. Values that do not parse are ignored: at worst a node is rebooted once more.
fn counted(claim: &NodeClaim, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let written = claim.annotations.get(REBOOTS).map(String::as_str);
    let instants = written.unwrap_or_default().split(',');
    let instants = instants.filter_map(|text| text.parse::<Timestamp>().ok());
    instants.filter(move |at| counts(*at, now))
}

fn counts(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < COUNTED_FOR
}
