use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, NanosPerHour};

/// Where the measurements of turns go. It never fails a turn: what is lost is missing from a chart.
pub trait Metrics: Send + Sync {
    /// `cluster` is `None` for what concerns the stack as a whole.
    fn publish(&self, cluster: Option<&ClusterName>, at: Timestamp, metrics: &[Metric]);
}

/// Something that happened and was counted or timed, or how things stand, under Karpenter's name for it
/// (docs/spec/lifecycle.md#metrics).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// With Karpenter's prefix, such as `karpenter_nodeclaims_created_total`.
    pub name: &'static str,
    pub labels: BTreeMap<&'static str, String>,
    pub value: Measured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// So many more of a counter.
    Count(u64),
    /// One observation of a histogram.
    Took(SignedDuration),
    /// One observation of a histogram without a unit, in thousandths.
    Scored(u64),
    /// How much it is now, in dollars an hour.
    Costs(NanosPerHour),
}
