use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, NanosPerHour};

/// Sink for the measurements of turns. Publishing never fails a turn; lost measurements are missing from charts.
pub trait Metrics: Send + Sync {
    /// `cluster` is `None` for metrics of the stack as a whole.
    fn publish(&self, cluster: Option<&ClusterName>, at: Timestamp, metrics: &[Metric]);
}

/// A measurement under Karpenter's metric name (docs/spec/lifecycle.md#metrics).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Includes Karpenter's prefix, such as `karpenter_nodeclaims_created_total`.
    pub name: &'static str,
    pub labels: BTreeMap<&'static str, String>,
    pub value: Measured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Increment of a counter.
    Count(u64),
    /// Observation of a histogram of durations.
    Duration(SignedDuration),
    /// Observation of a histogram without a unit, in thousandths.
    Value(u64),
    /// Value of a gauge in dollars per hour.
    PricePerHour(NanosPerHour),
}
