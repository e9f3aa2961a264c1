//! Metrics of the cluster from the relay's watches, under Karpenter's names: sums over similar nodes and pods, or a series per
//! node, pod and object like Karpenter.

mod conditions;
mod exposition;
mod nodes;
mod pods;

use std::time::Duration;

use jiff::Timestamp;

use crate::function_metrics::{FunctionMetrics, Histograms, help, quantile};
use crate::kind::Kind;
use crate::relay::Relay;
use exposition::Exposition;

/// Choice of series, and the clock for ages.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMetrics {
    pub clock: fn() -> Timestamp,
    /// Whether each node, pod and object has a series, and durations are summaries, like in Karpenter.
    pub per_object: bool,
}

/// Upper bound on objects of a kind with individual series. A node has about forty series of half a KiB, so that a response
/// stays below 25 MiB.
const OBJECTS_MAX: usize = 1_000;
/// Upper bound on pods with individual series, two or three per pod.
const PODS_MAX: usize = 10_000;

/// Metrics of the functions that series per node and pod replace, and histograms that are summaries in Karpenter.
const REPLACED: [&str; 8] = [
    UNSCHEDULABLE_COUNTS[0],
    UNSCHEDULABLE_COUNTS[1],
    UNSCHEDULABLE_COUNTS[2],
    "karpenter_nodes_allocatable",
    "karpenter_nodes_total_pod_requests",
    "karpenter_pods_state",
    SUMMARIES[0],
    SUMMARIES[1],
];
/// Numbers of unschedulable pods, which the provisioner reports only while there are any.
const UNSCHEDULABLE_COUNTS: [&str; 3] = [
    "karpenter_scheduler_unschedulable_pods_count",
    "karpenter_scheduler_ignored_pods_count",
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
];
const SUMMARIES: [&str; 2] = [
    "karpenter_nodes_termination_duration_seconds",
    "karpenter_pods_startup_duration_seconds",
];
/// Quantiles of Karpenter's summaries.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

impl ClusterMetrics {
    /// Metrics of the functions that [`ClusterMetrics::write`] writes in another form.
    pub(crate) fn replaced(self) -> &'static [&'static str] {
        match self.per_object {
            true => &REPLACED,
            false => &UNSCHEDULABLE_COUNTS,
        }
    }

    /// Writes all series in the OpenMetrics text format; `since` is the time since the relay's start.
    pub(crate) fn write(
        self,
        relay: &Relay,
        functions: &FunctionMetrics,
        since: Duration,
        text: &mut String,
    ) {
        let now = (self.clock)();
        let state = relay.state();
        let mut page = Exposition::new(text);
        let waiting = number(state.waiting());
        for name in UNSCHEDULABLE_COUNTS {
            page.gauge(name, help(name));
            for series in functions.gauges(name) {
                let labels = series.labels.iter();
                let labels: Vec<_> = labels
                    .map(|(label, value)| (label.as_str(), value.as_str()))
                    .collect();
                page.sample(&labels, series.value.min(waiting));
            }
        }
        nodes::write(state, self.per_object, now, &mut page);
        pods::write(state, self.per_object, now, &mut page);
        conditions::write(state, self.per_object, now, &mut page);
        if self.per_object {
            for name in SUMMARIES {
                write_summary(
                    name,
                    &functions.histograms(state.measured(), name),
                    &mut page,
                );
            }
            page.gauge(
                "whittle_relay_objects_left_out",
                "Objects without individual series, because their number exceeds the limit",
            );
            for kind in [Kind::Node, Kind::Pod] {
                let most = if kind == Kind::Pod {
                    PODS_MAX
                } else {
                    OBJECTS_MAX
                };
                let left_out = state.count(kind).saturating_sub(most);
                page.sample(&[("resource", kind.resource())], number(left_out));
            }
        }
        page.gauge(
            "karpenter_cluster_state_synced",
            "1 while every watch of the relay is up to date",
        );
        let is_synced = relay.watches().all_current();
        page.sample(&[], number(usize::from(is_synced)));
        page.gauge(
            "karpenter_cluster_state_unsynced_time_seconds",
            "Time since all watches of the relay were last up to date",
        );
        let unsynced = relay.watches().unsynced_for(since);
        page.sample(&[], unsynced.as_secs_f64());
        page.gauge("karpenter_build_info", "The relay's version");
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("goversion", ""),
            ("goarch", goarch()),
            ("commit", ""),
        ];
        page.sample(&labels, 1.0);
    }
}

/// Writes quantiles of all observations so far, as exact as the histogram's buckets.
fn write_summary(name: &str, histograms: &Histograms, page: &mut Exposition<'_>) {
    page.summary(name, help(name));
    for (labels, durations) in histograms.iter() {
        let labels = labels.iter();
        let labels: Vec<(&str, &str)> = labels
            .map(|(label, value)| (label.as_str(), value.as_str()))
            .collect();
        for share in QUANTILES {
            let share_text = share.to_string();
            let labels = [&labels[..], &[("quantile", share_text.as_str())]].concat();
            page.sample(&labels, quantile(durations, share));
        }
        page.sample_of("_sum", &labels, durations.sum);
        let count = usize::try_from(durations.count()).unwrap_or(usize::MAX);
        page.sample_of("_count", &labels, number(count));
    }
}

/// The processor architecture, as named by Go.
fn goarch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Seconds since a time; `None` if the time is in the future.
fn age(since: Option<Timestamp>, now: Timestamp) -> Option<f64> {
    let age = now.duration_since(since?).as_secs_f64();
    Some(age.max(0.0))
}

#[expect(clippy::cast_precision_loss, reason = "no cluster has so many")]
fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
