//! Conditions that make nodes candidates for disruption (docs/spec/lifecycle.md#consolidatable).

use api::conditions::{
    ConditionSet,
    types::{CONSOLIDATABLE, INITIALIZED},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Snapshot,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, NodePool},
};

/// Value of the condition Consolidatable.
pub(super) enum Consolidatable {
    /// The NodePool is gone or static: the condition stays as it is.
    AsIs,
    No,
    /// Not before this time, because of a recent pod event.
    At(Timestamp),
    Yes,
}

pub(super) fn consolidatable(
    snapshot: &Snapshot,
    claim: &NodeClaim,
    last_event: Option<Timestamp>,
) -> Consolidatable {
    let pool = claim
        .node_pool()
        .and_then(|name| snapshot.node_pools.iter().find(|pool| pool.name == name));
    let Some(NodePool {
        replicas: None,
        disruption,
        ..
    }) = pool
    else {
        return Consolidatable::AsIs;
    };
    let ConsolidateAfter::Seconds(seconds) = disruption.consolidate_after else {
        return Consolidatable::No;
    };
    let Some(initialized) = claim
        .condition(INITIALIZED)
        .filter(|_| claim.is_true(INITIALIZED))
    else {
        return Consolidatable::No;
    };
    let quiet_since = last_event.unwrap_or(initialized.last_transition);
    match quiet_since.checked_add(SignedDuration::from_secs(seconds)) {
        Ok(at) if at > snapshot.now => Consolidatable::At(at),
        Ok(_) => Consolidatable::Yes,
        Err(_) => Consolidatable::No,
    }
}

pub(super) fn write(mark: &Consolidatable, conditions: &mut ConditionSet<'_>) {
    match mark {
        Consolidatable::AsIs => {}
        Consolidatable::Yes => conditions.set_true(CONSOLIDATABLE),
        Consolidatable::No | Consolidatable::At(_) => {
            // Consolidatable does not affect readiness, so it can always be cleared.
            let _ = conditions.clear(CONSOLIDATABLE);
        }
    }
}
