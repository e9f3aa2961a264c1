//! Counters and durations of turns, under Karpenter's names and labels (docs/spec/lifecycle.md#metrics).

mod cloud;
mod disruption;
mod interruption;
mod lifecycle;
mod troubles;

use std::collections::BTreeMap;

use api::names::annotation;
use jiff::SignedDuration;
use model::{Action, ClusterName, Lane, NanosPerHour, Plan, plan::Launch};
use ports::{
    ClusterError,
    metrics::{Measured, Metric},
};

pub(crate) use self::{
    cloud::{of_ending, of_launching},
    disruption::{
        moving, of_command, of_decision, of_deletion_cost, of_disruption, of_failed_validation,
        of_forced_repair, of_judged, of_rollback, of_search,
    },
    interruption::of_interruption,
    lifecycle::{of_finished_claim, of_finished_node, of_transitions},
    troubles::{AlarmCounts, INSUFFICIENT_CAPACITY, publish_alarm_counts, publish_silent},
};
use crate::World;

/// Metrics that are published only to a cluster's relay: each would cost in CloudWatch, which has those of Lambda and SQS
/// instead.
const RELAY_ONLY: [&str; 7] = [
    "karpenter_cloudprovider_duration_seconds",
    "karpenter_consolidation_moves_total",
    "karpenter_consolidation_score",
    "karpenter_interruption_deleted_messages_total",
    "karpenter_interruption_instance_status_unhealthy_total",
    "karpenter_interruption_message_queue_duration_seconds",
    "karpenter_scheduler_scheduling_duration_seconds",
];

/// Publishes a turn's metrics, summed by series.
pub(crate) fn publish(world: &World, cluster: &ClusterName, mut metrics: Vec<Metric>) {
    metrics.retain(|metric| !RELAY_ONLY.contains(&metric.name));
    if metrics.is_empty() {
        return;
    }
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for metric in metrics {
        match metric.value {
            Measured::Count(count) => {
                *counts.entry((metric.name, metric.labels)).or_default() += count;
            }
            Measured::Duration(_) | Measured::Value(_) | Measured::PricePerHour(_) => {
                all.push(metric)
            }
        }
    }
    let counted = counts.into_iter().map(|((name, labels), count)| Metric {
        name,
        labels,
        value: Measured::Count(count),
    });
    all.splice(..0, counted);
    world
        .metrics
        .publish(Some(cluster), world.clock.now(), &all);
}

/// Counts events that interrupt no node of any cluster, by reason: an unknown version, or an instance of no registered cluster.
pub(crate) fn publish_ignored(world: &World, ignored: &BTreeMap<&'static str, u64>) {
    let metrics = ignored.iter().map(|(why, count)| Metric {
        name: "whittle_interruptions_ignored_total",
        labels: [("why", (*why).to_owned())].into(),
        value: Measured::Count(*count),
    });
    let metrics: Vec<Metric> = metrics.collect();
    if !metrics.is_empty() {
        world.metrics.publish(None, world.clock.now(), &metrics);
    }
}

/// Counts a sweep's findings that need a person: the stack has an alarm on it.
pub(crate) fn publish_alarms(world: &World, alarms: usize) {
    if alarms > 0 {
        let value = Measured::Count(u64::try_from(alarms).unwrap_or(u64::MAX));
        let metric = Metric {
            name: "whittle_alarms_total",
            labels: BTreeMap::new(),
            value,
        };
        world.metrics.publish(None, world.clock.now(), &[metric]);
    }
}

/// Publishes the current price of all clusters' nodes; nothing if there are none.
pub(crate) fn publish_spending(world: &World, price: NanosPerHour) {
    if price > NanosPerHour(0) {
        let metric = Metric {
            name: "whittle_dollars_per_hour",
            labels: BTreeMap::new(),
            value: Measured::PricePerHour(price),
        };
        world.metrics.publish(None, world.clock.now(), &[metric]);
    }
}

/// Reason of NodeClaims created for pods, or because a static NodePool lacks them.
pub(crate) const PROVISIONED: &str = "provisioned";

/// NodeClaims that a committed plan creates, for this reason.
pub(crate) fn of_launches(plan: &Plan, reason: &str) -> Vec<Metric> {
    let launches = plan.actions.iter();
    let launches = launches.filter_map(|planned| {
        let Action::Launch(launch) = &planned.action else {
            return None;
        };
        Some(of_launch(launch, reason))
    });
    launches.collect()
}

pub(crate) fn of_launch(launch: &Launch, reason: &str) -> Metric {
    let relaxed = launch.annotations.get(annotation::MIN_VALUES_RELAXED);
    let relaxed = relaxed.is_some_and(|relaxed| relaxed == "true");
    count(
        "karpenter_nodeclaims_created_total",
        [
            ("reason", reason.to_owned()),
            ("nodepool", launch.node_pool.to_string()),
            ("min_values_relaxed", relaxed.to_string()),
        ],
    )
}

/// The API server's answer to an eviction request, as its status code; `None` without an answer.
pub(crate) fn of_eviction(answer: Result<(), &ClusterError>) -> Option<Metric> {
    let code = match answer {
        Ok(()) => "200",
        Err(ClusterError::NotFound { .. }) => "404",
        Err(ClusterError::Conflict { .. }) => "409",
        Err(ClusterError::Refused { .. } | ClusterError::Throttled { .. }) => "429",
        Err(ClusterError::Invalid { .. } | ClusterError::Admission { .. }) => "500",
        Err(ClusterError::Denied { .. }) => "403",
        Err(
            ClusterError::Unavailable { .. }
            | ClusterError::KindMissing { .. }
            | ClusterError::NoCluster { .. },
        ) => return None,
    };
    Some(count(
        "karpenter_pods_eviction_requests_total",
        [("code", code.to_owned())],
    ))
}

pub(crate) fn of_drained_pod(reason: &str) -> Metric {
    count(
        "karpenter_pods_drained_total",
        [("reason", reason.to_owned())],
    )
}

/// Duration of planning or validating in a lane.
pub(crate) fn of_planning(lane: Lane, took: SignedDuration) -> Metric {
    timed(
        "karpenter_scheduler_scheduling_duration_seconds",
        [("controller", lane.as_str().to_owned())],
        took,
    )
}

fn label_value(labels: &BTreeMap<String, String>, key: &str) -> String {
    labels.get(key).cloned().unwrap_or_default()
}

fn count(name: &'static str, labels: impl IntoIterator<Item = (&'static str, String)>) -> Metric {
    Metric {
        name,
        labels: labels.into_iter().collect(),
        value: Measured::Count(1),
    }
}

fn timed(
    name: &'static str,
    labels: impl IntoIterator<Item = (&'static str, String)>,
    took: SignedDuration,
) -> Metric {
    Metric {
        name,
        labels: labels.into_iter().collect(),
        value: Measured::Duration(took.max(SignedDuration::ZERO)),
    }
}

#[cfg(test)]
mod tests;
