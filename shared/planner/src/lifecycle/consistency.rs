//! Consistency of a node with its instance type (docs/spec/lifecycle.md#consistency). The condition is informational.

use api::conditions::{ConditionSet, types::CONSISTENT_STATE_FOUND, types::INITIALIZED};
use model::{node::Node, node_claim::NodeClaim, resources::amount_text};

/// Least percentage of a promised resource that a node may have.
const LEAST_PERCENT: i128 = 90;

/// Describes the resources that fall short.
pub(super) fn judge(claim: &NodeClaim, node: &Node) -> Vec<String> {
    if node.deleted_at.is_some() || !claim.is_true(INITIALIZED) {
        return Vec::new();
    }
    let requested = claim
        .spec
        .requests
        .iter()
        .filter(|(_, amount)| *amount != 0);
    let compared = requested.filter_map(|(name, _)| {
        let expected = claim.status.capacity.get(name);
        let found = node.capacity.get(name);
        let short = i128::from(found) * 100 < i128::from(expected) * LEAST_PERCENT;
        (expected != 0 && short).then(|| {
            format!(
                "expected {} of resource {name}, but found {} ({}% of expected)",
                amount_text(name, expected),
                amount_text(name, found),
                i128::from(found) * 100 / i128::from(expected),
            )
        })
    });
    compared.collect()
}

pub(super) fn write(issues: &[String], conditions: &mut ConditionSet<'_>) {
    if issues.is_empty() {
        conditions.set_true(CONSISTENT_STATE_FOUND);
    } else {
        conditions.set_false(
            CONSISTENT_STATE_FOUND,
            "ConsistencyCheckFailed",
            "Consistency Check Failed",
        );
    }
}

#[cfg(test)]
mod tests {
    use model::Resources;

    use super::*;
    use crate::fixtures;

    /// Judges a node with `found` percent of its instance type's memory.
    fn amiss(found: i64, change: fn(&mut NodeClaim, &mut Node)) -> Vec<String> {
        let mut claim = fixtures::claim("a", &[INITIALIZED]);
        claim.spec.requests = Resources::from([("memory", 10), ("cpu", 0), ("gpu", 1)]);
        claim.status.capacity = Resources::from([("memory", 100), ("cpu", 1_000)]);
        let mut node = fixtures::node("n", &claim);
        node.capacity = Resources::from([("memory", found), ("gpu", 1)]);
        change(&mut claim, &mut node);
        judge(&claim, &node)
    }

    #[test]
    fn node_with_less_than_ninety_percent_of_its_resources_is_reported() {
        assert_eq!(amiss(100, |_, _| {}), [""; 0]);
        assert_eq!(amiss(90, |_, _| {}), [""; 0]);
        assert_eq!(
            amiss(89, |_, _| {}),
            ["expected 100 of resource memory, but found 89 (89% of expected)"]
        );
    }

    #[test]
    fn deleted_and_uninitialized_nodes_are_not_checked_for_consistency() {
        assert_eq!(
            amiss(1, |claim, _| claim.status.conditions.clear()),
            [""; 0]
        );
        assert_eq!(
            amiss(1, |_, node| node.deleted_at = Some(fixtures::now())),
            [""; 0]
        );
    }
}
