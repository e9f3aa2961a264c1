//! How long to rest after failures.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Doubles from `first` to `most`, less up to a quarter, so that relays that lost the same server come back apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub most: Duration,
    /// Makes this relay's rests its own.
    pub seed: u64,
}

impl Backoff {
    /// The rest after that many failures in a row; none before the first.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = self
            .first
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(self.most);
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
        most: Duration::from_secs(30),
        seed: 7,
    };

    #[test]
    fn rests_double_up_to_the_bound_less_a_quarter_at_most() {
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
    fn relays_come_back_apart() {
        let other = Backoff { seed: 8, ..BACKOFF };
        assert_ne!(BACKOFF.delay(5), other.delay(5));
    }
}
