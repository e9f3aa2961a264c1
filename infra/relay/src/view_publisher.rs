//! Publication of the view of pods: when its next version is put into the bucket, and which version wakes may name.

use std::time::Duration;

use jiff::Timestamp;
use model::{ClusterName, PodKey, view::ViewPointer};
use view::{Publisher, ViewVersion};

use crate::counters::Counters;
use crate::relay::Event;

/// Upper bound on the delay of wakes for the view that they concern; without it the function lists pods.
const WAKE_DELAY_MAX: Duration = Duration::from_millis(500);
/// Minimum time between versions that only contain pods that moved, because every version costs. Unschedulable pods are published
/// immediately.
const SPACING: Duration = Duration::from_secs(5);
/// Age at which a full state replaces the previous one: the bucket keeps objects for a day.
const FULL_STATE_AGE_MAX: Duration = Duration::from_hours(6);
/// Delay after a version that could not be stored.
const RETRY_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct ViewPublisher {
    publisher: Publisher,
    /// Counters of the stored version, and of the one in flight with its start.
    stored_counters: Counters,
    in_flight: Option<(Counters, Duration)>,
    last: Option<Duration>,
    /// The stored full state, with its time.
    full: Option<(u64, Duration)>,
    retry_at: Duration,
}

impl ViewPublisher {
    pub fn new(cluster: ClusterName, epoch: String) -> Self {
        Self {
            publisher: Publisher::new(cluster, epoch),
            stored_counters: Counters::default(),
            in_flight: None,
            last: None,
            full: None,
            retry_at: Duration::ZERO,
        }
    }

    /// Updates the view from an observation of pods. Takes the complete pods out of it.
    pub fn observe(&mut self, event: &mut Event) {
        match event {
            Event::ListBegun => self.publisher.begin_list(),
            Event::Page(objects) => {
                for pod in objects
                    .iter_mut()
                    .filter_map(|observed| observed.pod.take())
                {
                    self.publisher.upsert(*pod);
                }
            }
            Event::ListEnded => self.publisher.end_list(),
            Event::Changed(observed) => match observed.pod.take() {
                Some(pod) => self.publisher.upsert(*pod),
                None => self.publisher.remove(&key(&observed.name)),
            },
            Event::Deleted(observed) => self.publisher.remove(&key(&observed.name)),
            Event::Bookmark | Event::Missing | Event::Failed(_) => {}
        }
    }

    /// Returns the version to be stored now, if due wakes need one.
    pub fn take(
        &mut self,
        pods_wait: bool,
        others_wait: bool,
        counters: &Counters,
        now: Duration,
    ) -> Option<ViewVersion> {
        let is_old = self
            .full
            .is_some_and(|(_, since)| now >= since + FULL_STATE_AGE_MAX);
        if is_old && self.in_flight.is_none() {
            self.publisher.renew();
        }
        let is_spaced = self.last.is_none_or(|last| now >= last + SPACING);
        let is_wanted = is_old || pods_wait || others_wait && is_spaced;
        if !is_wanted || self.in_flight.is_some() || now < self.retry_at || !self.publisher.is_due()
        {
            return None;
        }
        match self.publisher.issue() {
            Ok(issue) => {
                self.in_flight = Some((counters.clone(), now));
                Some(issue)
            }
            Err(error) => {
                tracing::warn!(%error, "version of the pod view cannot be encoded; retrying");
                self.failed(now);
                None
            }
        }
    }

    pub fn stored(&mut self) {
        self.publisher.stored();
        if let Some((counters, started_at)) = self.in_flight.take() {
            self.stored_counters = counters;
            self.last = Some(started_at);
            let full = self.publisher.latest().map(|(_, full)| full);
            if full != self.full.map(|(full, _)| full) {
                self.full = full.map(|full| (full, started_at));
            }
        }
    }

    pub fn failed(&mut self, now: Duration) {
        self.publisher.give_up();
        self.in_flight = None;
        self.retry_at = now + RETRY_DELAY;
    }

    /// Returns whether wakes wait for a version in flight.
    pub fn holds(&self, now: Duration) -> bool {
        self.held_until().is_some_and(|until| now < until)
    }

    pub fn held_until(&self) -> Option<Duration> {
        let (_, started_at) = self.in_flight.as_ref()?;
        Some(*started_at + WAKE_DELAY_MAX)
    }

    /// Returns a pointer to the stored version.
    pub fn pointer(&self, at: Timestamp) -> Option<ViewPointer> {
        let (base, full) = self.publisher.latest()?;
        Some(ViewPointer {
            epoch: self.publisher.epoch().to_owned(),
            version: base.version,
            full,
            digest: base.digest.clone(),
            at,
            counters: self
                .stored_counters
                .iter()
                .map(|(lane, count)| (lane.to_string(), count))
                .collect(),
        })
    }
}

/// Parses `namespace/name`.
fn key(name: &str) -> PodKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    PodKey::new(namespace, name)
}
