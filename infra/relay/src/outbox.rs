//! Wakes to be sent. A wake carries no data except hints, so each lane needs at most one in the buffer: further ones are merged,
//! and an outage of the queues costs neither memory nor wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{Batch, ClusterName, Lane, Wake};

use crate::backoff::Backoff;

/// Time that a wake waits for others to the same lane; including the call to SQS, it is sent within 200 ms.
pub const COALESCING: Duration = Duration::from_millis(150);

/// Minimum time between wakes that only report the usage of a node: Karpenter updates `lastPodEventTime` no more often
/// (docs/spec/lifecycle.md#pod-events).
pub const SPACING: Duration = Duration::from_secs(10);

/// Longest pause between prompt wakes of a lane. The first wake after a quiet time is sent immediately; while changes continue, the pause
/// doubles from [`COALESCING`] up to this bound: a wake that arrives during a turn only makes another one follow it.
fn longest_pause(lane: Lane) -> Duration {
    match lane {
        // Karpenter looks for voluntary disruptions every 10 s (docs/spec/lifecycle.md#disruption-loop).
        Lane::Disruption => Duration::from_secs(5),
        Lane::Provisioner
        | Lane::Lifecycle
        | Lane::Terminator
        | Lane::Interruption
        | Lane::Housekeeper => Duration::from_secs(1),
    }
}

/// Hints of one wake: distinct, in order of arrival, at most [`Wake::HINTS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints(Vec<String>);

impl Extend<String> for Hints {
    fn extend<T: IntoIterator<Item = String>>(&mut self, hints: T) {
        for hint in hints {
            if self.0.len() < Wake::HINTS_MAX && !self.0.contains(&hint) {
                self.0.push(hint);
            }
        }
    }
}

impl IntoIterator for Hints {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Per lane, at most one pending wake and one in flight. All times count from the relay's start.
#[derive(Debug)]
pub struct Outbox {
    cluster: ClusterName,
    backoff: Backoff,
    waiting: BTreeMap<Lane, Waiting>,
    sending: BTreeSet<Lane>,
    failures: BTreeMap<Lane, u32>,
    /// Time at which a spaced wake of the lane was last sent.
    spaced: BTreeMap<Lane, Duration>,
    paces: BTreeMap<Lane, Pace>,
}

/// Pace of a lane's wakes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    last: Duration,
    /// Pause before the next prompt wake.
    pause: Duration,
}

#[derive(Debug)]
struct Waiting {
    due: Duration,
    /// Reason of the first merged wake; used only in logs.
    reason: String,
    hints: Hints,
    spaced: bool,
    batch: Batch,
}

impl Outbox {
    pub fn new(cluster: ClusterName, backoff: Backoff) -> Self {
        Self {
            cluster,
            backoff,
            waiting: BTreeMap::new(),
            sending: BTreeSet::new(),
            failures: BTreeMap::new(),
            spaced: BTreeMap::new(),
            paces: BTreeMap::new(),
        }
    }

    /// Adds a wake that is sent at the end of the coalescing window, or of the pause since the lane's last wake.
    pub fn add(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        let earliest = self
            .paces
            .get(&lane)
            .map_or(Duration::ZERO, |pace| pace.last + pace.pause);
        let wake = Waiting::new(reason, earliest.max(now + COALESCING));
        self.merge(lane, wake, hints);
    }

    /// Adds a wake like [`Outbox::add`], but no sooner than [`SPACING`] after the last spaced wake of the lane.
    pub fn add_spaced(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        let earliest = self
            .spaced
            .get(&lane)
            .map_or(Duration::ZERO, |last| *last + SPACING);
        let wake = Waiting {
            spaced: true,
            ..Waiting::new(reason, earliest.max(now + COALESCING))
        };
        self.merge(lane, wake, hints);
    }

    /// Adds a wake that is sent immediately, because the change has already waited elsewhere.
    pub fn add_now(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        self.merge(lane, Waiting::new(reason, now), hints);
    }

    /// Adds an early wake for pods of an open batching window, sent immediately.
    pub fn add_early(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        let wake = Waiting {
            batch: Batch::Open,
            ..Waiting::new(reason, now)
        };
        self.merge(lane, wake, hints);
    }

    /// Time at which [`Outbox::take`] next returns a wake.
    pub fn due(&self) -> Option<Duration> {
        self.ready_lanes().map(|(_, waiting)| waiting.due).min()
    }

    /// Takes the due wakes, one per lane. Each ends with [`Outbox::sent`] or [`Outbox::failed`].
    pub fn take(&mut self, now: Duration) -> Vec<Wake> {
        let lanes: Vec<Lane> = self
            .ready_lanes()
            .filter(|(_, waiting)| waiting.due <= now)
            .map(|(lane, _)| lane)
            .collect();
        lanes
            .into_iter()
            .filter_map(|lane| {
                let waiting = self.waiting.remove(&lane)?;
                self.sending.insert(lane);
                self.slow_down(lane, now);
                if waiting.spaced {
                    self.spaced.insert(lane, now);
                }
                let mut wake = Wake::new(self.cluster.clone(), lane, &waiting.reason);
                wake.hints = waiting.hints.into_iter().collect();
                wake.batch = waiting.batch;
                Some(wake)
            })
            .collect()
    }

    pub fn sent(&mut self, lane: Lane) {
        self.sending.remove(&lane);
        self.failures.remove(&lane);
    }

    /// Returns a wake to the buffer, merged with newer ones, and delays its lane.
    pub fn failed(&mut self, wake: Wake, now: Duration) {
        let lane = wake.lane;
        self.sending.remove(&lane);
        let failures = self.failures.entry(lane).or_default();
        *failures = failures.saturating_add(1);
        let due = now + self.backoff.delay(*failures);
        let newer = self.waiting.remove(&lane);
        let back = Waiting {
            batch: wake.batch,
            ..Waiting::new(&wake.reason, due)
        };
        self.merge(lane, back, wake.hints);
        if let Some(newer) = newer {
            let hints = newer.hints.clone();
            self.merge(lane, Waiting { due, ..newer }, hints);
        }
    }

    /// Makes all wakes due, for a last attempt before the process ends.
    pub fn flush(&mut self) {
        for waiting in self.waiting.values_mut() {
            waiting.due = Duration::ZERO;
        }
    }

    /// Time at which a lane's wake is due; `None` if none is pending, or one is in flight.
    pub fn due_of(&self, lane: Lane) -> Option<Duration> {
        self.ready_lanes()
            .find(|(ready, _)| *ready == lane)
            .map(|(_, waiting)| waiting.due)
    }

    /// Returns whether no wake is pending or in flight.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sending.is_empty()
    }

    /// Doubles the lane's pause, or starts with the shortest after a quiet time of twice the longest pause.
    fn slow_down(&mut self, lane: Lane, now: Duration) {
        let longest = longest_pause(lane);
        let recent = self.paces.get(&lane);
        let recent = recent.filter(|pace| now.saturating_sub(pace.last) < longest * 2);
        let pause = recent.map_or(COALESCING, |pace| (pace.pause * 2).min(longest));
        self.paces.insert(lane, Pace { last: now, pause });
    }

    fn ready_lanes(&self) -> impl Iterator<Item = (Lane, &Waiting)> {
        self.waiting
            .iter()
            .filter(|(lane, _)| !self.sending.contains(lane))
            .map(|(lane, waiting)| (*lane, waiting))
    }

    fn merge(&mut self, lane: Lane, wake: Waiting, hints: impl IntoIterator<Item = String>) {
        let (due, spaced, batch) = (wake.due, wake.spaced, wake.batch);
        let waiting = self.waiting.entry(lane).or_insert(wake);
        // A lane that is delayed after a failure stays delayed.
        if !self.failures.contains_key(&lane) {
            waiting.due = waiting.due.min(due);
        }
        waiting.spaced |= spaced;
        // Once one of the merged wakes is for a closed window, the window counts as closed.
        if batch.is_closed() {
            waiting.batch = Batch::Closed;
        }
        waiting.hints.extend(hints);
    }
}

impl Waiting {
    fn new(reason: &str, due: Duration) -> Self {
        Self {
            due,
            reason: reason.to_owned(),
            hints: Hints::default(),
            spaced: false,
            batch: Batch::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox() -> Outbox {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            max: Duration::from_secs(30),
            seed: 0,
        };
        Outbox::new(ClusterName::from("demo"), backoff)
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn hint(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn wakes_of_a_lane_coalesce_and_are_sent_within_200_ms() {
        let mut outbox = outbox();
        outbox.add(Lane::Lifecycle, "node-appeared", hint("node/a"), at(1_000));
        outbox.add(Lane::Lifecycle, "node-changed", hint("node/b"), at(1_100));
        outbox.add(Lane::Lifecycle, "node-changed", hint("node/a"), at(1_100));
        let due = outbox.due().unwrap();
        assert!(due > at(1_100) && due < at(1_200), "{due:?}");
        let wakes = outbox.take(due);
        assert_eq!(wakes.len(), 1);
        assert_eq!(wakes[0].lane, Lane::Lifecycle);
        assert_eq!(wakes[0].reason, "node-appeared");
        assert_eq!(wakes[0].hints, ["node/a", "node/b"]);
        assert_eq!(outbox.due(), None);
    }

    #[test]
    fn pause_between_wakes_doubles_while_changes_continue() {
        let sent = |lane, until: u64| {
            let mut outbox = outbox();
            let mut sent = Vec::new();
            for millis in (0..until).step_by(10) {
                outbox.add(lane, "node-changed", None, at(millis));
                if !outbox.take(at(millis)).is_empty() {
                    sent.push(millis);
                    outbox.sent(lane);
                }
            }
            sent
        };
        assert_eq!(
            sent(Lane::Lifecycle, 5_000),
            [150, 310, 610, 1_210, 2_210, 3_210, 4_210]
        );
        assert_eq!(
            sent(Lane::Disruption, 20_000),
            [150, 310, 610, 1_210, 2_410, 4_810, 9_610, 14_610, 19_610]
        );
    }

    #[test]
    fn first_wake_after_a_quiet_time_does_not_pause() {
        let mut outbox = outbox();
        for millis in [0, 200, 600] {
            outbox.add(Lane::Lifecycle, "node-changed", None, at(millis));
            let due = outbox.due().unwrap();
            outbox.take(due);
            outbox.sent(Lane::Lifecycle);
        }
        outbox.add(Lane::Lifecycle, "node-changed", None, at(5_000));
        assert_eq!(outbox.due(), Some(at(5_150)));
    }

    #[test]
    fn lanes_do_not_wait_for_each_other() {
        let mut outbox = outbox();
        outbox.add(Lane::Lifecycle, "node-gone", None, at(0));
        outbox.add(Lane::Terminator, "node-gone", None, at(100));
        let first = outbox.take(at(160));
        assert_eq!(
            first.iter().map(|wake| wake.lane).collect::<Vec<_>>(),
            [Lane::Lifecycle]
        );
        outbox.failed(first[0].clone(), at(170));
        assert_eq!(outbox.take(at(250))[0].lane, Lane::Terminator);
    }

    #[test]
    fn one_wake_per_lane_is_in_flight() {
        let mut outbox = outbox();
        outbox.add(Lane::Terminator, "pod-ready", None, at(0));
        assert_eq!(outbox.take(at(200)).len(), 1);
        outbox.add(Lane::Terminator, "pod-ready", None, at(300));
        assert_eq!(outbox.due(), None);
        assert!(!outbox.is_empty());
        outbox.sent(Lane::Terminator);
        assert_eq!(outbox.take(at(500)).len(), 1);
    }

    #[test]
    fn outage_keeps_one_wake_per_lane_and_all_hints() {
        let mut outbox = outbox();
        outbox.add(Lane::Terminator, "pod-ready", hint("node/a"), at(0));
        let wake = outbox.take(at(200)).remove(0);
        outbox.add(Lane::Terminator, "pdb-allows", hint("node/b"), at(300));
        outbox.failed(wake, at(400));
        outbox.add(Lane::Terminator, "pod-ready", hint("node/c"), at(500));
        assert!(outbox.take(at(1_000)).is_empty(), "delayed after a failure");
        let wakes = outbox.take(at(1_400));
        assert_eq!(wakes.len(), 1);
        assert_eq!(wakes[0].hints, ["node/a", "node/b", "node/c"]);
        outbox.sent(Lane::Terminator);
        assert!(outbox.is_empty());
    }

    #[test]
    fn delay_grows_with_failures_and_ends_with_success() {
        let mut outbox = outbox();
        let mut now = at(0);
        outbox.add(Lane::Lifecycle, "node-gone", None, now);
        let mut rests = Vec::new();
        for _ in 0..3 {
            now = outbox.due().unwrap().max(now);
            let wake = outbox.take(now).remove(0);
            outbox.failed(wake, now);
            rests.push(outbox.due().unwrap() - now);
        }
        assert!(rests.is_sorted() && rests[0] < rests[2], "{rests:?}");
        now = outbox.due().unwrap();
        outbox.take(now);
        outbox.sent(Lane::Lifecycle);
        outbox.add(Lane::Lifecycle, "node-gone", None, now);
        assert_eq!(outbox.due(), Some(now + COALESCING));
    }

    #[test]
    fn early_wake_merges_into_wake_of_closed_window() {
        let mut outbox = outbox();
        outbox.add_early(Lane::Provisioner, "pods-unschedulable", hint("a"), at(0));
        outbox.add_now(Lane::Provisioner, "pods-unschedulable", hint("b"), at(0));
        outbox.add_early(Lane::Provisioner, "pods-unschedulable", hint("c"), at(0));
        let wakes = outbox.take(at(0));
        assert_eq!(wakes.len(), 1);
        assert_eq!(wakes[0].batch, Batch::Closed);
        assert_eq!(wakes[0].hints, ["a", "b", "c"]);
    }

    #[test]
    fn early_wake_stays_early_after_failure() {
        let mut outbox = outbox();
        outbox.add_early(Lane::Provisioner, "pods-unschedulable", None, at(0));
        let wake = outbox.take(at(0)).remove(0);
        outbox.failed(wake, at(0));
        assert_eq!(outbox.take(at(2_000))[0].batch, Batch::Open);
    }

    #[test]
    fn hints_are_limited() {
        let mut outbox = outbox();
        let pods = (0..500).map(|index| format!("default/web-{index}"));
        outbox.add_now(Lane::Provisioner, "pods-unschedulable", pods, at(0));
        assert_eq!(outbox.take(at(0))[0].hints.len(), Wake::HINTS_MAX);
    }

    #[test]
    fn spaced_wakes_keep_minimum_distance() {
        let mut outbox = outbox();
        outbox.add_spaced(Lane::Lifecycle, "pods-moved", None, at(20_000));
        assert_eq!(outbox.take(at(20_150)).len(), 1);
        outbox.sent(Lane::Lifecycle);
        outbox.add_spaced(Lane::Lifecycle, "pods-moved", None, at(21_000));
        assert_eq!(outbox.due(), Some(at(30_150)));
    }

    #[test]
    fn prompt_wake_includes_pending_spaced_wake() {
        let mut outbox = outbox();
        outbox.add_spaced(Lane::Lifecycle, "pods-moved", hint("node/a"), at(20_000));
        outbox.take(at(20_150));
        outbox.sent(Lane::Lifecycle);
        outbox.add_spaced(Lane::Lifecycle, "pods-moved", hint("node/b"), at(21_000));
        outbox.add(Lane::Lifecycle, "node-gone", hint("node/c"), at(22_000));
        assert_eq!(outbox.take(at(22_150))[0].hints, ["node/b", "node/c"]);
        outbox.sent(Lane::Lifecycle);
        assert!(outbox.is_empty());
    }
}
