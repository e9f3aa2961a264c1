//! Delays after failures.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Exponential back-off from `first` to `max`, minus up to a quarter of jitter, so that relays that lost the same server do not
/// return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
    /// Determines this relay's jitter.
    pub seed: u64,
}

impl Backoff {
    /// Returns the delay after this many consecutive failures; zero before the first.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = self
            .first
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(self.max);
        let mut hasher = DefaultHasher::new();
        (self.seed, failures).hash(&mut hasher);
        let share = u32::try_from(hasher.finish() % 256).unwrap_or_default();
        full - full / 4 * share / 256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(500),
        max: Duration::from_secs(30),
        seed: 7,
    };

    #[test]
    fn delays_double_up_to_maximum_with_jitter() {
        assert_eq!(BACKOFF.delay(0), Duration::ZERO);
        for (failures, full) in [
            (1, 500),
            (2, 1_000),
            (3, 2_000),
            (7, 30_000),
            (u32::MAX, 30_000),
        ] {
            let full = Duration::from_millis(full);
            let delay = BACKOFF.delay(failures);
            assert!(
                delay <= full && delay >= full * 3 / 4,
                "{failures}: {delay:?}"
            );
        }
    }

    #[test]
    fn relays_have_different_jitter() {
        let other = Backoff { seed: 8, ..BACKOFF };
        assert_ne!(BACKOFF.delay(5), other.delay(5));
    }
}
