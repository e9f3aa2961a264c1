use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

/// The time of the embedded world: the wall's, the wall's but faster, or one that moves only when told. Clones share it.
#[derive(Clone, Debug)]
pub struct WorldClock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Wall,
    /// Milliseconds since the epoch.
    Virtual(Arc<AtomicI64>),
    Accelerated(Arc<Mutex<Pace>>),
}

/// Time that begins in the past and goes faster than the wall's while nobody is at work, until it has caught up.
#[derive(Debug)]
struct Pace {
    rate: u32,
    /// How many are at work.
    working: usize,
    /// What the world's time was when the pace last changed.
    from: Timestamp,
    since: Instant,
}

/// While this lives, an accelerated clock goes as the wall's does.
#[derive(Debug)]
pub struct AtWork(Option<Arc<Mutex<Pace>>>);

/// The pace may change while somebody waits, so they look again after this long at the latest.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl WorldClock {
    pub fn wall() -> Self {
        Self(Kind::Wall)
    }

    pub fn starting_at(start: Timestamp) -> Self {
        Self(Kind::Virtual(Arc::new(AtomicI64::new(
            start.as_millisecond(),
        ))))
    }

    /// Starts this much in the past and goes `rate` times as fast as the wall's time, except while somebody is
    /// [`Self::at_work`]. It never gets ahead of the wall's, because clients would take fresh objects for objects of the
    /// future.
    pub fn accelerated(rate: u32, behind: SignedDuration) -> Self {
        Self(Kind::Accelerated(Arc::new(Mutex::new(Pace {
            rate,
            working: 0,
            from: wall().checked_sub(behind).unwrap_or(Timestamp::MIN),
            since: Instant::now(),
        }))))
    }

    pub fn is_virtual(&self) -> bool {
        matches!(self.0, Kind::Virtual(_))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Wall => wall(),
            Kind::Virtual(millis) => {
                Timestamp::from_millisecond(millis.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
            }
            Kind::Accelerated(pace) => lock(pace).now(),
        }
    }

    /// Moves a virtual clock; others move by themselves.
    pub fn advance(&self, by: SignedDuration) {
        if let Kind::Virtual(millis) = &self.0 {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Lets an accelerated clock go as the wall's while the answer lives: what works under deadlines and leases has as
    /// much time for it as it would have in earnest, however slow the machine is.
    pub fn at_work(&self) -> AtWork {
        let Kind::Accelerated(pace) = &self.0 else {
            return AtWork(None);
        };
        lock(pace).change(|pace| pace.working += 1);
        AtWork(Some(pace.clone()))
    }

    /// How long to sleep, as time goes now, before looking whether it is `when`.
    pub fn sleep_until(&self, when: Timestamp) -> Duration {
        let wait = Duration::try_from(when.duration_since(self.now())).unwrap_or_default();
        match &self.0 {
            Kind::Wall | Kind::Virtual(_) => wait,
            Kind::Accelerated(pace) => (wait / lock(pace).pace()).min(LOOK_AGAIN),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(pace) = &self.0 {
            lock(pace).change(|pace| pace.working = pace.working.saturating_sub(1));
        }
    }
}

impl Pace {
    fn pace(&self) -> u32 {
        if self.working == 0 {
            self.rate.max(1)
        } else {
            1
        }
    }

    fn now(&self) -> Timestamp {
        let gone = self.since.elapsed().saturating_mul(self.pace());
        let gone = SignedDuration::try_from(gone).unwrap_or(SignedDuration::MAX);
        let ahead = self.from.checked_add(gone).unwrap_or(Timestamp::MAX);
        // What was told once is not taken back, also if somebody sets the wall's clock.
        ahead.min(wall().max(self.from))
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        self.from = self.now();
        self.since = Instant::now();
        change(self);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the wall clock enters the embedded world"
)]
fn wall() -> Timestamp {
    Timestamp::now()
}

fn lock(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause() {
        std::thread::sleep(Duration::from_millis(1));
    }

    #[test]
    fn an_accelerated_clock_goes_as_the_walls_while_somebody_works() {
        let clock = WorldClock::accelerated(1_000_000, SignedDuration::from_hours(24 * 365));
        let start = clock.now();
        pause();
        assert!(clock.now().duration_since(start) >= SignedDuration::from_secs(1_000));

        let (one, other) = (clock.at_work(), clock.at_work());
        let (begun, at) = (Instant::now(), clock.now());
        drop(one);
        pause();
        // However slow this machine is, as much time has gone here as there.
        assert!(clock.now().duration_since(at).unsigned_abs() <= begun.elapsed());

        drop(other);
        pause();
        assert!(clock.now().duration_since(at) >= SignedDuration::from_secs(1_000));
    }

    #[test]
    fn an_accelerated_clock_does_not_get_ahead_of_the_wall() {
        let begun = wall();
        let clock = WorldClock::accelerated(1_000_000, SignedDuration::from_secs(10));
        pause();
        assert!(clock.now() >= begun, "it has caught up");
        assert!(clock.now() <= wall());
    }

    #[test]
    fn sleepers_look_again_because_the_pace_may_change() {
        let clock = WorldClock::accelerated(20, SignedDuration::from_hours(1));
        let far = clock.now() + SignedDuration::from_hours(1);
        assert_eq!(clock.sleep_until(far), LOOK_AGAIN);
        assert_eq!(clock.sleep_until(Timestamp::MIN), Duration::ZERO);
    }
}
