use std::collections::BTreeMap;

use ports::metrics::{Measured, Metric};

use crate::{Outcome, Report, World};

/// A turn's counts for the metrics that the stack's alarms watch: one series each for all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AlarmCounts {
    /// Number of waits because of throttling by EC2 or by Whittle's own budget of calls to it.
    pub(crate) throttled: u64,
    /// Launches that failed for lack of capacity.
    pub(crate) insufficient_capacity: u64,
    /// Pods that have waited for a place for long.
    pub(crate) waiting: u64,
}

/// Reason of events about missing capacity.
pub(crate) const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacityError";

/// Publishes the counts of failures of a turn. A turn without failures writes nothing: every series costs.
pub(crate) fn publish_alarm_counts(world: &World, report: &Report) {
    let AlarmCounts {
        throttled,
        insufficient_capacity,
        waiting,
    } = report.alarm_counts;
    let (failed, postponed) = match report.outcome {
        Outcome::Failed(_) => (1, 0),
        Outcome::Postponed(_) => (0, 1),
        Outcome::Done | Outcome::Held | Outcome::Unregistered | Outcome::Elsewhere(_) => (0, 0),
    };
    let counts = [
        ("whittle_turn_errors_total", failed),
        ("whittle_throttled_total", throttled.max(postponed)),
        ("whittle_insufficient_capacity_total", insufficient_capacity),
        ("whittle_pods_waiting_total", waiting),
    ];
    publish(world, counts.into_iter());
}

/// Counts relays that have fallen silent although their cluster has nodes.
pub(crate) fn publish_silent(world: &World, relays: u64) {
    publish(world, [("whittle_relays_silent_total", relays)].into_iter());
}

fn publish(world: &World, counts: impl Iterator<Item = (&'static str, u64)>) {
    let counts = counts.filter(|(_, count)| *count > 0);
    let metrics: Vec<Metric> = counts
        .map(|(name, count)| Metric {
            name,
            labels: BTreeMap::new(),
            value: Measured::Count(count),
        })
        .collect();
    if !metrics.is_empty() {
        world.metrics.publish(None, world.clock.now(), &metrics);
    }
}
