//! Node failures that the clusters of an account share with each other
//! (docs/disruption.md#failures-that-several-clusters-share).

use std::{collections::BTreeSet, fmt};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ids::ClusterName;

/// Row `…#EVIDENCE` / cluster: failures common to a large share of the cluster's nodes with the same AMI, instance type
/// or zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub cluster: ClusterName,
    /// At most [`Self::FAILURES_MAX`] entries.
    pub failures: BTreeSet<Failure>,
    /// Time at which the row lapses unless the cluster renews it.
    pub until: Timestamp,
}

/// A failing node condition, and the property that the affected nodes share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// Type and status of a condition, such as `Ready=Unknown`.
    pub condition: String,
    pub shared: Shared,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Shared {
    /// AMI id.
    Image(String),
    InstanceType(String),
    /// Zone name.
    Zone(String),
}

impl Evidence {
    /// Upper bound on the failures in a cluster's row, so that one query can read the rows of 200 clusters.
    pub const FAILURES_MAX: usize = 32;
    const TTL: SignedDuration = SignedDuration::from_hours(1);
    /// Unchanged evidence is renewed only when less than this is left of it, to save writes.
    const RENEWED_BEFORE: SignedDuration = SignedDuration::from_mins(30);

    /// The row to write for a cluster with these failures; `None` if the existing row already says so.
    pub fn after(
        before: Option<&Self>,
        cluster: &ClusterName,
        mut failures: BTreeSet<Failure>,
        now: Timestamp,
    ) -> Option<Self> {
        while failures.len() > Self::FAILURES_MAX {
            failures.pop_last();
        }
        let stands = before.filter(|before| before.until > now);
        let says_so = match stands {
            None => failures.is_empty(),
            Some(stands) => {
                let left = stands.until.duration_since(now);
                let is_fresh = failures.is_empty() || left > Self::RENEWED_BEFORE;
                stands.failures == failures && is_fresh
            }
        };
        (!says_so).then(|| Self {
            cluster: cluster.clone(),
            failures,
            until: now.saturating_add(Self::TTL).unwrap_or(now),
        })
    }
}

/// Formats a phrase that follows a noun for nodes, as in `nodes with AMI ami-1`.
impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(id) => write!(f, "with AMI {id}"),
            Self::InstanceType(name) => write!(f, "of instance type {name}"),
            Self::Zone(name) => write!(f, "in zone {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    fn after(before: Option<&Evidence>, images: &[&str], minutes: i64) -> Option<Evidence> {
        let failures = images.iter().map(|image| Failure {
            condition: "Ready=Unknown".into(),
            shared: Shared::Image((*image).to_owned()),
        });
        Evidence::after(before, &"a".into(), failures.collect(), at(minutes))
    }

    #[test]
    fn evidence_is_written_when_it_changes_and_before_it_lapses() {
        assert_eq!(after(None, &[], 0), None);
        let first = after(None, &["ami-1"], 0).unwrap();
        assert_eq!(first.until, at(60));
        assert_eq!(after(Some(&first), &["ami-1"], 29), None, "fresh");
        assert_eq!(after(Some(&first), &["ami-1"], 30).unwrap().until, at(90));
        assert_eq!(after(Some(&first), &["ami-2"], 1).unwrap().until, at(61));
        let withdrawn = after(Some(&first), &[], 1).unwrap();
        assert!(withdrawn.failures.is_empty());
        assert_eq!(after(Some(&withdrawn), &[], 50), None);
        assert_eq!(after(Some(&first), &[], 60), None, "lapsed by itself");
    }

    #[test]
    fn failures_beyond_the_bound_are_left_out() {
        let images: Vec<String> = (0..40).map(|n| format!("ami-{n}")).collect();
        let images: Vec<&str> = images.iter().map(String::as_str).collect();
        let evidence = after(None, &images, 0).unwrap();
        assert_eq!(evidence.failures.len(), Evidence::FAILURES_MAX);
    }
}
