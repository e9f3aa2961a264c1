//! Metrics that the functions publish through a cluster's relay: one document per function, under its name in a
//! ConfigMap.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Name of the ConfigMap, in the namespace of Karpenter's leader Lease.
pub const CONFIG_MAP: &str = "whittle-status";

/// The metrics of one function. Only that function writes its document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    version: u32,
    /// Monotonic counters. The document is their only storage: if it is lost, they restart at zero, as counters of a
    /// restarted process do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Series>,
    /// Monotonic histograms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<Durations>,
    /// Gauges as of the function's last turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gauges: Vec<Series>,
}

/// A series of a metric with Karpenter's name (docs/spec/lifecycle.md#metrics).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// A histogram of durations in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Durations {
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Sum of all observations.
    pub sum: f64,
    /// Upper bounds, ascending, each with its number of observations above the previous bound. Not cumulative.
    pub buckets: Vec<(f64, u64)>,
    /// Number of observations above all bounds.
    pub above: u64,
}

impl Durations {
    pub fn new(name: &str, labels: BTreeMap<String, String>, bounds: &[f64]) -> Self {
        Self {
            name: name.to_owned(),
            labels,
            sum: 0.0,
            buckets: bounds.iter().map(|bound| (*bound, 0)).collect(),
            above: 0,
        }
    }

    pub fn bounds(&self) -> Vec<f64> {
        self.buckets.iter().map(|(bound, _)| *bound).collect()
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum::<u64>() + self.above
    }

    fn observe(&mut self, seconds: f64) {
        self.sum += seconds;
        let mut buckets = self.buckets.iter_mut();
        match buckets.find(|(bound, _)| seconds <= *bound) {
            Some((_, count)) => *count += 1,
            None => self.above += 1,
        }
    }
}

/// A serialized document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStatus {
    pub text: String,
    /// Whether the document is complete.
    pub is_whole: bool,
}

/// Reason why a document cannot be used.
#[derive(Debug, Error)]
pub enum StatusError {
    #[error(
        "the status document has version {found}, but the newest supported version is {known}: upgrade its reader"
    )]
    Newer { found: u32, known: u32 },
    #[error("the status document cannot be parsed")]
    Unreadable(#[from] serde_json::Error),
}

impl Default for Status {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            counters: Vec::new(),
            durations: Vec::new(),
            gauges: Vec::new(),
        }
    }
}

impl Status {
    const VERSION: u32 = 1;
    /// Upper bound on a document's size: six documents share a ConfigMap of at most 1 MiB.
    pub const BYTES_MAX: usize = 160 << 10;

    pub fn read(text: &str) -> Result<Self, StatusError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let newer = |found| StatusError::Newer {
            found,
            known: Self::VERSION,
        };
        let error = match serde_json::from_str::<Self>(text) {
            Ok(status) if status.version <= Self::VERSION => return Ok(status),
            Ok(status) => return Err(newer(status.version)),
            Err(error) => error,
        };
        // A document of a newer version may have another structure.
        match serde_json::from_str(text) {
            Ok(Version { version }) if version > Self::VERSION => Err(newer(version)),
            Ok(_) | Err(_) => Err(error.into()),
        }
    }

    /// Adds to a counter.
    pub fn count(&mut self, name: &str, labels: BTreeMap<String, String>, more: f64) {
        let same = |series: &&mut Series| series.name == name && series.labels == labels;
        match self.counters.iter_mut().find(same) {
            Some(series) => series.value += more,
            None => self.counters.push(Series {
                name: name.to_owned(),
                labels,
                value: more,
            }),
        }
    }

    /// Adds an observation to the histogram with `new`'s name and labels. A histogram with other bounds, as after an
    /// upgrade, is replaced.
    pub fn observe(&mut self, new: Durations, seconds: f64) {
        let same = |durations: &&mut Durations| {
            durations.name == new.name && durations.labels == new.labels
        };
        match self.durations.iter_mut().find(same) {
            Some(durations) => {
                if durations.bounds() != new.bounds() {
                    *durations = new;
                }
                durations.observe(seconds);
            }
            None => {
                let mut durations = new;
                durations.observe(seconds);
                self.durations.push(durations);
            }
        }
    }

    /// Serializes the document. One that would be too large omits its gauges, and if it still is, everything else.
    pub fn keep(&self) -> serde_json::Result<StoredStatus> {
        let text = serde_json::to_string(self)?;
        if text.len() <= Self::BYTES_MAX {
            return Ok(StoredStatus {
                text,
                is_whole: true,
            });
        }
        let counted = Self {
            counters: self.counters.clone(),
            durations: self.durations.clone(),
            ..Self::default()
        };
        let mut text = serde_json::to_string(&counted)?;
        if text.len() > Self::BYTES_MAX {
            text = serde_json::to_string(&Self::default())?;
        }
        Ok(StoredStatus {
            text,
            is_whole: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = "karpenter_nodeclaims_created_total";

    fn labels(pool: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("nodepool".to_owned(), pool.to_owned())])
    }

    fn series(number: usize) -> Series {
        Series {
            name: CREATED.to_owned(),
            labels: labels(&number.to_string()),
            value: 1.0,
        }
    }

    fn read(status: Status) -> (Status, bool) {
        let kept = status.keep().unwrap();
        assert!(kept.text.len() <= Status::BYTES_MAX);
        (Status::read(&kept.text).unwrap(), kept.is_whole)
    }

    #[test]
    fn counters_add_per_series() {
        let mut status = Status::default();
        for (pool, more) in [("a", 1.0), ("b", 2.0), ("a", 3.0)] {
            status.count(CREATED, labels(pool), more);
        }
        let published = status
            .counters
            .iter()
            .map(|series| format!("{}", series.value));
        assert_eq!(published.collect::<Vec<_>>(), ["4", "2"]);
        assert_eq!(read(status.clone()), (status, true));
    }

    #[test]
    fn durations_fall_into_buckets_and_restart_with_other_bounds() {
        let mut status = Status::default();
        let name = "karpenter_nodes_termination_duration_seconds";
        let new = |bounds: &[f64]| Durations::new(name, labels("a"), bounds);
        for seconds in [0.5, 1.0, 1.5, 9.0] {
            status.observe(new(&[1.0, 2.0]), seconds);
        }
        let read = Status::read(&status.clone().keep().unwrap().text).unwrap();
        assert_eq!(read, status);
        let [durations] = &read.durations[..] else {
            panic!("{read:?}")
        };
        assert_eq!(durations.buckets, [(1.0, 2), (2.0, 1)]);
        assert_eq!((durations.above, durations.count()), (1, 4));
        assert!((durations.sum - 12.0).abs() < 1e-9);

        status.observe(new(&[1.0, 4.0]), 3.0);
        assert_eq!(status.durations[0].buckets, [(1.0, 0), (4.0, 1)]);
        assert_eq!(status.durations[0].count(), 1);
    }

    #[test]
    fn oversized_document_omits_gauges_and_keeps_counters() {
        let mut status = Status::default();
        status.count(CREATED, labels("a"), 1.0);
        status.gauges = (0..4_000).map(series).collect();
        let (read, is_whole) = read(status);
        assert_eq!((read.counters.len(), read.gauges.len()), (1, 0));
        assert!(!is_whole);
    }

    #[test]
    fn oversized_counters_restart_at_zero() {
        let status = Status {
            counters: (0..4_000).map(series).collect(),
            ..Status::default()
        };
        assert_eq!(read(status), (Status::default(), false));
    }

    #[test]
    fn newer_and_malformed_documents_are_rejected() {
        let newer = Status::read(r#"{"version": 2, "histograms": []}"#).unwrap_err();
        assert!(newer.to_string().contains("version 2"), "{newer}");
        for garbage in ["", "{", "[]", r#"{"version": 1, "counters": [1]}"#] {
            assert!(Status::read(garbage).is_err(), "{garbage}");
        }
    }
}
