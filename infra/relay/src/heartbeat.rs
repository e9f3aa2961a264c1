//! When the row that proves the relay alive is written: after changes, at least every [`INTERVAL`], and only while
//! every watch is alive.

use std::time::Duration;

use crate::backoff::Backoff;

/// Readers expect a beat every 30 s and give up after 90 s; this leaves room for a slow write.
pub const INTERVAL: Duration = Duration::from_secs(25);

/// Least time between two writes, so that a busy cluster costs at most one a second.
pub const SPACING: Duration = Duration::from_secs(1);

/// Times are since the relay started.
#[derive(Debug)]
pub struct Heartbeat {
    backoff: Backoff,
    /// When the last write was begun.
    last: Option<Duration>,
    writing: bool,
    /// Counters moved since the last write was begun.
    moved: bool,
    failures: u32,
}

impl Heartbeat {
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            last: None,
            writing: false,
            moved: false,
            failures: 0,
        }
    }

    /// The counters moved.
    pub fn moved(&mut self) {
        self.moved = true;
    }

    /// When to write next, while the watches are alive until `alive_until`; `None` if not before something else happens.
    pub fn due(&self, now: Duration, alive_until: Option<Duration>) -> Option<Duration> {
        if self.writing {
            return None;
        }
        let wait = if self.failures > 0 {
            self.backoff.delay(self.failures)
        } else if self.moved {
            SPACING
        } else {
            INTERVAL
        };
        let due = self.last.map_or(now, |last| (last + wait).max(now));
        (due <= alive_until?).then_some(due)
    }

    /// A write begins. It must be answered by [`Heartbeat::written`] or [`Heartbeat::failed`].
    pub fn begin(&mut self, now: Duration) {
        self.last = Some(now);
        self.writing = true;
        self.moved = false;
    }

    pub fn written(&mut self) {
        self.writing = false;
        self.failures = 0;
    }

    pub fn failed(&mut self) {
        self.writing = false;
        self.failures = self.failures.saturating_add(1);
    }

    /// When the last write was begun, if it did not fail.
    pub fn last_good(&self) -> Option<Duration> {
        self.last.filter(|_| self.failures == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(1_000));

    fn heartbeat() -> Heartbeat {
        Heartbeat::new(Backoff {
            first: Duration::from_secs(1),
            most: Duration::from_secs(10),
            seed: 0,
        })
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn beats_once_every_watch_was_heard_and_then_at_its_interval() {
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
    fn moved_counters_are_written_at_once_but_not_more_often_than_each_second() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.written();
        heartbeat.moved();
        assert_eq!(heartbeat.due(at(5), LONG), Some(at(6)));
        assert_eq!(heartbeat.due(at(9), LONG), Some(at(9)));
    }

    #[test]
    fn counters_that_move_during_a_write_are_written_after_it() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.moved();
        heartbeat.written();
        assert_eq!(heartbeat.due(at(5), LONG), Some(at(6)));
    }

    #[test]
    fn a_dead_watch_stops_the_heart_even_if_counters_move() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.written();
        heartbeat.moved();
        assert_eq!(heartbeat.due(at(200), Some(at(199))), None);
    }

    #[test]
    fn a_failed_write_is_tried_again_after_a_rest() {
        let mut heartbeat = heartbeat();
        heartbeat.begin(at(5));
        heartbeat.failed();
        let due = heartbeat.due(at(5), LONG).unwrap();
        assert!(due > at(5) && due <= at(6), "{due:?}");
        assert_eq!(heartbeat.last_good(), None);
    }
}
