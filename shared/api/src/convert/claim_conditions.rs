use jiff::Timestamp;
use model::node_claim::{Condition as ModelCondition, NodeClaim};

use crate::conditions::{Condition, ConditionSet, types};
use crate::meta::ObjectMeta;

/// Difference between a NodeClaim's conditions before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionChange {
    /// Conditions that are new or changed.
    pub set: Vec<ModelCondition>,
    pub cleared: Vec<String>,
}

/// Changes the conditions of a NodeClaim by the rules of [`ConditionSet`], and returns the difference.
pub fn change_conditions(
    claim: &NodeClaim,
    now: Timestamp,
    change: impl FnOnce(&mut ConditionSet<'_>),
) -> ConditionChange {
    let metadata = ObjectMeta {
        name: claim.name.0.clone(),
        generation: Some(claim.generation),
        creation_timestamp: claim.created_at,
        deletion_timestamp: claim.deleted_at,
        ..ObjectMeta::default()
    };
    let kinds = types::node_claim();
    let mut conditions: Vec<Condition> = claim.status.conditions.iter().map(Into::into).collect();
    change(&mut ConditionSet::new(
        &kinds,
        &mut conditions,
        &metadata,
        now,
    ));
    let after: Vec<ModelCondition> = conditions.into_iter().map(Into::into).collect();
    let before = &claim.status.conditions;
    let gone = |condition: &&ModelCondition| !after.iter().any(|kept| kept.kind == condition.kind);
    ConditionChange {
        cleared: before
            .iter()
            .filter(gone)
            .map(|condition| condition.kind.clone())
            .collect(),
        set: after
            .into_iter()
            .filter(|condition| !before.contains(condition))
            .collect(),
    }
}
