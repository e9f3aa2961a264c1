//! Disruption cost of pods and nodes (docs/spec/lifecycle.md#eviction-cost, docs/spec/lifecycle.md#disruption-cost).

use api::names::annotation::{DELETION_COST_WRITTEN, DISRUPTION_COST, POD_DELETION_COST};
use model::{
    pod::Pod,
    snapshot::{Optimize, Settings},
};

use super::deletion_cost::is_on;
use crate::pods::is_reschedulable;

/// Cost of one plain eviction. All costs are in this unit.
pub(super) const EVICTION: i64 = 1 << 27;
/// Cost per point of pod priority.
const PER_PRIORITY: i64 = 1 << 2;
/// Largest cost of a pod, positive or negative, in evictions.
const EVICTIONS_MAX: i64 = 10;

/// Disruption cost of a node: one eviction for the node, plus its pods. Greater than [`EVICTION`] unless the pods cost nothing.
pub(crate) fn of_node(pods: &[&Pod], settings: &Settings) -> i64 {
    let moving = pods.iter().filter(|pod| is_reschedulable(pod));
    EVICTION.saturating_add(moving.map(|pod| of_pod(pod, settings).max(0)).sum())
}

/// Whether a node of this cost has no pods that cost anything to move (docs/spec/lifecycle.md#disruption-cost).
pub(crate) fn is_empty(cost: i64) -> bool {
    cost <= EVICTION
}

/// Cost of evicting a pod, which the annotation `karpenter.sh/disruption-cost` overrides; negative if its owner prefers the
/// eviction (docs/spec/v1.15.md#disruption-cost).
pub(crate) fn of_pod(pod: &Pod, settings: &Settings) -> i64 {
    let annotation = |name| pod.annotations.get(name);
    let own = annotation(DISRUPTION_COST).and_then(|text| text.parse::<i32>().ok());
    let stated = own.map(i64::from);
    let is_of_owner = |cost: &&String| {
        counts_deletion_cost(settings) && Some(*cost) != annotation(DELETION_COST_WRITTEN)
    };
    let of_owner = annotation(POD_DELETION_COST).filter(is_of_owner);
    let stated = stated.or_else(|| whole(of_owner?));
    let priority = i64::from(pod.priority.unwrap_or(0)) * PER_PRIORITY;
    let cost = EVICTION
        .saturating_add(stated.unwrap_or(0))
        .saturating_add(priority);
    cost.clamp(-EVICTIONS_MAX * EVICTION, EVICTIONS_MAX * EVICTION)
}

/// Karpenter ignores deletion costs while it writes them, because it cannot distinguish its own values from those of owners.
fn counts_deletion_cost(settings: &Settings) -> bool {
    settings.optimize != Optimize::Upstream || !is_on(settings)
}

/// Parses a float as Go does and truncates it. Kubernetes itself accepts integers only.
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

    use super::{super::deletion_cost::GATE, *};
    use crate::fixtures;

    fn settings() -> Settings {
        fixtures::snapshot().settings
    }

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
    fn deletion_cost_and_priority_are_clamped_to_ten_evictions() {
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
                of_pod(&pod(deletion_cost, priority), &settings()),
                cost,
                "{deletion_cost}"
            );
        }
    }

    #[test]
    fn node_is_empty_if_none_of_its_pods_has_a_positive_cost() {
        let (free, dear) = (pod("-134217729", 0), pod("-134217727", 0));
        assert!(
            is_empty(of_node(&[], &settings())) && is_empty(of_node(&[&free, &free], &settings()))
        );
        assert!(
            !is_empty(of_node(&[&free, &dear], &settings())),
            "a pod below nothing offsets no other"
        );
    }

    #[test]
    fn disruption_cost_annotation_overrides_deletion_cost_unless_invalid() {
        for (disruption_cost, cost) in [
            ("134217728", 2 * EVICTION),
            ("-134217728", 0),
            ("2147483648", EVICTION + 1_000),
            ("dear", EVICTION + 1_000),
        ] {
            let mut pod = pod("1000", 0);
            let mut shape = (*pod.shape).clone();
            let text = disruption_cost.to_owned();
            shape.annotations.insert(DISRUPTION_COST.to_owned(), text);
            pod.shape = shape.into();
            assert_eq!(of_pod(&pod, &settings()), cost, "{disruption_cost}");
        }
    }

    #[test]
    fn deletion_cost_written_by_whittle_is_ignored() {
        let mut pod = pod("-5", 0);
        let mut shape = (*pod.shape).clone();
        let written = (DELETION_COST_WRITTEN.to_owned(), "-5".to_owned());
        shape.annotations.extend([written]);
        pod.shape = shape.into();
        assert_eq!(of_pod(&pod, &settings()), EVICTION);
    }

    #[test]
    fn with_optimize_upstream_deletion_costs_count_as_in_karpenter() {
        let (plain, mut own) = (pod("134217728", 0), pod("134217728", 0));
        let mut shape = (*own.shape).clone();
        let stated = (DISRUPTION_COST.to_owned(), "268435456".to_owned());
        shape.annotations.extend([stated]);
        own.shape = shape.into();
        for (optimize, is_written, cost) in [
            (Optimize::Upstream, false, 2 * EVICTION),
            (Optimize::Upstream, true, EVICTION),
            (Optimize::Cost, true, 2 * EVICTION),
        ] {
            let mut settings = settings();
            settings.optimize = optimize;
            let gates = &mut settings.feature_gates;
            gates.insert(GATE.to_owned(), is_written);
            assert_eq!(of_pod(&plain, &settings), cost, "{optimize:?} {is_written}");
            assert_eq!(
                of_pod(&own, &settings),
                3 * EVICTION,
                "{optimize:?} {is_written}"
            );
        }
    }
}
