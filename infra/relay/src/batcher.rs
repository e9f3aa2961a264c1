//! The batching window of pending pods, which delays the provisioner's wake (docs/spec/scheduling.md#batching).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::objects::Key;
use crate::outbox::{COALESCING, Hints};

/// Upper bound on distinct triggers that a window remembers. Beyond it, a new trigger no longer extends the window, which its
/// maximum ends anyway.
const TRIGGERS_MAX: usize = 10_000;

/// Number of new pods that justify an early wake while the window is open; fewer rarely fill a node.
const EARLY_WAKE_TRIGGERS: usize = 10;

/// Pause between the first two early wakes of a window. Each further pause is twice as long, so that a window causes only a few
/// early wakes.
const EARLY_WAKE_PAUSE: Duration = Duration::from_millis(500);

/// Limits of a batching window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window closes after this long without a new trigger …
    pub idle: Duration,
    /// … and at the latest this long after it opened.
    pub max: Duration,
}

/// Collects triggers in windows. All times count from the relay's start.
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
    early_wakes: EarlyWakes,
}

/// Early wakes during the open window, for nodes that its pods already fill.
#[derive(Debug)]
struct EarlyWakes {
    /// Triggers since the last early wake.
    collected: usize,
    next: Duration,
    pause: Duration,
}

impl Batcher {
    pub fn new(window: Window) -> Self {
        Self { window, open: None }
    }

    /// Adds a pod or node that needs capacity. The first trigger opens a window; a new one restarts its idle time; a repeated one
    /// has no effect.
    pub fn trigger(&mut self, id: Key, hint: Option<String>, now: Duration) {
        let open = self.open.get_or_insert_with(|| Open {
            since: now,
            last_new: now,
            seen: BTreeSet::new(),
            hints: Hints::default(),
            early_wakes: EarlyWakes {
                collected: 0,
                next: now + COALESCING,
                pause: EARLY_WAKE_PAUSE,
            },
        });
        if open.seen.len() < TRIGGERS_MAX && open.seen.insert(id) {
            open.last_new = now;
            open.early_wakes.collected += 1;
            if open.early_wakes.collected == EARLY_WAKE_TRIGGERS {
                open.early_wakes.next = open.early_wakes.next.max(now);
            }
        }
        open.hints.extend(hint);
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Time at which the open window closes.
    pub fn due(&self) -> Option<Duration> {
        let open = self.open.as_ref()?;
        Some((open.last_new + self.window.idle).min(open.since + self.window.max))
    }

    /// Time at which an early wake is due.
    pub fn early_wake_due(&self) -> Option<Duration> {
        let early_wakes = &self.open.as_ref()?.early_wakes;
        let due = (early_wakes.collected >= EARLY_WAKE_TRIGGERS).then_some(early_wakes.next)?;
        // A turn that begins shortly before the window closes would delay the turn for all pods.
        self.due()
            .filter(|end| due + EARLY_WAKE_PAUSE < *end)
            .map(|_| due)
    }

    /// Returns the hints collected so far, if an early wake is due.
    pub fn take_early_wake(&mut self, now: Duration) -> Option<Hints> {
        self.early_wake_due().filter(|due| *due <= now)?;
        let open = self.open.as_mut()?;
        open.early_wakes = EarlyWakes {
            collected: 0,
            next: now + open.early_wakes.pause,
            pause: open.early_wakes.pause * 2,
        };
        Some(open.hints.clone())
    }

    /// Closes the window if it is due, and returns its hints.
    pub fn close(&mut self, now: Duration) -> Option<Hints> {
        if self.due()? > now {
            return None;
        }
        self.close_now()
    }

    /// Closes the window regardless of the time.
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
    fn window_closes_after_idle_time() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        assert!(batcher.close(at(4)).is_none());
        assert!(batcher.close(at(5)).is_some());
        assert!(!batcher.is_open());
    }

    #[test]
    fn repeated_pod_does_not_extend_window() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        batcher.trigger(pod("a"), None, at(3));
        assert_eq!(batcher.due(), Some(at(5)));
    }

    #[test]
    fn new_pod_extends_window() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        batcher.trigger(pod("b"), None, at(3));
        assert_eq!(batcher.due(), Some(at(8)));
    }

    #[test]
    fn window_closes_at_maximum_despite_new_pods() {
        let mut batcher = Batcher::new(WINDOW);
        for second in 0..10 {
            batcher.trigger(pod(&second.to_string()), None, at(second));
        }
        assert_eq!(batcher.due(), Some(at(10)));
    }

    #[test]
    fn pod_of_previous_window_opens_new_window() {
        let mut batcher = Batcher::new(WINDOW);
        batcher.trigger(pod("a"), None, at(0));
        assert!(batcher.close(at(5)).is_some());
        batcher.trigger(pod("a"), None, at(6));
        batcher.trigger(pod("b"), None, at(7));
        assert_eq!(batcher.due(), Some(at(12)));
    }

    fn trigger_all(batcher: &mut Batcher, pods: std::ops::Range<usize>, now: Duration) {
        for index in pods {
            batcher.trigger(pod(&index.to_string()), None, now);
        }
    }

    #[test]
    fn few_pods_cause_no_early_wake() {
        let mut batcher = Batcher::new(WINDOW);
        trigger_all(&mut batcher, 0..9, at(0));
        assert_eq!(batcher.early_wake_due(), None);
        assert!(batcher.take_early_wake(at(4)).is_none());
    }

    #[test]
    fn many_pods_cause_early_wakes_at_doubling_intervals() {
        let mut batcher = Batcher::new(WINDOW);
        let mut looks = Vec::new();
        for tenth in 0..100_u32 {
            let now = Duration::from_millis(100) * tenth;
            trigger_all(
                &mut batcher,
                tenth as usize * 10..tenth as usize * 10 + 10,
                now,
            );
            if batcher.take_early_wake(now).is_some() {
                looks.push(now.as_millis());
            }
        }
        assert_eq!(looks, [200, 700, 1_700, 3_700, 7_700]);
    }

    #[test]
    fn pods_of_last_early_wake_do_not_count_again() {
        let mut batcher = Batcher::new(WINDOW);
        trigger_all(&mut batcher, 0..20, at(0));
        assert!(batcher.take_early_wake(at(1)).is_some());
        trigger_all(&mut batcher, 0..20, at(2));
        assert_eq!(batcher.early_wake_due(), None);
    }

    #[test]
    fn window_about_to_close_has_no_early_wake() {
        let mut batcher = Batcher::new(Window {
            idle: Duration::from_millis(100),
            max: at(10),
        });
        trigger_all(&mut batcher, 0..20, at(0));
        assert_eq!(batcher.early_wake_due(), None);
    }

    #[test]
    fn trigger_beyond_limit_does_not_extend_window() {
        let mut batcher = Batcher::new(WINDOW);
        for index in 0..TRIGGERS_MAX {
            batcher.trigger(pod(&index.to_string()), None, at(0));
        }
        batcher.trigger(pod("one-more"), None, at(3));
        assert_eq!(batcher.due(), Some(at(5)));
    }
}
