//! Whether a node has what was bought (spec/lifecycle §25.3). Nothing acts on it; people should know.

use api::conditions::{ConditionSet, types::CONSISTENT_STATE_FOUND, types::INITIALIZED};
use model::{node::Node, node_claim::NodeClaim, resources::amount_text};

/// A node may have less than its type promises, but not below this.
const LEAST_PERCENT: i128 = 90;

/// What is amiss, in words.
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
