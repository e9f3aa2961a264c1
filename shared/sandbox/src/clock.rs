use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

/// Time of the simulated cluster: wall time, accelerated time, or a virtual time that only [`Self::advance`] moves.
/// Clones share one clock.
#[derive(Clone, Debug)]
pub struct WorldClock(ClockMode);

#[derive(Clone, Debug)]
enum ClockMode {
    Wall,
    /// Milliseconds since the epoch.
    Virtual(Arc<AtomicI64>),
    Accelerated(Arc<Mutex<AcceleratedTime>>),
}

/// Time that starts in the past and runs `rate` times as fast as wall time until it has caught up. While a
/// [`RealTimeGuard`] exists, it runs at the speed of wall time.
#[derive(Debug)]
struct AcceleratedTime {
    rate: u32,
    /// Number of guards that exist.
    guards: usize,
    /// Simulated time at which the speed last changed.
    from: Timestamp,
    since: Instant,
}

/// Guard: an accelerated clock runs at the speed of wall time while a guard exists.
#[derive(Debug)]
pub struct RealTimeGuard(Option<Arc<Mutex<AcceleratedTime>>>);

/// Longest sleep of an accelerated clock: the speed may change in the meantime, so sleepers compute the remaining time again.
const SLEEP_MAX: Duration = Duration::from_millis(50);

impl WorldClock {
    pub fn wall() -> Self {
        Self(ClockMode::Wall)
    }

    pub fn starting_at(start: Timestamp) -> Self {
        Self(ClockMode::Virtual(Arc::new(AtomicI64::new(
            start.as_millisecond(),
        ))))
    }

    /// Accelerated clock that starts `behind` in the past and runs `rate` times as fast as wall time, except while
    /// [`Self::real_time`] guards exist. It never gets ahead of wall time: clients would take fresh objects for objects
    /// of the future.
    pub fn accelerated(rate: u32, behind: SignedDuration) -> Self {
        Self(ClockMode::Accelerated(Arc::new(Mutex::new(
            AcceleratedTime {
                rate,
                guards: 0,
                from: wall().checked_sub(behind).unwrap_or(Timestamp::MIN),
                since: Instant::now(),
            },
        ))))
    }

    pub fn is_virtual(&self) -> bool {
        matches!(self.0, ClockMode::Virtual(_))
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockMode::Wall => wall(),
            ClockMode::Virtual(millis) => {
                Timestamp::from_millisecond(millis.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
            }
            ClockMode::Accelerated(time) => lock(time).now(),
        }
    }

    /// Moves a virtual clock forward; has no effect on other clocks.
    pub fn advance(&self, by: SignedDuration) {
        if let ClockMode::Virtual(millis) = &self.0 {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Slows an accelerated clock down to wall time while the guard lives: work under deadlines and leases then has as
    /// much time as in production, however slow the machine is.
    pub fn real_time(&self) -> RealTimeGuard {
        let ClockMode::Accelerated(time) = &self.0 else {
            return RealTimeGuard(None);
        };
        lock(time).change(|time| time.guards += 1);
        RealTimeGuard(Some(time.clone()))
    }

    /// Wall-clock duration to sleep before checking again whether `when` has come, at the clock's present speed.
    pub fn sleep_until(&self, when: Timestamp) -> Duration {
        let wait = Duration::try_from(when.duration_since(self.now())).unwrap_or_default();
        match &self.0 {
            ClockMode::Wall | ClockMode::Virtual(_) => wait,
            ClockMode::Accelerated(time) => (wait / lock(time).speed()).min(SLEEP_MAX),
        }
    }
}

impl Drop for RealTimeGuard {
    fn drop(&mut self) {
        if let Some(time) = &self.0 {
            lock(time).change(|time| time.guards = time.guards.saturating_sub(1));
        }
    }
}

impl AcceleratedTime {
    fn speed(&self) -> u32 {
        if self.guards == 0 {
            self.rate.max(1)
        } else {
            1
        }
    }

    fn now(&self) -> Timestamp {
        let elapsed = self.since.elapsed().saturating_mul(self.speed());
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        let ahead = self.from.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        // The clock never goes back, not even if the wall clock is set back.
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

fn lock(time: &Mutex<AcceleratedTime>) -> MutexGuard<'_, AcceleratedTime> {
    time.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause() {
        std::thread::sleep(Duration::from_millis(1));
    }

    #[test]
    fn accelerated_clock_runs_at_wall_speed_while_guarded() {
        let clock = WorldClock::accelerated(1_000_000, SignedDuration::from_hours(24 * 365));
        let start = clock.now();
        pause();
        assert!(clock.now().duration_since(start) >= SignedDuration::from_secs(1_000));

        let (first, second) = (clock.real_time(), clock.real_time());
        let (begun, at) = (Instant::now(), clock.now());
        drop(first);
        pause();
        // The clock advances at most as fast as the machine's own, however slow the machine is.
        assert!(clock.now().duration_since(at).unsigned_abs() <= begun.elapsed());

        drop(second);
        pause();
        assert!(clock.now().duration_since(at) >= SignedDuration::from_secs(1_000));
    }

    #[test]
    fn accelerated_clock_does_not_overtake_wall_time() {
        let begun = wall();
        let clock = WorldClock::accelerated(1_000_000, SignedDuration::from_secs(10));
        pause();
        assert!(clock.now() >= begun, "it has caught up");
        assert!(clock.now() <= wall());
    }

    #[test]
    fn sleeps_are_bounded_because_the_speed_may_change() {
        let clock = WorldClock::accelerated(20, SignedDuration::from_hours(1));
        let far = clock.now() + SignedDuration::from_hours(1);
        assert_eq!(clock.sleep_until(far), SLEEP_MAX);
        assert_eq!(clock.sleep_until(Timestamp::MIN), Duration::ZERO);
    }
}
