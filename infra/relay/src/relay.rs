//! The relay as a state machine: observations and the time go in, wakes and heartbeats come out. It does no I/O.

use std::time::Duration;

use jiff::Timestamp;
use model::{ClusterName, Lane, Wake, view::ViewPointer};

use crate::backoff::Backoff;
use crate::batcher::{Batcher, Window};
use crate::change::{Change, What};
use crate::counters::Counters;
use crate::heartbeat::Heartbeat;
use crate::kind::Kind;
use crate::outbox::Outbox;
use crate::published::Published;
use crate::routing::{Concern, Pace, route};
use crate::state::{Sighting, State};
use crate::watches::Watches;

/// Between the tries of a queue or the table that does not answer: soon enough after a hiccup, seldom in an outage.
const REST_FIRST: Duration = Duration::from_millis(500);
const REST_MOST: Duration = Duration::from_secs(30);

/// The wakes that look into a window and end it, whichever pods or nodes opened it.
const BATCH_REASON: &str = "pods-unschedulable";

/// What a watch tells of its kind.
#[derive(Clone, Debug)]
pub struct Observation {
    pub kind: Kind,
    pub event: Event,
}

#[derive(Clone, Debug)]
pub enum Event {
    ListBegun,
    Page(Vec<Sighting>),
    ListEnded,
    Changed(Sighting),
    Deleted(Sighting),
    Bookmark,
    /// The API server does not know the kind.
    Missing,
    /// The list or watch failed and will be tried again.
    Failed(String),
}

/// All of the relay's memory. Times are since it started.
#[derive(Debug)]
pub struct Relay {
    state: State,
    watches: Watches,
    counters: Counters,
    batcher: Batcher,
    outbox: Outbox,
    heartbeat: Heartbeat,
    /// Where pods are published.
    published: Option<Published>,
}

impl Relay {
    /// `seed` sets this relay's rests apart from those of others.
    pub fn new(cluster: ClusterName, window: Window, seed: u64) -> Self {
        let backoff = Backoff {
            first: REST_FIRST,
            most: REST_MOST,
            seed,
        };
        Self {
            state: State::default(),
            watches: Watches::default(),
            counters: Counters::default(),
            batcher: Batcher::new(window),
            outbox: Outbox::new(cluster, backoff),
            heartbeat: Heartbeat::new(backoff),
            published: None,
        }
    }

    /// The same relay, publishing pods under the name of its epoch.
    pub fn publishing(self, cluster: ClusterName, epoch: String) -> Self {
        Self {
            published: Some(Published::new(cluster, epoch)),
            ..self
        }
    }

    /// The relay timing how long objects take from their deletion until they are gone.
    pub fn timing_terminations(self, clock: fn() -> Timestamp) -> Self {
        Self {
            state: self.state.timing_terminations(clock),
            ..self
        }
    }

    /// The relay with series for each pod on `/metrics`.
    pub fn telling_of_each_pod(self) -> Self {
        Self {
            state: self.state.keeping_details(),
            ..self
        }
    }

    pub fn observe(&mut self, observation: Observation, now: Duration) {
        let Observation { kind, mut event } = observation;
        if let Some(published) = self.published.as_mut().filter(|_| kind == Kind::Pod) {
            published.observe(&mut event);
        }
        let changes = match event {
            // Nothing was answered yet.
            Event::ListBegun => return self.state.begin_list(kind),
            Event::Missing => return self.watches.missing(kind, now),
            Event::Failed(cause) => return self.watches.failing(kind, cause, now),
            Event::Page(sightings) => sightings
                .into_iter()
                .flat_map(|sighting| self.state.see(kind, sighting))
                .collect(),
            Event::ListEnded => {
                self.watches.listed(kind);
                self.state.end_list(kind)
            }
            Event::Changed(sighting) => self.state.see(kind, sighting),
            Event::Deleted(sighting) => self.state.lose(kind, &sighting),
            Event::Bookmark => Vec::new(),
        };
        self.watches.sign(kind, now);
        for change in changes {
            self.note(&change, now);
        }
    }

    /// When something is due next.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let heartbeat = self.heartbeat.due(now, self.watches.alive_until());
        let held_until = self.published.as_ref().and_then(Published::held_until);
        let wakes = [
            self.batcher.due(),
            self.batcher.glance_due(),
            self.outbox.due(),
        ];
        let wakes = wakes.into_iter().flatten().min();
        // Wakes that a view holds back are due when it no longer does.
        let wakes = wakes.map(|due| due.max(held_until.unwrap_or_default()));
        [wakes, heartbeat].into_iter().flatten().min()
    }

    /// What is to be put into the bucket before the wakes that are due now are sent. Each must be answered by
    /// [`Relay::view_stored`] or [`Relay::view_failed`]; until then, or for a moment, wakes wait.
    pub fn take_view(&mut self, now: Duration) -> Option<view::Issue> {
        let published = self.published.as_mut()?;
        let is_due = |due: Option<Duration>| due.is_some_and(|due| due <= now);
        let pods_wait = is_due(self.batcher.due())
            || is_due(self.batcher.glance_due())
            || is_due(self.outbox.due_of(Lane::Provisioner));
        let others_wait = is_due(self.outbox.due());
        published.take(pods_wait, others_wait, &self.counters, now)
    }

    pub fn view_stored(&mut self) {
        if let Some(published) = &mut self.published {
            published.stored();
        }
    }

    pub fn view_failed(&mut self, now: Duration) {
        if let Some(published) = &mut self.published {
            published.failed(now);
        }
    }

    /// The newest view that functions can read, as of `at`.
    pub fn view(&self, at: Timestamp) -> Option<ViewPointer> {
        self.published.as_ref()?.pointer(at)
    }

    /// The wakes that are to be sent now. Each must be answered by [`Relay::wake_sent`] or [`Relay::wake_failed`].
    pub fn take_wakes(&mut self, now: Duration) -> Vec<Wake> {
        if self.published.as_ref().is_some_and(|one| one.holds(now)) {
            return Vec::new();
        }
        if let Some(hints) = self.batcher.close(now) {
            self.outbox
                .add_now(Lane::Provisioner, BATCH_REASON, hints, now);
        } else if let Some(hints) = self.batcher.glance(now) {
            self.outbox
                .add_glance(Lane::Provisioner, BATCH_REASON, hints, now);
        }
        self.outbox.take(now)
    }

    pub fn wake_sent(&mut self, lane: Lane) {
        self.outbox.sent(lane);
    }

    pub fn wake_failed(&mut self, wake: Wake, now: Duration) {
        self.outbox.failed(wake, now);
    }

    /// The counters, if a heartbeat is to be written now. It must be answered by [`Relay::beat_written`] or
    /// [`Relay::beat_failed`].
    pub fn take_beat(&mut self, now: Duration) -> Option<Counters> {
        let due = self.heartbeat.due(now, self.watches.alive_until())?;
        (due <= now).then(|| {
            self.heartbeat.begin(now);
            self.counters.clone()
        })
    }

    pub fn beat_written(&mut self) {
        self.heartbeat.written();
    }

    pub fn beat_failed(&mut self) {
        self.heartbeat.failed();
    }

    /// Nothing more will be observed: what waits is due at once.
    pub fn hurry(&mut self, now: Duration) {
        if let Some(hints) = self.batcher.close_now() {
            self.outbox
                .add_now(Lane::Provisioner, BATCH_REASON, hints, now);
        }
        self.outbox.hurry();
    }

    /// Whether every wake has left.
    pub fn is_drained(&self) -> bool {
        self.outbox.is_empty() && !self.batcher.is_open()
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// When the last heartbeat was begun, unless it failed.
    pub fn last_beat(&self) -> Option<Duration> {
        self.heartbeat.last_good()
    }

    fn note(&mut self, change: &Change, now: Duration) {
        for concern in route(change.what, self.state.situation(change)) {
            self.counters.bump(concern.lane);
            self.heartbeat.moved();
            self.wake(concern, change, now);
        }
    }

    fn wake(&mut self, Concern { lane, pace }: Concern, change: &Change, now: Duration) {
        let reason = change.what.reason();
        let hint = self.hint(lane, change);
        match pace {
            Pace::Batched => self.batcher.trigger(change.key, hint, now),
            // The open window ends in a wake of this lane; one before it would see half of the pods.
            Pace::Prompt if lane == Lane::Provisioner && self.batcher.is_open() => {}
            Pace::Prompt => self.outbox.add(lane, reason, hint, now),
            Pace::Spaced => self.outbox.add_spaced(lane, reason, hint, now),
            Pace::Counted => {}
        }
    }

    /// The provisioner reads the named pods first; other lanes the named node, if the change is about one.
    fn hint(&self, lane: Lane, change: &Change) -> Option<String> {
        match lane {
            Lane::Provisioner => change
                .object
                .clone()
                .filter(|_| change.what == What::PodUnschedulable),
            Lane::Lifecycle
            | Lane::Disruption
            | Lane::Terminator
            | Lane::Interruption
            | Lane::Housekeeper => change
                .node
                .and_then(|node| self.state.node_name(node))
                .map(|name| format!("{}/{name}", Kind::Node.singular()))
                .or_else(|| change.object.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
