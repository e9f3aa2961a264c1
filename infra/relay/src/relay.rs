//! The relay as a state machine: observations and the time are its input, wakes and heartbeats its output. It does no I/O.

use std::time::Duration;

use jiff::Timestamp;
use model::{ClusterName, Lane, Wake, view::ViewPointer};

use crate::backoff::Backoff;
use crate::batcher::{Batcher, Window};
use crate::change::{Change, ChangeKind};
use crate::counters::Counters;
use crate::heartbeat::HeartbeatSchedule;
use crate::kind::Kind;
use crate::outbox::Outbox;
use crate::routing::{Concern, Urgency, route};
use crate::state::{ObservedObject, State};
use crate::view_publisher::ViewPublisher;
use crate::watches::Watches;

/// Delays between attempts to reach a queue or the table: short after a hiccup, long in an outage.
const RETRY_DELAY_FIRST: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Reason of all wakes of a batching window, whichever pods or nodes opened it.
const BATCH_REASON: &str = "pods-unschedulable";

/// An observation of a watch.
#[derive(Clone, Debug)]
pub struct Observation {
    pub kind: Kind,
    pub event: Event,
}

#[derive(Clone, Debug)]
pub enum Event {
    ListBegun,
    Page(Vec<ObservedObject>),
    ListEnded,
    Changed(ObservedObject),
    Deleted(ObservedObject),
    Bookmark,
    /// The API server does not serve the kind.
    Missing,
    /// The list or watch failed and will be retried.
    Failed(String),
}

/// The complete state of the relay. All times count from its start.
#[derive(Debug)]
pub struct Relay {
    state: State,
    watches: Watches,
    counters: Counters,
    batcher: Batcher,
    outbox: Outbox,
    heartbeat: HeartbeatSchedule,
    /// Publisher of pods, if the relay publishes them.
    published: Option<ViewPublisher>,
}

impl Relay {
    /// Creates a relay; `seed` determines its back-off jitter.
    pub fn new(cluster: ClusterName, window: Window, seed: u64) -> Self {
        let backoff = Backoff {
            first: RETRY_DELAY_FIRST,
            max: RETRY_DELAY_MAX,
            seed,
        };
        Self {
            state: State::default(),
            watches: Watches::default(),
            counters: Counters::default(),
            batcher: Batcher::new(window),
            outbox: Outbox::new(cluster, backoff),
            heartbeat: HeartbeatSchedule::new(backoff),
            published: None,
        }
    }

    /// Publishes the view of pods under this epoch.
    pub fn publishing(self, cluster: ClusterName, epoch: String) -> Self {
        Self {
            published: Some(ViewPublisher::new(cluster, epoch)),
            ..self
        }
    }

    /// Measures the time from objects' deletion until they are gone.
    pub fn timing_terminations(self, clock: fn() -> Timestamp) -> Self {
        Self {
            state: self.state.timing_terminations(clock),
            ..self
        }
    }

    /// Adds series for each pod to `/metrics`.
    pub fn with_pod_series(self) -> Self {
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
            // Nothing has been received yet.
            Event::ListBegun => return self.state.begin_list(kind),
            Event::Missing => return self.watches.missing(kind, now),
            Event::Failed(cause) => return self.watches.failing(kind, cause, now),
            Event::Page(objects) => objects
                .into_iter()
                .flat_map(|observed| self.state.apply(kind, observed))
                .collect(),
            Event::ListEnded => {
                self.watches.listed(kind);
                self.state.end_list(kind)
            }
            Event::Changed(observed) => self.state.apply(kind, observed),
            Event::Deleted(observed) => self.state.remove(kind, &observed),
            Event::Bookmark => Vec::new(),
        };
        self.watches.mark_alive(kind, now);
        for change in changes {
            self.route_change(&change, now);
        }
    }

    /// Time at which an output is due next.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let heartbeat = self.heartbeat.due(now, self.watches.alive_until());
        let held_until = self.published.as_ref().and_then(ViewPublisher::held_until);
        let wakes = [
            self.batcher.due(),
            self.batcher.early_wake_due(),
            self.outbox.due(),
        ];
        let wakes = wakes.into_iter().flatten().min();
        // Wakes that wait for a version of the view are due when they stop waiting.
        let wakes = wakes.map(|due| due.max(held_until.unwrap_or_default()));
        [wakes, heartbeat].into_iter().flatten().min()
    }

    /// Returns the version of the view that is to be stored before the wakes that are due now are sent. Storing it ends with
    /// [`Relay::view_stored`] or [`Relay::view_failed`]; until then, or for a moment, wakes wait.
    pub fn take_view(&mut self, now: Duration) -> Option<view::ViewVersion> {
        let published = self.published.as_mut()?;
        let is_due = |due: Option<Duration>| due.is_some_and(|due| due <= now);
        let pods_wait = is_due(self.batcher.due())
            || is_due(self.batcher.early_wake_due())
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

    /// Takes the wakes that are due. Each ends with [`Relay::wake_sent`] or [`Relay::wake_failed`].
    pub fn take_wakes(&mut self, now: Duration) -> Vec<Wake> {
        if self
            .published
            .as_ref()
            .is_some_and(|publisher| publisher.holds(now))
        {
            return Vec::new();
        }
        if let Some(hints) = self.batcher.close(now) {
            self.outbox
                .add_now(Lane::Provisioner, BATCH_REASON, hints, now);
        } else if let Some(hints) = self.batcher.take_early_wake(now) {
            self.outbox
                .add_early(Lane::Provisioner, BATCH_REASON, hints, now);
        }
        self.outbox.take(now)
    }

    pub fn wake_sent(&mut self, lane: Lane) {
        self.outbox.sent(lane);
    }

    pub fn wake_failed(&mut self, wake: Wake, now: Duration) {
        self.outbox.failed(wake, now);
    }

    /// Returns the counters if a heartbeat is due. It ends with [`Relay::beat_written`] or [`Relay::beat_failed`].
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

    /// Makes all pending wakes due, because no more observations follow.
    pub fn flush(&mut self, now: Duration) {
        if let Some(hints) = self.batcher.close_now() {
            self.outbox
                .add_now(Lane::Provisioner, BATCH_REASON, hints, now);
        }
        self.outbox.flush();
    }

    /// Returns whether every wake has been sent.
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

    /// Start of the last heartbeat, unless it failed.
    pub fn last_beat(&self) -> Option<Duration> {
        self.heartbeat.last_good()
    }

    fn route_change(&mut self, change: &Change, now: Duration) {
        for concern in route(change.kind, self.state.context(change)) {
            self.counters.bump(concern.lane);
            self.heartbeat.counters_changed();
            self.wake(concern, change, now);
        }
    }

    fn wake(&mut self, Concern { lane, urgency }: Concern, change: &Change, now: Duration) {
        let reason = change.kind.reason();
        let hint = self.hint(lane, change);
        match urgency {
            Urgency::Batched => self.batcher.trigger(change.key, hint, now),
            // The open window ends with a wake of this lane; an earlier wake would read only a part of the pods.
            Urgency::Prompt if lane == Lane::Provisioner && self.batcher.is_open() => {}
            Urgency::Prompt => self.outbox.add(lane, reason, hint, now),
            Urgency::Spaced => self.outbox.add_spaced(lane, reason, hint, now),
            Urgency::Counted => {}
        }
    }

    /// Hint of a wake: the provisioner reads the named pods first, other lanes the named node.
    fn hint(&self, lane: Lane, change: &Change) -> Option<String> {
        match lane {
            Lane::Provisioner => change
                .object
                .clone()
                .filter(|_| change.kind == ChangeKind::PodUnschedulable),
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
