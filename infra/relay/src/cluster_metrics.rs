//! State of the cluster by the relay's own watches, under Karpenter's names: summed up over nodes and pods that are alike, or a series
//! for each node, pod and object as Karpenter has.

mod conditions;
mod exposition;
mod nodes;
mod pods;

use std::time::Duration;

use jiff::Timestamp;

use crate::kind::Kind;
use crate::relay::Relay;
use crate::told::{Histograms, Told, help, quantile};
use exposition::Exposition;

/// Choice of series, and the clock that ages are taken by.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMetrics {
    pub clock: fn() -> Timestamp,
    /// A series for each node, pod and object, and summaries, as Karpenter has them.
    pub per_object: bool,
}

/// Objects of a kind that have series of their own at most. A node has about forty series of half a KiB, so that an answer ends below
/// 25 MiB.
const OBJECTS_MAX: usize = 1_000;
/// Pods have two or three.
const PODS_MAX: usize = 10_000;

/// Metrics of the functions in whose place series for each node and pod stand, and histograms that are summaries in Karpenter.
const REPLACED: [&str; 8] = [
    OF_WAITING[0],
    OF_WAITING[1],
    OF_WAITING[2],
    "karpenter_nodes_allocatable",
    "karpenter_nodes_total_pod_requests",
    "karpenter_pods_state",
    SUMMARIES[0],
    SUMMARIES[1],
];
/// Numbers of pods that the provisioner tells of where pods wait, and not once they are gone.
const OF_WAITING: [&str; 3] = [
    "karpenter_scheduler_unschedulable_pods_count",
    "karpenter_scheduler_ignored_pods_count",
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
];
const SUMMARIES: [&str; 2] = [
    "karpenter_nodes_termination_duration_seconds",
    "karpenter_pods_startup_duration_seconds",
];
/// Karpenter's.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

impl ClusterMetrics {
    /// Metrics of others that [`ClusterMetrics::write`] tells in another shape.
    pub(crate) fn replaces(self) -> &'static [&'static str] {
        match self.per_object {
            true => &REPLACED,
            false => &OF_WAITING,
        }
    }

    /// Adds all series in the OpenMetrics text format, `since` the relay's start.
    pub(crate) fn write(self, relay: &Relay, told: &Told, since: Duration, text: &mut String) {
        let now = (self.clock)();
        let state = relay.state();
        let mut page = Exposition::new(text);
        let waiting = number(state.waiting());
        for name in OF_WAITING {
            page.gauge(name, help(name));
            for series in told.gauges(name) {
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
                write_summary(name, &told.histograms(state.measured(), name), &mut page);
            }
            page.gauge(
                "whittle_relay_objects_left_out",
                "Objects without series of their own, because there are too many",
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
            "How long not every watch of the relay has been up to date",
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

/// Quantiles of all observations so far: as exact as the histogram's buckets.
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

/// The processor by Go's name for it.
fn goarch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Seconds from then to now; none where then is to come.
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
