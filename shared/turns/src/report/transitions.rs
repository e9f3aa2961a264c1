//! Transitions of NodeClaims' conditions, for events and metrics.

use model::{
    node::ConditionStatus,
    node_claim::{Condition, NodeClaim},
    plan::NodeClaimUpdate,
};

/// A condition whose status changes.
pub(crate) struct Transition<'a> {
    pub(crate) before: ConditionStatus,
    pub(crate) after: &'a Condition,
}

/// Conditions whose status an update changes.
pub(crate) fn transitions<'a>(
    claim: &NodeClaim,
    update: &'a NodeClaimUpdate,
) -> Vec<Transition<'a>> {
    let changed = update.conditions.iter().filter_map(|after| {
        let before = claim
            .condition(&after.kind)
            .map_or(ConditionStatus::Unknown, |before| before.status);
        (before != after.status).then_some(Transition { before, after })
    });
    changed.collect()
}
