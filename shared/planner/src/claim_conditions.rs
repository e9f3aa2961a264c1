//! Changes of a NodeClaim's conditions, as an update of the differences.

use api::{
    ObjectMeta,
    conditions::{Condition, ConditionSet, ConditionTypes, types},
};
use jiff::Timestamp;
use model::{node_claim::NodeClaim, plan::NodeClaimUpdate};

/// Changes conditions of `claim` with Karpenter's semantics and returns the differences as an update.
pub(crate) fn changed(
    claim: &NodeClaim,
    now: Timestamp,
    change: impl FnOnce(&mut ConditionSet<'_>),
) -> NodeClaimUpdate {
    let before: Vec<Condition> = claim
        .status
        .conditions
        .iter()
        .map(Condition::from)
        .collect();
    let mut after = before.clone();
    let types: ConditionTypes = types::node_claim();
    change(&mut ConditionSet::new(
        &types,
        &mut after,
        &metadata(claim),
        now,
    ));
    let cleared = before
        .iter()
        .filter(|old| after.iter().all(|new| new.r#type != old.r#type));
    NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
        clear_conditions: cleared.map(|condition| condition.r#type.clone()).collect(),
        conditions: after
            .into_iter()
            .filter(|condition| !before.contains(condition))
            .map(Into::into)
            .collect(),
        ..NodeClaimUpdate::default()
    }
}

/// Whether the update writes anything.
pub(crate) fn is_needed(update: &NodeClaimUpdate) -> bool {
    let untouched = NodeClaimUpdate {
        name: update.name.clone(),
        uid: update.uid.clone(),
        resource_version: update.resource_version.clone(),
        ..NodeClaimUpdate::default()
    };
    *update != untouched
}

fn metadata(claim: &NodeClaim) -> ObjectMeta {
    ObjectMeta {
        generation: Some(claim.generation),
        creation_timestamp: claim.created_at,
        deletion_timestamp: claim.deleted_at,
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use api::conditions::types::{INITIALIZED, LAUNCHED, REGISTERED};

    use super::*;
    use crate::fixtures;

    #[test]
    fn missing_condition_is_unknown_since_creation_of_the_nodeclaim() {
        let claim = fixtures::claim("a", &[]);
        let later = fixtures::now() + jiff::SignedDuration::from_hours(1);
        let update = changed(&claim, later, |_| {});
        let launched = update
            .conditions
            .iter()
            .find(|condition| condition.kind == LAUNCHED);
        let launched = launched.unwrap();
        assert_eq!(launched.status, model::node::ConditionStatus::Unknown);
        assert_eq!(launched.last_transition, fixtures::now());
    }

    #[test]
    fn update_contains_only_changed_conditions_and_the_resource_version_read() {
        let claim = fixtures::claim("a", &[LAUNCHED, REGISTERED]);
        let update = changed(&claim, fixtures::now(), |conditions| {
            conditions.set_true(LAUNCHED);
            conditions.set_true(INITIALIZED);
        });
        let of = (
            update.name.as_str(),
            update.uid.as_str(),
            update.resource_version.as_str(),
        );
        assert_eq!(of, ("a", "uid-a", "1"));
        let kinds = update
            .conditions
            .iter()
            .map(|condition| condition.kind.as_str());
        let kinds: Vec<&str> = kinds.filter(|kind| *kind != "Ready").collect();
        assert_eq!(kinds, [INITIALIZED]);
        let untouched = NodeClaimUpdate {
            name: update.name.clone(),
            uid: update.uid.clone(),
            resource_version: update.resource_version.clone(),
            ..NodeClaimUpdate::default()
        };
        assert!(is_needed(&update) && !is_needed(&untouched));
    }
}
