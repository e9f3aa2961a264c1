//! Additions to a disruption case besides the command: the conditions that lead to disruption.

use api::conditions::types::{CONSOLIDATABLE, DRIFTED};
use model::{Action, Snapshot, node_claim::NodeClaim, plan::NodeClaimUpdate};
use serde_json::{Value, json};

/// Reconciles every NodeClaim as the lifecycle lane does, and returns the resulting conditions.
pub(super) fn compute_conditions(snapshot: &mut Snapshot) -> Value {
    for planned in planner::lifecycle(snapshot).plan.actions {
        if let Action::UpdateNodeClaim(update) = planned.action {
            let mut claims = snapshot.node_claims.iter_mut();
            if let Some(claim) = claims.find(|claim| claim.name == update.name) {
                apply(&update, claim);
            }
        }
    }
    let rows = snapshot.node_claims.iter().map(|claim| {
        let drifted = claim.condition(DRIFTED).filter(|_| claim.is_true(DRIFTED));
        json!({
            "nodeClaim": claim.name,
            "consolidatable": claim.is_true(CONSOLIDATABLE),
            "drifted": drifted.map_or("", |condition| condition.reason.as_str()),
        })
    });
    rows.collect()
}

fn apply(update: &NodeClaimUpdate, claim: &mut NodeClaim) {
    let conditions = &mut claim.status.conditions;
    let is_about = |kind: &str| [CONSOLIDATABLE, DRIFTED].contains(&kind);
    let changed = update.conditions.iter();
    for condition in changed.filter(|condition| is_about(&condition.kind)) {
        conditions.retain(|known| known.kind != condition.kind);
        conditions.push(condition.clone());
    }
    conditions.retain(|known| !update.clear_conditions.contains(&known.kind));
}
