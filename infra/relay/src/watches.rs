//! How each watch is doing, and from it whether the relay may claim to see the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::kind::Kind;

/// A watch without an event, a bookmark or a list for longer than this may be dead: the heartbeat stops (PROTOCOL L6).
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
pub struct Watches(BTreeMap<Kind, Watch>);

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
        let watch = self.0.entry(kind).or_default();
        watch.sign = Some(now);
        if watch.listed {
            watch.watching = Watching::Current;
        }
    }

    /// A list came to its end: the watch is current with its next sign.
    pub fn listed(&mut self, kind: Kind) {
        self.0.entry(kind).or_default().listed = true;
    }

    /// The API server answered that there is no such kind: nothing of it can change unseen.
    pub fn missing(&mut self, kind: Kind, now: Duration) {
        let watch = self.0.entry(kind).or_default();
        watch.sign = Some(now);
        watch.watching = Watching::Missing;
    }

    pub fn failing(&mut self, kind: Kind, cause: String) {
        self.0.entry(kind).or_default().watching = Watching::Failing(cause);
    }

    pub fn get(&self, kind: Kind) -> Watching {
        self.0
            .get(&kind)
            .map(|watch| watch.watching.clone())
            .unwrap_or_default()
    }

    /// When the API server last said something about the kind.
    pub fn last_sign(&self, kind: Kind) -> Option<Duration> {
        self.0.get(&kind).and_then(|watch| watch.sign)
    }

    pub fn all_current(&self) -> bool {
        needed().all(|kind| self.get(kind) == Watching::Current)
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
        watches.failing(Kind::NodeOverlay, "403".to_owned());
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
        watches.failing(Kind::Pod, "503".to_owned());
        assert_eq!(watches.get(Kind::Pod), Watching::Failing("503".to_owned()));
        watches.sign(Kind::Pod, at(2));
        assert_eq!(watches.get(Kind::Pod), Watching::Current);
    }
}
