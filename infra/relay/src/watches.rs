//! Status of each watch, and whether the relay may claim to observe the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::Kind;

/// Time without an event, bookmark or list after which a watch may be dead, and heartbeats stop (docs/protocol.md#l6).
pub const ALIVE: Duration = Duration::from_mins(2);

/// Status of one watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WatchStatus {
    /// The first list is not complete yet.
    #[default]
    Starting,
    Current,
    /// The API server does not serve the kind.
    Missing,
    /// The watch is failing, with the cause.
    Failing(String),
}

/// All watches. All times count from the relay's start.
#[derive(Debug, Default)]
pub struct Watches {
    watches: BTreeMap<Kind, Watch>,
    /// Time at which a watch last stopped being current while all were; the relay's start if they never were.
    unsynced_since: Duration,
}

#[derive(Debug, Default)]
struct Watch {
    status: WatchStatus,
    listed: bool,
    /// Time of the last response of the API server about the kind.
    last_activity: Option<Duration>,
}

impl Watches {
    /// Notes an event or bookmark.
    pub fn mark_alive(&mut self, kind: Kind, now: Duration) {
        let watch = self.watches.entry(kind).or_default();
        watch.last_activity = Some(now);
        if watch.listed {
            watch.status = WatchStatus::Current;
        }
    }

    /// Notes that a list is complete: the watch is current from the next event or page on.
    pub fn listed(&mut self, kind: Kind) {
        self.watches.entry(kind).or_default().listed = true;
    }

    /// Notes that the API server does not serve the kind: no change of it can be missed.
    pub fn missing(&mut self, kind: Kind, now: Duration) {
        self.watches.entry(kind).or_default().last_activity = Some(now);
        self.stop(kind, WatchStatus::Missing, now);
    }

    pub fn failing(&mut self, kind: Kind, cause: String, now: Duration) {
        self.stop(kind, WatchStatus::Failing(cause), now);
    }

    fn stop(&mut self, kind: Kind, status: WatchStatus, now: Duration) {
        let was_current = self.all_current();
        self.watches.entry(kind).or_default().status = status;
        if was_current && !self.all_current() {
            self.unsynced_since = now;
        }
    }

    pub fn get(&self, kind: Kind) -> WatchStatus {
        self.watches
            .get(&kind)
            .map(|watch| watch.status.clone())
            .unwrap_or_default()
    }

    /// Time of the last response of the API server about the kind.
    pub fn last_activity(&self, kind: Kind) -> Option<Duration> {
        self.watches
            .get(&kind)
            .and_then(|watch| watch.last_activity)
    }

    pub fn all_current(&self) -> bool {
        needed().all(|kind| self.get(kind) == WatchStatus::Current)
    }

    /// Time since not all watches are current; zero while they are.
    pub fn unsynced_for(&self, now: Duration) -> Duration {
        match self.all_current() {
            true => Duration::ZERO,
            false => now.saturating_sub(self.unsynced_since),
        }
    }

    /// Time until which every watch counts as alive; `None` before each has had a response.
    pub fn alive_until(&self) -> Option<Duration> {
        needed()
            .map(|kind| self.last_activity(kind).map(|sign| sign + ALIVE))
            .min()
            .flatten()
    }
}

/// Kinds that the relay must watch to observe the cluster.
fn needed() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !kind.is_gated())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn alive_until_most_silent_watch_times_out() {
        let mut watches = Watches::default();
        for (second, kind) in (1..).zip(needed()) {
            assert_eq!(watches.alive_until(), None);
            watches.listed(kind);
            watches.mark_alive(kind, at(second));
        }
        assert_eq!(watches.alive_until(), Some(at(1) + ALIVE));
        watches.mark_alive(Kind::Pod, at(100));
        assert_eq!(watches.alive_until(), Some(at(2) + ALIVE));
    }

    #[test]
    fn missing_kind_is_alive_but_not_current() {
        let mut watches = Watches::default();
        for kind in Kind::ALL {
            watches.listed(kind);
            watches.mark_alive(kind, at(0));
        }
        assert!(watches.all_current());
        watches.missing(Kind::NodePool, at(60));
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::NodePool) {
            watches.mark_alive(kind, at(60));
        }
        assert_eq!(watches.alive_until(), Some(at(60) + ALIVE));
        assert!(!watches.all_current());
    }

    #[test]
    fn gated_kinds_do_not_block_heartbeats() {
        let mut watches = Watches::default();
        for kind in needed() {
            watches.listed(kind);
            watches.mark_alive(kind, at(0));
        }
        watches.missing(Kind::CapacityBuffer, at(0));
        watches.failing(Kind::NodeOverlay, "403".to_owned(), at(0));
        assert!(watches.all_current());
        assert_eq!(watches.alive_until(), Some(ALIVE));
    }

    #[test]
    fn failing_watch_is_current_after_first_list_and_event() {
        let mut watches = Watches::default();
        watches.mark_alive(Kind::Pod, at(0));
        assert_eq!(watches.get(Kind::Pod), WatchStatus::Starting);
        watches.listed(Kind::Pod);
        watches.mark_alive(Kind::Pod, at(1));
        watches.failing(Kind::Pod, "503".to_owned(), at(1));
        assert_eq!(
            watches.get(Kind::Pod),
            WatchStatus::Failing("503".to_owned())
        );
        watches.mark_alive(Kind::Pod, at(2));
        assert_eq!(watches.get(Kind::Pod), WatchStatus::Current);
    }

    #[test]
    fn unsynced_from_first_failing_watch_until_all_are_current() {
        let mut watches = Watches::default();
        assert_eq!(watches.unsynced_for(at(5)), at(5), "since the start");
        for kind in needed() {
            watches.listed(kind);
            watches.mark_alive(kind, at(10));
        }
        assert_eq!(watches.unsynced_for(at(20)), Duration::ZERO);
        watches.failing(Kind::CapacityBuffer, "403".to_owned(), at(20));
        assert_eq!(watches.unsynced_for(at(30)), Duration::ZERO);
        watches.failing(Kind::Pod, "503".to_owned(), at(30));
        watches.failing(Kind::Node, "503".to_owned(), at(40));
        watches.mark_alive(Kind::Pod, at(50));
        assert_eq!(watches.unsynced_for(at(60)), at(30));
        watches.mark_alive(Kind::Node, at(60));
        assert_eq!(watches.unsynced_for(at(70)), Duration::ZERO);
    }
}
