//! Pods for the functions: when the next version of their view is put into the bucket, and which one wakes may name.

use std::time::Duration;

use jiff::Timestamp;
use model::{ClusterName, PodKey, view::ViewPointer};
use view::{Issue, Publisher};

use crate::counters::Counters;
use crate::relay::Event;

/// Wakes wait for the view that they are about for so long at most; without it the function lists pods.
const HELD_MOST: Duration = Duration::from_millis(500);
/// Pods that wait are told of at once. What only moved is told of as seldom as this, because every version costs.
const SPACING: Duration = Duration::from_secs(5);
/// The bucket keeps objects for a day: long before that a full state takes the place of what is there.
const RENEWED: Duration = Duration::from_hours(6);
/// After a version that could not be stored.
const REST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Published {
    publisher: Publisher,
    /// The counters of the version that stands, and of the one under way.
    standing: Counters,
    drafted: Option<(Counters, Duration)>,
    last: Option<Duration>,
    /// The full state that stands, and since when.
    full: Option<(u64, Duration)>,
    rests_until: Duration,
}

impl Published {
    pub fn new(cluster: ClusterName, epoch: String) -> Self {
        Self {
            publisher: Publisher::new(cluster, epoch),
            standing: Counters::default(),
            drafted: None,
            last: None,
            full: None,
            rests_until: Duration::ZERO,
        }
    }

    /// What a watch of pods told. Whole pods are taken out of it.
    pub fn observe(&mut self, event: &mut Event) {
        match event {
            Event::ListBegun => self.publisher.begin_list(),
            Event::Page(sightings) => {
                for pod in sightings
                    .iter_mut()
                    .filter_map(|sighting| sighting.pod.take())
                {
                    self.publisher.see(*pod);
                }
            }
            Event::ListEnded => self.publisher.end_list(),
            Event::Changed(sighting) => match sighting.pod.take() {
                Some(pod) => self.publisher.see(*pod),
                None => self.publisher.lose(&key(&sighting.name)),
            },
            Event::Deleted(sighting) => self.publisher.lose(&key(&sighting.name)),
            Event::Bookmark | Event::Missing | Event::Failed(_) => {}
        }
    }

    /// The version to be stored now, if wakes that are due wait for one.
    pub fn take(
        &mut self,
        pods_wait: bool,
        others_wait: bool,
        counters: &Counters,
        now: Duration,
    ) -> Option<Issue> {
        let is_old = self.full.is_some_and(|(_, since)| now >= since + RENEWED);
        if is_old && self.drafted.is_none() {
            self.publisher.renew();
        }
        let is_spaced = self.last.is_none_or(|last| now >= last + SPACING);
        let is_wanted = is_old || pods_wait || others_wait && is_spaced;
        if !is_wanted
            || self.drafted.is_some()
            || now < self.rests_until
            || !self.publisher.is_due()
        {
            return None;
        }
        match self.publisher.issue() {
            Ok(issue) => {
                self.drafted = Some((counters.clone(), now));
                Some(issue)
            }
            Err(error) => {
                tracing::warn!(%error, "the view cannot be written");
                self.failed(now);
                None
            }
        }
    }

    pub fn stored(&mut self) {
        self.publisher.stored();
        if let Some((counters, begun)) = self.drafted.take() {
            self.standing = counters;
            self.last = Some(begun);
            let full = self.publisher.standing().map(|(_, full)| full);
            if full != self.full.map(|(full, _)| full) {
                self.full = full.map(|full| (full, begun));
            }
        }
    }

    pub fn failed(&mut self, now: Duration) {
        self.publisher.give_up();
        self.drafted = None;
        self.rests_until = now + REST;
    }

    /// Whether wakes wait for a version under way.
    pub fn holds(&self, now: Duration) -> bool {
        self.held_until().is_some_and(|until| now < until)
    }

    pub fn held_until(&self) -> Option<Duration> {
        let (_, begun) = self.drafted.as_ref()?;
        Some(*begun + HELD_MOST)
    }

    /// The version that stands.
    pub fn pointer(&self, at: Timestamp) -> Option<ViewPointer> {
        let (base, full) = self.publisher.standing()?;
        Some(ViewPointer {
            epoch: self.publisher.epoch().to_owned(),
            version: base.version,
            full,
            digest: base.digest.clone(),
            at,
            counters: self
                .standing
                .iter()
                .map(|(lane, count)| (lane.to_string(), count))
                .collect(),
        })
    }
}

/// `namespace/name`.
fn key(name: &str) -> PodKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    PodKey::new(namespace, name)
}
