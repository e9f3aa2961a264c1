//! The window in which pending pods are gathered before the provisioner looks (docs/spec/scheduling.md#batching).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::objects::Key;
use crate::outbox::{COALESCING, Hints};

/// Distinct triggers a window remembers. Past it a new one no longer extends the window, which its maximum ends anyway.
const TRIGGERS_MAX: usize = 10_000;

/// Number of new pods that a look into an open window is worth; fewer seldom fill a node.
const GLANCE_AT: usize = 10;

/// Pause between the first two looks into an open window. Each further one is twice as long, so that a window costs a few looks at most.
const GLANCE_PAUSE: Duration = Duration::from_millis(500);

/// How long a window stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// It closes after this long without a new trigger …
    pub idle: Duration,
    /// … and at the latest after this long.
    pub max: Duration,
}

/// Gathers triggers into windows. Times are since the relay started.
#[derive(Debug)]
pub struct Batcher {
    window: Window,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    since: Duration,
    last_new: Duration,
    seen: BTreeSet<Key>,
    hints: Hints,
    glances: Glances,
}

/// Looks into the open window, for nodes that its pods fill already.
#[derive(Debug)]
struct Glances {
    /// Triggers since the last one.
    gathered: usize,
    next: Duration,
    pause: Duration,
}

impl Batcher {
    pub fn new(window: Window) -> Self {
        Self { window, open: None }
    }

    /// A pod or node asks for capacity. The first opens a window; one not seen in the window restarts its idle time;
    /// one seen before does nothing.
    pub fn trigger(&mut self, id: Key, hint: Option<String>, now: Duration) {
        let open = self.open.get_or_insert_with(|| Open {
            since: now,
            last_new: now,
            seen: BTreeSet::new(),
            hints: Hints::default(),
            glances: Glances {
                gathered: 0,
                next: now + COALESCING,
                pause: GLANCE_PAUSE,
            },
        });
        if open.seen.len() < TRIGGERS_MAX && open.seen.insert(id) {
            open.last_new = now;
            open.glances.gathered += 1;
            if open.glances.gathered == GLANCE_AT {
                open.glances.next = open.glances.next.max(now);
            }
        }
        open.hints.extend(hint);
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// When the open window closes.
    pub fn due(&self) -> Option<Duration> {
        let open = self.open.as_ref()?;
        Some((open.last_new + self.window.idle).min(open.since + self.window.max))
    }

    /// When a look into the open window is due.
    pub fn glance_due(&self) -> Option<Duration> {
        let glances = &self.open.as_ref()?.glances;
        let due = (glances.gathered >= GLANCE_AT).then_some(glances.next)?;
        // A turn that begins shortly before the window closes would hold up the one for all pods.
        self.due()
            .filter(|end| due + GLANCE_PAUSE < *end)
            .map(|_| due)
    }

    /// Returns the hints gathered so far, if a look into the open window is due.
    pub fn glance(&mut self, now: Duration) -> Option<Hints> {
        self.glance_due().filter(|due| *due <= now)?;
        let open = self.open.as_mut()?;
        open.glances = Glances {
            gathered: 0,
            next: now + open.glances.pause,
            pause: open.glances.pause * 2,
        };
        Some(open.hints.clone())
    }

    /// Closes the window if it is time, and returns whom it gathered.
    pub fn close(&mut self, now: Duration) -> Option<Hints> {
        if self.due()? > now {
            return None;
        }
        self.close_now()
    }

    /// Closes the window whatever the time.
    pub fn close_now(&mut self) -> Option<Hints> {
        self.open.take().map(|open| open.hints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        idle: Duration::from_secs(5),
        max: Duration::from_secs(10),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pod(name: &str) -> Key {
        Key::new("default", name)
    }

    #[test]
    fn a_window_closes_when_it_was_idle() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        assert!(batcher.close(at(4)).is_none());
        assert!(batcher.close(at(5)).is_some());
        assert!(!batcher.is_open());
    }

    #[test]
    fn a_repeated_pod_does_not_extend_the_window() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        batcher.trigger(pod("a"), None, at(3));
        assert_eq!(batcher.due(), Some(at(5)));
    }

    #[test]
    fn a_new_pod_extends_the_window() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        batcher.trigger(pod("b"), None, at(3));
        assert_eq!(batcher.due(), Some(at(8)));
    }

    #[test]
    fn a_stream_of_new_pods_cannot_hold_a_window_open_past_its_maximum() {
        let mut batcher = Batcher::new(WINDOW);
        for second in 0..10 {
            batcher.trigger(pod(&second.to_string()), None, at(second));
        }
        assert_eq!(batcher.due(), Some(at(10)));
    }

    #[test]
    fn a_pod_seen_in_the_last_window_opens_a_new_one() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        assert!(batcher.close(at(5)).is_some());
        batcher.trigger(pod("a"), None, at(6));
        batcher.trigger(pod("b"), None, at(7));
        assert_eq!(batcher.due(), Some(at(12)));
    }

    fn gather(batcher: &mut Batcher, pods: std::ops::Range<usize>, now: Duration) {
        for index in pods {
            batcher.trigger(pod(&index.to_string()), None, now);
        }
    }

    #[test]
    fn a_few_pods_are_not_looked_at_before_their_window_closes() {
        let mut batcher = Batcher::new(WINDOW);
        gather(&mut batcher, 0..9, at(0));
        assert_eq!(batcher.glance_due(), None);
        assert!(batcher.glance(at(4)).is_none());
    }

    #[test]
    fn many_pods_are_looked_at_while_more_of_them_come_and_less_and_less_often() {
        let mut batcher = Batcher::new(WINDOW);
        let mut looks = Vec::new();
        for tenth in 0..100_u32 {
            let now = Duration::from_millis(100) * tenth;
            gather(
                &mut batcher,
                tenth as usize * 10..tenth as usize * 10 + 10,
                now,
            );
            if batcher.glance(now).is_some() {
                looks.push(now.as_millis());
            }
        }
        assert_eq!(looks, [200, 700, 1_700, 3_700, 7_700]);
    }

    #[test]
    fn pods_of_the_last_look_are_not_looked_at_again() {
        let mut batcher = Batcher::new(WINDOW);
        gather(&mut batcher, 0..20, at(0));
        assert!(batcher.glance(at(1)).is_some());
        gather(&mut batcher, 0..20, at(2));
        assert_eq!(batcher.glance_due(), None);
    }

    #[test]
    fn a_window_that_is_about_to_close_is_not_looked_into() {
        let mut batcher = Batcher::new(Window {
            idle: Duration::from_millis(100),
            max: at(10),
        });
        gather(&mut batcher, 0..20, at(0));
        assert_eq!(batcher.glance_due(), None);
    }

    #[test]
    fn past_the_bound_a_new_pod_is_gathered_but_does_not_extend_the_window() {
        let mut batcher = Batcher::new(WINDOW);
        for index in 0..TRIGGERS_MAX {
            batcher.trigger(pod(&index.to_string()), None, at(0));
        }
        batcher.trigger(pod("one-more"), None, at(3));
        assert_eq!(batcher.due(), Some(at(5)));
    }
}
