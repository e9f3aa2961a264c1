//! Durations and transitions that only a watch can measure: pods until they are bound and ready, changes of conditions, and
//! deletions of objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use model::status::{Durations, Status};

use crate::kind::Kind;
use crate::objects::metric_data::{MetricData, ObjectData, PodAmounts, PodData};

/// Counts and durations since the relay started. Pods and conditions that the relay did not observe before are not counted.
#[derive(Debug, Default)]
pub struct Measurements {
    status: Status,
    /// Requests and limits of pods; equal ones are shared by all their pods.
    amounts: BTreeSet<Arc<PodAmounts>>,
    /// Number of entries at which those without pods are removed: twice as many as remained the last time, so that an entry is
    /// checked a few times at most.
    clear_at: usize,
}

/// Minimum number of entries at which unused ones are removed.
const CLEAR_MIN: usize = 10_000;

impl Measurements {
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Records the transition from an object's old to its new state, and completes the new state from the old one.
    pub fn update(&mut self, kind: Kind, old: Option<&MetricData>, new: &mut MetricData) {
        match (old, new) {
            (Some(MetricData::Pod(old)), MetricData::Pod(new)) => {
                self.share(&mut new.amounts);
                self.of_pod(Some(old), new);
            }
            (_, MetricData::Pod(new)) => {
                self.share(&mut new.amounts);
                self.of_pod(None, new);
            }
            (Some(MetricData::Node(old)), MetricData::Node(new)) => {
                self.of_conditions(kind, &old.object, &new.object);
            }
            (Some(MetricData::Other(old)), MetricData::Other(new)) => {
                self.of_conditions(kind, old, new)
            }
            (_, MetricData::Node(_) | MetricData::Other(_)) => {}
        }
    }

    /// Records the deletion of an object whose last state is known. A deletion between two lists is not timed.
    pub fn finish(&mut self, kind: Kind, last: &MetricData, now: Timestamp) {
        let deleted_at = match last {
            MetricData::Node(node) => node.object.deleted_at,
            MetricData::Other(object) => object.deleted_at,
            MetricData::Pod(_) => None,
        };
        if let Some(seconds) = seconds(deleted_at, Some(now)) {
            let name = format!("operator_{}_termination_duration_seconds", kind.singular());
            let new = Durations::new(&name, BTreeMap::new(), &TERMINATIONS);
            self.status.observe(new, seconds);
        }
    }

    fn share(&mut self, amounts: &mut Arc<PodAmounts>) {
        if let Some(known) = self.amounts.get(&*amounts) {
            *amounts = Arc::clone(known);
            return;
        }
        if self.amounts.len() >= self.clear_at.max(CLEAR_MIN) {
            self.amounts
                .retain(|amounts| Arc::strong_count(amounts) > 1);
            self.clear_at = self.amounts.len().saturating_mul(2);
        }
        self.amounts.insert(Arc::clone(amounts));
    }

    fn of_pod(&mut self, old: Option<&PodData>, new: &mut PodData) {
        // A pod of the same name with a later creation time is another pod.
        let old = old.filter(|old| old.created_at == new.created_at);
        let was_unbound = old.is_some_and(|old| old.seen_unbound);
        let was_unready = old.is_some_and(|old| old.seen_unready);
        let details = new.details.as_deref();
        if was_unbound && new.node.is_some() {
            let name = "karpenter_pods_bound_duration_seconds";
            let bound_at = details.and_then(|details| details.bound_at);
            self.observe(name, new.created_at, bound_at);
        }
        if was_unready && new.ready {
            let name = "karpenter_pods_startup_duration_seconds";
            let ready_at = details.and_then(|details| details.ready_at);
            self.observe(name, new.created_at, ready_at);
        }
        new.seen_unbound = new.node.is_none();
        new.seen_unready = !new.ready && (new.seen_unready || was_unready);
    }

    fn of_conditions(&mut self, kind: Kind, old: &ObjectData, new: &ObjectData) {
        for condition in &new.conditions {
            let same = old.conditions.iter().find(|old| old.name == condition.name);
            let Some(before) = same.filter(|before| before.status != condition.status) else {
                continue;
            };
            let labels = |reason: Option<&str>| {
                let mut labels = BTreeMap::from([
                    ("type".to_owned(), condition.name.to_string()),
                    ("status".to_owned(), condition.status.to_string()),
                ]);
                labels.extend(reason.map(|reason| ("reason".to_owned(), reason.to_owned())));
                labels
            };
            let name = kind.singular();
            // The functions count transitions of NodeClaims, with their NodePool.
            if kind != Kind::NodeClaim {
                let name = format!("operator_{name}_status_condition_transitions_total");
                self.status
                    .count(&name, labels(Some(&*condition.reason)), 1.0);
            }
            if let Some(seconds) = seconds(before.since, condition.since) {
                let name = format!("operator_{name}_status_condition_transition_seconds");
                let new = Durations::new(&name, labels(None), &TRANSITIONS);
                self.status.observe(new, seconds);
            }
        }
    }

    fn observe(&mut self, name: &str, from: Option<Timestamp>, to: Option<Timestamp>) {
        if let Some(seconds) = seconds(from, to) {
            let new = Durations::new(name, BTreeMap::new(), &LATENCIES);
            self.status.observe(new, seconds);
        }
    }
}

fn seconds(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<f64> {
    let took = to?.duration_since(from?).as_secs_f64();
    Some(took.max(0.0))
}

/// Histogram buckets in seconds; an instance takes a minute or two to become a node that runs a pod.
const LATENCIES: [f64; 18] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 75.0, 90.0, 120.0, 180.0, 300.0,
    600.0, 1_200.0, 3_600.0,
];

/// Histogram buckets in seconds, those of `karpenter_nodeclaims_termination_duration_seconds`.
const TERMINATIONS: [f64; 12] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0,
];

/// Histogram buckets in seconds, Karpenter's: half a second, doubled each time.
const TRANSITIONS: [f64; 15] = [
    0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0,
    8_192.0,
];
