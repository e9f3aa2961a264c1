//! What it costs to disturb the pods of a node (spec/lifecycle §16.3, §16.4).

use api::names::annotation::POD_DELETION_COST;
use model::pod::Pod;

use crate::pods::is_reschedulable;

/// Costs are counted in units of which so many are one eviction.
pub(super) const EVICTION: i64 = 1 << 27;
/// What priority counts for, in those units.
const PER_PRIORITY: i64 = 1 << 2;
const EVICTIONS_MAX: i64 = 10;

/// Of moving a node's pods elsewhere, that of the node included. More than [`EVICTION`] unless nothing on it matters.
pub(crate) fn of_node(pods: &[&Pod]) -> i64 {
    let moving = pods.iter().filter(|pod| is_reschedulable(pod));
    EVICTION.saturating_add(moving.map(|pod| of_pod(pod).max(0)).sum())
}

/// Whether moving its pods costs nothing (spec/lifecycle §16.4).
pub(crate) fn is_empty(cost: i64) -> bool {
    cost <= EVICTION
}

/// Of evicting a pod: less than nothing where its owner said so.
pub(crate) fn of_pod(pod: &Pod) -> i64 {
    let text = pod.annotations.get(POD_DELETION_COST);
    let deletion = text.and_then(|text| whole(text)).unwrap_or(0);
    let priority = i64::from(pod.priority.unwrap_or(0)) * PER_PRIORITY;
    let cost = EVICTION.saturating_add(deletion).saturating_add(priority);
    cost.clamp(-EVICTIONS_MAX * EVICTION, EVICTIONS_MAX * EVICTION)
}

/// A number as Go reads floats, without what is behind the point: Kubernetes itself takes only whole ones.
fn whole(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole deletion costs are far below 2⁵³; beyond, the clamp decides"
    )]
    (!number.is_nan()).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use model::pod::PodShape;

    use super::*;

    fn pod(deletion_cost: &str, priority: i32) -> Pod {
        let shape = PodShape {
            annotations: [(POD_DELETION_COST.to_owned(), deletion_cost.to_owned())].into(),
            priority: Some(priority),
            ..PodShape::default()
        };
        Pod {
            shape: shape.into(),
            ..Pod::default()
        }
    }

    #[test]
    fn deletion_cost_and_priority_count_up_to_ten_evictions_either_way() {
        for (deletion_cost, priority, cost) in [
            ("0", 0, EVICTION),
            ("-134217728", 0, 0),
            ("-134217727", 0, 1),
            ("0", -(1 << 25), 0),
            ("2147483647", 2_000_000_000, 10 * EVICTION),
            ("-2147483647", -2_000_000_000, -10 * EVICTION),
            ("a lot", 0, EVICTION),
            ("NaN", 0, EVICTION),
            ("1e3", 0, EVICTION + 1_000),
        ] {
            assert_eq!(
                of_pod(&pod(deletion_cost, priority)),
                cost,
                "{deletion_cost}"
            );
        }
    }

    #[test]
    fn a_node_is_empty_if_none_of_its_pods_costs_anything() {
        let (free, dear) = (pod("-134217729", 0), pod("-134217727", 0));
        assert!(is_empty(of_node(&[])) && is_empty(of_node(&[&free, &free])));
        assert!(
            !is_empty(of_node(&[&free, &dear])),
            "a pod below nothing offsets no other"
        );
    }
}
