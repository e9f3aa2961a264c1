use std::collections::BTreeMap;
use std::fmt;

use model::status::Durations;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::Labels;

/// One family of histograms that others have counted: the library's own count what they observe themselves.
#[derive(Debug, Default)]
pub(crate) struct Histograms(BTreeMap<Labels, Durations>);

impl Histograms {
    /// Two that have other bounds cannot be summed up: the first stands, until the functions are of one version again.
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

/// The value that this share of all observations is not above, between the bounds of its bucket in proportion.
#[expect(
    clippy::cast_precision_loss,
    reason = "no relay sees so many observations"
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
    // Above all bounds: nothing more is known.
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
