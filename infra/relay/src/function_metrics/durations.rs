use std::collections::BTreeMap;
use std::fmt;

use model::status::Durations;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::Labels;

/// A family of histograms with given counts; the histograms of the library only count their own observations.
#[derive(Debug, Default)]
pub(crate) struct Histograms(BTreeMap<Labels, Durations>);

impl Histograms {
    /// Adds a histogram. Histograms with different buckets cannot be summed: the first is kept, until all functions have the same
    /// version.
    pub(super) fn add(&mut self, labels: Labels, more: &Durations) {
        let bounds = more.bounds();
        let empty = || Durations::new(&more.name, more.labels.clone(), &bounds);
        let sum = self.0.entry(labels).or_insert_with(empty);
        if sum.bounds() != bounds {
            return;
        }
        sum.sum += more.sum;
        sum.above = sum.above.saturating_add(more.above);
        for (bucket, (_, count)) in sum.buckets.iter_mut().zip(&more.buckets) {
            bucket.1 = bucket.1.saturating_add(*count);
        }
    }
}

impl Histograms {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Labels, &Durations)> {
        self.0.iter()
    }
}

/// Quantile of all observations, interpolated linearly within its bucket.
#[expect(
    clippy::cast_precision_loss,
    reason = "no relay counts that many observations"
)]
pub(crate) fn quantile(durations: &Durations, share: f64) -> f64 {
    let wanted = share * durations.count() as f64;
    let (mut below, mut from) = (0.0, 0.0);
    for (bound, count) in &durations.buckets {
        let of_bucket = *count as f64;
        if of_bucket > 0.0 && below + of_bucket >= wanted {
            return from + (bound - from) * (wanted - below) / of_bucket;
        }
        (below, from) = (below + of_bucket, *bound);
    }
    // The value is above all bounds, which is all that is known.
    from
}

impl EncodeMetric for Histograms {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        for (labels, durations) in &self.0 {
            let mut buckets = durations.buckets.clone();
            buckets.push((f64::INFINITY, durations.above));
            let mut series = encoder.encode_family(labels)?;
            series.encode_histogram::<Labels>(durations.sum, durations.count(), &buckets, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
