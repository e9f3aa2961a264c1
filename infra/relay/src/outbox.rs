//! Wakes on their way out. A wake says only "look", so a lane needs at most one in the buffer: further ones merge into
//! it, and an outage of the queues costs neither memory nor wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{Batch, ClusterName, Lane, Wake};

use crate::backoff::Backoff;

/// How long a wake waits for others to the same lane; with the call to SQS it is out within 200 ms.
pub const COALESCING: Duration = Duration::from_millis(150);

/// Least time between wakes that only say how a node is used: Karpenter stamps `lastPodEventTime` no more often
/// (docs/spec/lifecycle.md#pod-events).
pub const SPACING: Duration = Duration::from_secs(10);

/// The hints of one wake: distinct, in the order they came, at most [`Wake::HINTS_MAX`].
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

/// At most one waiting wake and one on its way per lane. Times are since the relay started.
#[derive(Debug)]
pub struct Outbox {
    cluster: ClusterName,
    backoff: Backoff,
    waiting: BTreeMap<Lane, Waiting>,
    sending: BTreeSet<Lane>,
    failures: BTreeMap<Lane, u32>,
    /// When a spaced wake last left for the lane.
    spaced: BTreeMap<Lane, Duration>,
}

#[derive(Debug)]
struct Waiting {
    due: Duration,
    /// Of the first to come; it is for logs only.
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
        }
    }

    /// To be sent within the coalescing window.
    pub fn add(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        let wake = Waiting::new(reason, now + COALESCING);
        self.merge(lane, wake, hints);
    }

    /// As [`Outbox::add`], but no sooner than [`SPACING`] after the last such wake of the lane.
    pub fn add_spaced(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        let rested = self
            .spaced
            .get(&lane)
            .map_or(Duration::ZERO, |last| *last + SPACING);
        let wake = Waiting {
            spaced: true,
            ..Waiting::new(reason, rested.max(now + COALESCING))
        };
        self.merge(lane, wake, hints);
    }

    /// To be sent at once: the wait was elsewhere.
    pub fn add_now(
        &mut self,
        lane: Lane,
        reason: &str,
        hints: impl IntoIterator<Item = String>,
        now: Duration,
    ) {
        self.merge(lane, Waiting::new(reason, now), hints);
    }

    /// As [`Outbox::add_now`], for a look at pods that are still gathered.
    pub fn add_glance(
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

    /// When [`Outbox::take`] next has something to give.
    pub fn due(&self) -> Option<Duration> {
        self.ready_lanes().map(|(_, waiting)| waiting.due).min()
    }

    /// The wakes whose time has come, one per lane. Each must be answered by [`Outbox::sent`] or [`Outbox::failed`].
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

    /// The wake goes back, merged with what came meanwhile, and the lane rests.
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

    /// Makes everything due, for a last attempt before the process ends.
    pub fn hurry(&mut self) {
        for waiting in self.waiting.values_mut() {
            waiting.due = Duration::ZERO;
        }
    }

    /// When a lane's wake is due; `None` if none waits, or one is on its way.
    pub fn due_of(&self, lane: Lane) -> Option<Duration> {
        self.ready_lanes()
            .find(|(ready, _)| *ready == lane)
            .map(|(_, waiting)| waiting.due)
    }

    /// Whether nothing waits and nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sending.is_empty()
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
        // A lane that rests after a failure goes on resting.
        if !self.failures.contains_key(&lane) {
            waiting.due = waiting.due.min(due);
        }
        waiting.spaced |= spaced;
        // A window that closed is not open any more.
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
            most: Duration::from_secs(30),
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
    fn wakes_to_one_lane_coalesce_and_leave_within_200_ms_of_the_first() {
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
    fn one_wake_per_lane_is_on_its_way() {
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
    fn an_outage_keeps_one_wake_per_lane_and_loses_none() {
        let mut outbox = outbox();
        outbox.add(Lane::Terminator, "pod-ready", hint("node/a"), at(0));
        let wake = outbox.take(at(200)).remove(0);
        outbox.add(Lane::Terminator, "pdb-allows", hint("node/b"), at(300));
        outbox.failed(wake, at(400));
        outbox.add(Lane::Terminator, "pod-ready", hint("node/c"), at(500));
        assert!(outbox.take(at(1_000)).is_empty(), "rests after a failure");
        let wakes = outbox.take(at(1_400));
        assert_eq!(wakes.len(), 1);
        assert_eq!(wakes[0].hints, ["node/a", "node/b", "node/c"]);
        outbox.sent(Lane::Terminator);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_lane_rests_longer_after_each_failure_and_is_itself_again_after_a_success() {
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
    fn a_look_into_an_open_window_merges_into_the_wake_that_ends_it() {
        let mut outbox = outbox();
        outbox.add_glance(Lane::Provisioner, "pods-unschedulable", hint("a"), at(0));
        outbox.add_now(Lane::Provisioner, "pods-unschedulable", hint("b"), at(0));
        outbox.add_glance(Lane::Provisioner, "pods-unschedulable", hint("c"), at(0));
        let wakes = outbox.take(at(0));
        assert_eq!(wakes.len(), 1);
        assert_eq!(wakes[0].batch, Batch::Closed);
        assert_eq!(wakes[0].hints, ["a", "b", "c"]);
    }

    #[test]
    fn a_look_that_could_not_be_sent_is_still_one() {
        let mut outbox = outbox();
        outbox.add_glance(Lane::Provisioner, "pods-unschedulable", None, at(0));
        let wake = outbox.take(at(0)).remove(0);
        outbox.failed(wake, at(0));
        assert_eq!(outbox.take(at(2_000))[0].batch, Batch::Open);
    }

    #[test]
    fn hints_stop_at_their_bound() {
        let mut outbox = outbox();
        let pods = (0..500).map(|index| format!("default/web-{index}"));
        outbox.add_now(Lane::Provisioner, "pods-unschedulable", pods, at(0));
        assert_eq!(outbox.take(at(0))[0].hints.len(), Wake::HINTS_MAX);
    }

    #[test]
    fn spaced_wakes_leave_promptly_once_and_then_at_their_distance() {
        let mut outbox = outbox();
        outbox.add_spaced(Lane::Lifecycle, "pods-moved", None, at(20_000));
        assert_eq!(outbox.take(at(20_150)).len(), 1);
        outbox.sent(Lane::Lifecycle);
        outbox.add_spaced(Lane::Lifecycle, "pods-moved", None, at(21_000));
        assert_eq!(outbox.due(), Some(at(30_150)));
    }

    #[test]
    fn a_prompt_wake_takes_a_spaced_one_along() {
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
