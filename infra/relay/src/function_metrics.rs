//! Metrics of the functions about the cluster, published in a ConfigMap and shown on `/metrics` under Karpenter's names, together
//! with series that the relay measures itself.
//!
//! The rest of the relay does not depend on this module. A document that cannot be decoded is counted, and its series are
//! missing.

mod durations;
pub mod follow;
mod help;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use model::status::{Series, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::warn;

pub(crate) use durations::{Histograms, quantile};
pub(crate) use help::help;

/// Prefixes of series that documents may contain; all other names are reserved for the relay.
const PREFIXES: [&str; 2] = ["karpenter_", "operator_"];

/// The last version of the documents.
#[derive(Clone, Debug, Default)]
pub struct FunctionMetrics {
    /// Documents by function; `None` if the function's document cannot be decoded.
    documents: BTreeMap<String, Option<Status>>,
    /// Error that prevents reading newer documents.
    error: Option<String>,
}

pub(crate) type Labels = Vec<(String, String)>;
type Counters = BTreeMap<String, Family<Labels, Counter<f64, AtomicU64>>>;
type Gauges = BTreeMap<String, Family<Labels, Gauge<f64, AtomicU64>>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DocumentLabels {
    document: String,
}

impl FunctionMetrics {
    /// Decodes the `data` of the ConfigMap.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let documents = data.iter().map(|(document, text)| {
            let status = Status::read(text);
            if let Err(error) = &status {
                warn!(document, %error, "metrics of a function cannot be decoded; they are not exported");
            }
            (document.clone(), status.ok())
        });
        Self {
            documents: documents.collect(),
            error: None,
        }
    }

    /// Records why newer documents cannot be read; the last ones are still shown.
    pub(crate) fn set_error(&mut self, error: String) {
        self.error = Some(error);
    }

    /// Human-readable summary for `/readyz`.
    pub fn summary(&self) -> String {
        match (&self.error, self.documents.len()) {
            (Some(error), _) => format!("failing: {error}"),
            (None, 0) => "none reported".to_owned(),
            (None, documents) => format!("reported by {documents} functions"),
        }
    }

    /// Registers all series of the documents and of the relay's measurements, except metrics in `replaced`. Counters and
    /// histograms of the same series are summed; of gauges, the last value counts.
    pub fn register(&self, measured: &Status, replaced: &[&str], registry: &mut Registry) {
        let (mut counters, mut gauges) = (Counters::new(), Gauges::new());
        let mut histograms: BTreeMap<String, Histograms> = BTreeMap::new();
        let unreadable = Family::<DocumentLabels, Gauge>::default();
        for (document, status) in &self.documents {
            let labels = DocumentLabels {
                document: document.clone(),
            };
            let is_unreadable = i64::from(status.is_none());
            unreadable.get_or_create(&labels).set(is_unreadable);
        }
        for status in self.statuses(measured) {
            for series in &status.counters {
                if let Some(name) = name(&series.name) {
                    // The encoder appends the suffix itself.
                    let name = name.strip_suffix("_total").unwrap_or(&name).to_owned();
                    let family = counters.entry(name).or_default();
                    let value = series.value.max(0.0);
                    family
                        .get_or_create(&labels_of(&series.labels))
                        .inc_by(value);
                }
            }
            for durations in &status.durations {
                if let Some(name) = name(&durations.name) {
                    let family = histograms.entry(name).or_default();
                    family.add(labels_of(&durations.labels), durations);
                }
            }
            for series in &status.gauges {
                if let Some(name) = name(&series.name) {
                    let family = gauges.entry(name).or_default();
                    family
                        .get_or_create(&labels_of(&series.labels))
                        .set(series.value);
                }
            }
        }
        // A metric name has a single type.
        let is_shown = |name: &String| !replaced.contains(&name.as_str());
        histograms.retain(|name, _| !counters.contains_key(name) && is_shown(name));
        gauges.retain(|name, _| is_shown(name));
        gauges.retain(|name, _| !counters.contains_key(name) && !histograms.contains_key(name));
        for (name, family) in counters {
            let help = help(&format!("{name}_total"));
            registry.register(name, help, family);
        }
        for (name, family) in histograms {
            let help = help(&name);
            registry.register(name, help, family);
        }
        for (name, family) in gauges {
            let help = help(&name);
            registry.register(name, help, family);
        }
        if !self.documents.is_empty() {
            let help = "1 for a function whose metrics this relay cannot decode: upgrade the chart, or the stack";
            registry.register("whittle_status_unreadable", help, unreadable);
        }
    }

    /// Histograms of this name; those with the same labels are summed.
    pub(crate) fn histograms(&self, measured: &Status, name: &str) -> Histograms {
        let mut family = Histograms::default();
        for status in self.statuses(measured) {
            let durations = status.durations.iter();
            for durations in durations.filter(|durations| durations.name == name) {
                family.add(labels_of(&durations.labels), durations);
            }
        }
        family
    }

    /// Gauges of this name.
    pub(crate) fn gauges(&self, name: &str) -> impl Iterator<Item = &Series> {
        let all = self.documents.values().flatten();
        let all = all.flat_map(|status| &status.gauges);
        all.filter(move |series| series.name == name)
    }

    fn statuses<'a>(&'a self, measured: &'a Status) -> impl Iterator<Item = &'a Status> {
        self.documents.values().flatten().chain([measured])
    }
}

/// Returns the sanitized metric name; `None` if documents may not contain it.
fn name(reported: &str) -> Option<String> {
    let has_prefix = |prefix: &&str| reported.starts_with(*prefix);
    PREFIXES.iter().any(has_prefix).then(|| sanitize(reported))
}

fn labels_of(labels: &BTreeMap<String, String>) -> Labels {
    let labels = labels.iter();
    // Two names may become the same, which must not occur twice.
    let labels: BTreeMap<String, String> = labels
        .map(|(name, value)| (sanitize(name), value.clone()))
        .collect();
    labels.into_iter().collect()
}

/// Sanitizes a name of a metric or label for Prometheus: letters, digits and `_`, and no digit first.
fn sanitize(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let sanitized: String = name.chars().map(letter).collect();
    match sanitized.starts_with(|first: char| first.is_ascii_digit()) || sanitized.is_empty() {
        true => format!("_{sanitized}"),
        false => sanitized,
    }
}

#[cfg(test)]
mod tests;
