//! Schedule of the heartbeat row, which proves that the relay is alive: after changes, at least every [`INTERVAL`], and only
//! while every watch is alive.

use std::time::Duration;

use crate::backoff::Backoff;

/// Interval of heartbeats. Readers expect one every 30 s and give up after 90 s; this leaves time for a slow write.
pub const INTERVAL: Duration = Duration::from_secs(25);

/// Minimum time between two writes, so that a busy cluster causes at most one per second.
pub const SPACING: Duration = Duration::from_secs(1);

/// Schedule of heartbeats. All times count from the relay's start.
#[derive(Debug)]
pub struct HeartbeatSchedule {
    backoff: Backoff,
    /// Start of the last write.
    last: Option<Duration>,
    writing: bool,
    /// Whether counters have changed since the last write began.
    changed: bool,
    failures: u32,
}

impl HeartbeatSchedule {
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            last: None,
            writing: false,
            changed: false,
            failures: 0,
        }
    }

    /// Notes that counters have changed.
    pub fn counters_changed(&mut self) {
        self.changed = true;
    }

    /// Time of the next write, given that all watches are alive until `alive_until`; `None` if another event must happen first.
    pub fn due(&self, now: Duration, alive_until: Option<Duration>) -> Option<Duration> {
        if self.writing {
            return None;
        }
        let wait = if self.failures > 0 {
            self.backoff.delay(self.failures)
        } else if self.changed {
            SPACING
        } else {
            INTERVAL
        };
        let due = self.last.map_or(now, |last| (last + wait).max(now));
        (due <= alive_until?).then_some(due)
    }

    /// Begins a write, which ends with [`HeartbeatSchedule::written`] or [`HeartbeatSchedule::failed`].
    pub fn begin(&mut self, now: Duration) {
        self.last = Some(now);
        self.writing = true;
        self.changed = false;
    }

    pub fn written(&mut self) {
        self.writing = false;
        self.failures = 0;
    }

    pub fn failed(&mut self) {
        self.writing = false;
        self.failures = self.failures.saturating_add(1);
    }

    /// Start of the last write, if it did not fail.
    pub fn last_good(&self) -> Option<Duration> {
        self.last.filter(|_| self.failures == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(1_000));

    fn heartbeat() -> HeartbeatSchedule {
        HeartbeatSchedule::new(Backoff {
            first: Duration::from_secs(1),
            max: Duration::from_secs(10),
            seed: 0,
        })
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn first_heartbeat_needs_all_watches_and_others_follow_at_interval() {
        let mut heartbeat = heartbeat();
        assert_eq!(heartbeat.due(at(5), None), None);
        assert_eq!(heartbeat.due(at(5), LONG), Some(at(5)));
        heartbeat.begin(at(5));
        assert_eq!(heartbeat.due(at(5), LONG), None, "one write at a time");
        heartbeat.written();
        assert_eq!(heartbeat.due(at(6), LONG), Some(at(5) + INTERVAL));
        assert!(INTERVAL <= at(30));
    }

    #[test]
    fn changed_counters_are_written_at_most_once_per_second() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.written();
        heartbeat.counters_changed();
        assert_eq!(heartbeat.due(at(5), LONG), Some(at(6)));
        assert_eq!(heartbeat.due(at(9), LONG), Some(at(9)));
    }

    #[test]
    fn counters_changed_during_a_write_are_written_after_it() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.counters_changed();
        heartbeat.written();
        assert_eq!(heartbeat.due(at(5), LONG), Some(at(6)));
    }

    #[test]
    fn dead_watch_stops_heartbeats_despite_changed_counters() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.written();
        heartbeat.counters_changed();
        assert_eq!(heartbeat.due(at(200), Some(at(199))), None);
    }

    #[test]
    fn failed_write_is_retried_after_delay() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.failed();
        let due = heartbeat.due(at(5), LONG).unwrap();
        assert!(due > at(5) && due <= at(6), "{due:?}");
        assert_eq!(heartbeat.last_good(), None);
    }
}
