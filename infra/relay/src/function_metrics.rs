//! Series of the functions about the cluster, for `/metrics`: under Karpenter's names, from a ConfigMap. Series that the relay measured
//! itself are shown among them.
//!
//! Nothing else here depends on it. A document that cannot be read is counted as such, and its series are missing.

mod durations;
mod follow;
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
pub use follow::follow;
pub(crate) use help::help;

/// What documents may tell of; the relay's own names are its own.
const PREFIXES: [&str; 2] = ["karpenter_", "operator_"];

/// The documents as they were last seen.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// By function; `None` of one that cannot be read.
    documents: BTreeMap<String, Option<Status>>,
    /// Why there may be newer ones.
    trouble: Option<String>,
}

pub(crate) type Labels = Vec<(String, String)>;
type Counters = BTreeMap<String, Family<Labels, Counter<f64, AtomicU64>>>;
type Gauges = BTreeMap<String, Family<Labels, Gauge<f64, AtomicU64>>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DocumentLabels {
    document: String,
}

impl Told {
    /// Reads the `data` of the ConfigMap.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let documents = data.iter().map(|(document, text)| {
            let status = Status::read(text);
            if let Err(error) = &status {
                warn!(document, %error, "what a function tells cannot be shown");
            }
            (document.clone(), status.ok())
        });
        Self {
            documents: documents.collect(),
            trouble: None,
        }
    }

    /// Notes why nothing newer is seen; what was seen goes on being shown.
    pub(crate) fn set_trouble(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    /// How it is doing, for people.
    pub fn doing(&self) -> String {
        match (&self.trouble, self.documents.len()) {
            (Some(trouble), _) => format!("failing: {trouble}"),
            (None, 0) => "nothing told".to_owned(),
            (None, documents) => format!("told by {documents} functions"),
        }
    }

    /// Adds all series and those that the relay measured itself, but for metrics that are shown otherwise: counters and histograms of the
    /// same series are summed up, of gauges the last stands.
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
                    // The encoder writes the suffix itself.
                    let name = name.strip_suffix("_total").unwrap_or(&name).to_owned();
                    let family = counters.entry(name).or_default();
                    let more = series.value.max(0.0);
                    family
                        .get_or_create(&labels_of(&series.labels))
                        .inc_by(more);
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
        // A name is of one type.
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
            let help = "1 for what a function tells where this relay cannot read it: upgrade the chart, or the stack";
            registry.register("whittle_status_unreadable", help, unreadable);
        }
    }

    /// Histograms of this name, those of the same labels summed up.
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

/// `None` for what is no business of theirs.
fn name(told: &str) -> Option<String> {
    let is_ours = |prefix: &&str| told.starts_with(*prefix);
    PREFIXES.iter().any(is_ours).then(|| word(told))
}

fn labels_of(labels: &BTreeMap<String, String>) -> Labels {
    let labels = labels.iter();
    // Two names may become one, which may not be there twice.
    let labels: BTreeMap<String, String> = labels
        .map(|(name, value)| (word(name), value.clone()))
        .collect();
    labels.into_iter().collect()
}

/// As Prometheus wants names of metrics and labels: letters, digits and `_`, and no digit first.
fn word(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let word: String = name.chars().map(letter).collect();
    match word.starts_with(|first: char| first.is_ascii_digit()) || word.is_empty() {
        true => format!("_{word}"),
        false => word,
    }
}

#[cfg(test)]
mod tests;
