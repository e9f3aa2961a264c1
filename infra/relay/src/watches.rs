//! How each watch is doing, and from it whether the relay may claim to see the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::Kind;

/// A watch without an event, a bookmark or a list for longer than this may be dead: the heartbeat stops (docs/protocol.md#l6).
pub const ALIVE: Duration = Duration::from_mins(2);

/// How one watch is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// The first list has not come to its end yet.
    #[default]
    Starting,
    Current,
    /// The API server does not know the kind.
    Missing,
    /// Not to be had right now, and why.
    Failing(String),
}

/// All watches. Times are since the relay started.
#[derive(Debug, Default)]
pub struct Watches {
    watches: BTreeMap<Kind, Watch>,
    /// When a watch last stopped being current although all were: the relay's start where they never were.
    unsynced_since: Duration,
}

#[derive(Debug, Default)]
struct Watch {
    watching: Watching,
    listed: bool,
    /// When the API server last said something about the kind.
    sign: Option<Duration>,
}

impl Watches {
    /// An event or bookmark came.
    pub fn sign(&mut self, kind: Kind, now: Duration) {
        let watch = self.watches.entry(kind).or_default();
        watch.sign = Some(now);
        if watch.listed {
            watch.watching = Watching::Current;
        }
    }

    /// A list came to its end: the watch is current with its next sign.
    pub fn listed(&mut self, kind: Kind) {
        self.watches.entry(kind).or_default().listed = true;
    }

    /// The API server answered that there is no such kind: nothing of it can change unseen.
    pub fn missing(&mut self, kind: Kind, now: Duration) {
        self.watches.entry(kind).or_default().sign = Some(now);
        self.stop(kind, Watching::Missing, now);
    }

    pub fn failing(&mut self, kind: Kind, cause: String, now: Duration) {
        self.stop(kind, Watching::Failing(cause), now);
    }

    fn stop(&mut self, kind: Kind, watching: Watching, now: Duration) {
        let was_current = self.all_current();
        self.watches.entry(kind).or_default().watching = watching;
        if was_current && !self.all_current() {
            self.unsynced_since = now;
        }
    }

    pub fn get(&self, kind: Kind) -> Watching {
        self.watches
            .get(&kind)
            .map(|watch| watch.watching.clone())
            .unwrap_or_default()
    }

    /// When the API server last said something about the kind.
    pub fn last_sign(&self, kind: Kind) -> Option<Duration> {
        self.watches.get(&kind).and_then(|watch| watch.sign)
    }

    pub fn all_current(&self) -> bool {
        needed().all(|kind| self.get(kind) == Watching::Current)
    }

    /// Time for which not all watches have been current; none while they are.
    pub fn unsynced_for(&self, now: Duration) -> Duration {
        match self.all_current() {
            true => Duration::ZERO,
            false => now.saturating_sub(self.unsynced_since),
        }
    }

    /// Until when every watch counts as alive; `None` before each has been heard.
    pub fn alive_until(&self) -> Option<Duration> {
        needed()
            .map(|kind| self.last_sign(kind).map(|sign| sign + ALIVE))
            .min()
            .flatten()
    }
}

/// Kinds without which the relay does not see the cluster.
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
    fn alive_as_long_as_the_most_silent_watch() {
        let mut watches = Watches::default();
        for (second, kind) in (1..).zip(needed()) {
            assert_eq!(watches.alive_until(), None);
            watches.listed(kind);
            watches.sign(kind, at(second));
        }
        assert_eq!(watches.alive_until(), Some(at(1) + ALIVE));
        watches.sign(Kind::Pod, at(100));
        assert_eq!(watches.alive_until(), Some(at(2) + ALIVE));
    }

    #[test]
    fn a_missing_kind_counts_as_heard_but_is_not_current() {
        let mut watches = Watches::default();
        for kind in Kind::ALL {
            watches.listed(kind);
            watches.sign(kind, at(0));
        }
        assert!(watches.all_current());
        watches.missing(Kind::NodePool, at(60));
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::NodePool) {
            watches.sign(kind, at(60));
        }
        assert_eq!(watches.alive_until(), Some(at(60) + ALIVE));
        assert!(!watches.all_current());
    }

    #[test]
    fn gated_kinds_hold_up_nothing() {
        let mut watches = Watches::default();
        for kind in needed() {
            watches.listed(kind);
            watches.sign(kind, at(0));
        }
        watches.missing(Kind::CapacityBuffer, at(0));
        watches.failing(Kind::NodeOverlay, "403".to_owned(), at(0));
        assert!(watches.all_current());
        assert_eq!(watches.alive_until(), Some(ALIVE));
    }

    #[test]
    fn a_failing_watch_is_current_again_with_the_next_event_but_not_before_its_first_list() {
        let mut watches = Watches::default();
        watches.sign(Kind::Pod, at(0));
        assert_eq!(watches.get(Kind::Pod), Watching::Starting);
        watches.listed(Kind::Pod);
        watches.sign(Kind::Pod, at(1));
        watches.failing(Kind::Pod, "503".to_owned(), at(1));
        assert_eq!(watches.get(Kind::Pod), Watching::Failing("503".to_owned()));
        watches.sign(Kind::Pod, at(2));
        assert_eq!(watches.get(Kind::Pod), Watching::Current);
    }

    #[test]
    fn unsynced_from_the_first_watch_that_stops_until_the_last_is_current() {
        let mut watches = Watches::default();
        assert_eq!(watches.unsynced_for(at(5)), at(5), "since the start");
        for kind in needed() {
            watches.listed(kind);
            watches.sign(kind, at(10));
        }
        assert_eq!(watches.unsynced_for(at(20)), Duration::ZERO);
        watches.failing(Kind::CapacityBuffer, "403".to_owned(), at(20));
        assert_eq!(watches.unsynced_for(at(30)), Duration::ZERO);
        watches.failing(Kind::Pod, "503".to_owned(), at(30));
        watches.failing(Kind::Node, "503".to_owned(), at(40));
        watches.sign(Kind::Pod, at(50));
        assert_eq!(watches.unsynced_for(at(60)), at(30));
        watches.sign(Kind::Node, at(60));
        assert_eq!(watches.unsynced_for(at(70)), Duration::ZERO);
    }
}
